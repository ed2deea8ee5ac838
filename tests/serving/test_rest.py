"""The routes of HTTP: each of the protocol, its extensions, and what is said of a request that is wrong."""

from __future__ import annotations

import json
import socket
import struct
import sys

import pytest
import torch

from tests.serving.clients import Http, binary, binary_results, raw, results, tensor
from tests.serving.conftest import Server
from tests.serving.models import DTYPES

X = torch.tensor([[4.0, -2.0, 1.0]])
LIMIT = tensor("limit", torch.tensor(1.0))


@pytest.fixture
def http(shared: Server) -> Http:
    return shared.http()


# -- what there is -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_the_server_tells_its_name_and_extensions(http, path):
    status, answer = http.get(path)
    assert status == 200
    assert answer["name"] == "dy2st" and answer["version"]
    assert {"binary_tensor_data", "model_repository"} <= set(answer["extensions"])


def test_the_server_is_live_and_ready(http):
    assert http.get("/v2/health/live") == (200, {"live": True})
    assert http.get("/v2/health/ready") == (200, {"ready": True})


@pytest.mark.parametrize("path", ["/v2/models/halve", "/v2/models/halve/versions/1"])
def test_a_model_tells_its_tensors(http, path):
    status, answer = http.get(path)
    assert status == 200
    assert answer == {
        "name": "halve",
        "versions": ["1"],
        "platform": "dy2st_archive",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}, {"name": "limit", "datatype": "FP32", "shape": []}],
        "outputs": [{"name": "result", "datatype": "FP32", "shape": [-1, 3]}],
    }


def test_what_only_a_call_decides_is_left_out_of_the_outputs(http):
    _, answer = http.get("/v2/models/structured")
    names = [output["name"] for output in answer["outputs"]]
    assert names == ["sum", "pair.0", "pair.1.0", "number", "is_large", "text", "z"]


@pytest.mark.parametrize("path", ["/v2/models/halve/ready", "/v2/models/halve/versions/1/ready"])
def test_a_model_is_ready(http, path):
    assert http.get(path) == (200, {"name": "halve", "ready": True})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/nothing", 404),
        ("GET", "/v2/models/nothing/ready", 404),
        ("GET", "/v2/models/halve/versions/2", 404),
        ("GET", "/v2/models/halve/versions/..%2f..%2fetc", 404),
        ("GET", "/v2/models/halve.nothing", 404),
        ("POST", "/v2/models/nothing/infer", 404),
        ("POST", "/v2/models/halve/versions/9/infer", 404),
        ("GET", "/v2/models/halve/infer", 405),
        ("POST", "/v2/models/halve", 405),
        ("GET", "/nothing", 404),
        ("GET", "/v2/models/", 404),
        ("DELETE", "/v2", 405),
    ],
)
def test_what_is_not_there_is_said_in_json(http, method, path, status):
    found, answer = http.ask(method, path, "{}" if method == "POST" else None)
    assert found == status
    assert set(answer) == {"error"} and answer["error"]


def test_the_page_runs_its_own_script_alone(http):
    status, headers, page = http.ask_fully("GET", "/")
    assert status == 200 and b"<script>" in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy and "unsafe" not in policy
    assert b"http://" not in page and b"https://" not in page and b"innerHTML" not in page


def test_the_status_has_occupancy_and_latency(http):
    assert http.infer("halve", tensor("x", X), LIMIT)[0] == 200
    _, answer = http.get("/status")
    line = next(line for line in answer["models"] if line["name"] == "halve")
    assert line["running"] == line["waiting"] == 0 and line["outcomes"]["200"] >= 1 and 0 < line["p50"] <= line["p99"]


def test_the_schema_names_every_route(http):
    _, schema = http.get("/openapi.json")
    assert len(schema["paths"]) == 12 and schema["openapi"].startswith("3.0")


# -- calls -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v2/models/halve/infer", "/v2/models/halve/versions/1/infer"])
def test_a_call_gives_what_the_model_gives(http, path):
    status, answer = http.ask("POST", path, {"id": "7", "inputs": [LIMIT, tensor("x", X)]})
    assert status == 200
    output = {"name": "result", "datatype": "FP32", "shape": [1, 3], "data": [1.0, -0.5, 0.25]}
    assert answer == {"model_name": "halve", "model_version": "1", "id": "7", "outputs": [output]}


@pytest.mark.parametrize("data", [[4, -2, 1.0], [[4, -2, 1.0]]])
def test_data_is_flat_or_nested(http, data):
    _, answer = http.infer("halve", tensor("x", X) | {"data": data}, LIMIT)
    assert results(answer) == {"result": [1.0, -0.5, 0.25]}


def test_another_method_is_a_model_of_its_own(http):
    assert results(http.infer("halve.twice", tensor("x", X))[1]) == {"result": [8.0, -4.0, 2.0]}


def test_structures_are_told_by_the_way_to_each_part(http):
    two = torch.tensor([1.0, 2.0])
    given = [tensor("pair.0", two), tensor("pair.1", two), tensor("table.bias", two), tensor("count", torch.tensor([5]))]
    status, answer = http.infer("structured", *given)
    assert status == 200
    assert results(answer) == {
        "sum": [6.0, 8.0],
        "pair.0": [1.0, 2.0],
        "pair.1.0": [2.0, 4.0],
        **{f"grown.{trip}": [2.0 + trip, 3.0 + trip] for trip in range(4)},
        "number": [5],
        "is_large": [False],
        "text": ["5 ü"],
        "z": [1.0, 1.0, 2.0, 2.0],
    }
    shapes = {output["name"]: (output["datatype"], output["shape"]) for output in answer["outputs"]}
    assert shapes["number"] == ("INT64", [1]) and shapes["text"] == ("BYTES", [1]) and shapes["z"] == ("FP32", [2, 2])


def test_a_number_may_come_without_dimensions(http):
    two = torch.tensor([1.0, 2.0])
    given = [tensor("pair.0", two), tensor("pair.1", two), tensor("table.bias", two), tensor("count", torch.tensor(5))]
    assert results(http.infer("structured", *given)[1])["number"] == [5]


VALUES = {dtype: torch.tensor([1, 0]).to(dtype) for dtype in DTYPES}
for _dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    VALUES[_dtype] = torch.tensor([1.5, -0.375], dtype=_dtype)
for _dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
    VALUES[_dtype] = torch.tensor([torch.iinfo(_dtype).min, torch.iinfo(_dtype).max], dtype=_dtype)
for _dtype in (torch.uint8, torch.uint16, torch.uint32):
    VALUES[_dtype] = torch.tensor([0, torch.iinfo(_dtype).max]).to(_dtype)


def echo() -> list[tuple[str, torch.Tensor]]:
    return [(f"tensors.{number}", VALUES[dtype]) for number, dtype in enumerate(DTYPES)]


def test_every_datatype_goes_through_json(http):
    status, answer = http.infer("echo", *(tensor(name, value) for name, value in echo()))
    assert status == 200
    assert list(results(answer).values()) == [
        value.double().tolist() if value.is_floating_point() else value.tolist() for _, value in echo()
    ]


def test_every_datatype_goes_through_bytes(http):
    body, size = binary(*echo())
    status, headers, content = http.ask_fully("POST", "/v2/models/echo/infer", body, Inference_Header_Content_Length=size)
    assert status == 200
    assert [data for _, _, data in binary_results(headers, content).values()] == [raw(value) for _, value in echo()]


def test_an_output_may_be_wanted_in_bytes_and_another_in_json(http):
    wanted = [{"name": "int64"}, {"name": "float32", "parameters": {"binary_data": True}}]
    body = {"inputs": [tensor(name, value) for name, value in echo()], "outputs": wanted}
    status, headers, content = http.ask_fully("POST", "/v2/models/echo/infer", body)
    assert status == 200
    size = int(headers["inference-header-content-length"])
    first, second = json.loads(content[:size])["outputs"]
    assert first["data"] == VALUES[torch.int64].tolist() and "data" not in second
    assert content[size:] == raw(VALUES[torch.float32])


def test_texts_in_bytes_stand_behind_their_lengths(http):
    two = torch.tensor([1.0, 2.0])
    named = ("pair.0", two), ("pair.1", two), ("table.bias", two), ("count", torch.tensor([5]))
    body, size = binary(*named, outputs=[{"name": "text", "parameters": {"binary_data": True}}])
    _, headers, content = http.ask_fully("POST", "/v2/models/structured/infer", body, Inference_Header_Content_Length=size)
    assert binary_results(headers, content)["text"] == ("BYTES", [1], struct.pack("<I", 4) + "5 ü".encode())


def test_numbers_that_json_does_not_have_are_texts(http):
    x = tensor("x", X) | {"data": ["NaN", "Infinity", "-Infinity"]}
    _, answer = http.infer("halve.twice", x)
    assert results(answer) == {"result": ["NaN", "Infinity", "-Infinity"]}


def test_an_empty_tensor_is_one(http):
    x = {"name": "x", "datatype": "FP32", "shape": [0, 3], "data": []}
    status, answer = http.infer("halve.twice", x)
    assert status == 200 and answer["outputs"][0]["shape"] == [0, 3]


def test_a_result_may_be_empty(http):
    status, answer = http.infer("picky", tensor("x", torch.zeros(2)))
    assert status == 200 and answer["outputs"][0]["shape"] == [0] and answer["outputs"][0]["data"] == []


# -- what is wrong -----------------------------------------------------------------------------------------------------------------

WRONG = {
    "no JSON": ("{", "is not JSON"),
    "nothing": ("", "is not JSON"),
    "not UTF-8": (b'"\xff\xfe', "is not JSON"),
    "nested": ("[" * 100_000, "nested too deeply"),
    "a list": ("[]", "the request must be an object, but is a list"),
    "no inputs": ("{}", "inputs must be a list, but is not there"),
    "inputs of numbers": ('{"inputs": [3]}', "inputs[0] must be an object, but is a number"),
    "no name": ({"inputs": [{"datatype": "FP32", "shape": [1]}]}, "inputs[0].name must be a text"),
    "a size that is none": ({"inputs": [tensor("x", X) | {"shape": [1.5, 3]}]}, "inputs[0].shape is a list of sizes"),
    "a negative size": ({"inputs": [tensor("x", X) | {"shape": [-1, 3]}]}, "inputs[0].shape is a list of sizes"),
    "a true size": ({"inputs": [tensor("x", X) | {"shape": [True, 3]}]}, "inputs[0].shape is a list of sizes"),
    "a huge size": ({"inputs": [tensor("x", X) | {"shape": [2**63, 3]}]}, "inputs[0].shape is a list of sizes"),
    "no data": ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3]}]}, "inputs[0].data must be a list"),
    "missing": ({"inputs": [tensor("x", X)]}, "input 'limit' is missing; the model takes x: FP32[-1, 3], limit: FP32[]"),
    "unknown": ({"inputs": [tensor("x", X), LIMIT, tensor("y", X)]}, "there is no input 'y'"),
    "twice": ({"inputs": [tensor("x", X), LIMIT, LIMIT]}, "input 'limit' is there twice"),
    "dtype": ({"inputs": [tensor("x", X.double()), LIMIT]}, "input 'x' must be FP32[-1, 3], but is FP64[1, 3]"),
    "no dtype": ({"inputs": [tensor("x", X) | {"datatype": "<b>"}, LIMIT]}, "input 'x' must be FP32[-1, 3], but is <b>"),
    "rank": ({"inputs": [tensor("x", X[0]), LIMIT]}, "input 'x' must be FP32[-1, 3], but is FP32[3]"),
    "size": ({"inputs": [tensor("x", X.T), LIMIT]}, "input 'x' must be FP32[-1, 3], but is FP32[3, 1]"),
    "count": ({"inputs": [tensor("x", X) | {"data": [1.0]}, LIMIT]}, "takes 3 values, but has 1"),
    "ragged": ({"inputs": [tensor("x", X) | {"data": [[1.0], 2.0]}, LIMIT]}, "its nested data has not the shape [1, 3]"),
    "a text": ({"inputs": [tensor("x", X) | {"data": ["1", 2, 3]}, LIMIT]}, "takes numbers"),
    "true": ({"inputs": [tensor("x", X) | {"data": [True, 2, 3]}, LIMIT]}, "takes numbers"),
    "null": ({"inputs": [tensor("x", X) | {"data": [None, 2, 3]}, LIMIT]}, "takes numbers"),
    "too large": ({"inputs": [tensor("x", X) | {"data": [1e39, 2, 3]}, LIMIT]}, "a number that no FP32 can be"),
    "no output": (
        {"inputs": [tensor("x", X), LIMIT], "outputs": [{"name": "y"}]},
        "there is no output 'y'; the model gives result",
    ),
    "output twice": ({"inputs": [tensor("x", X), LIMIT], "outputs": [{"name": "result"}] * 2}, "names one twice"),
    "flag": ({"inputs": [tensor("x", X), LIMIT], "parameters": {"binary_data_output": 1}}, "binary_data_output is true or false"),
    "timeout": ({"inputs": [tensor("x", X), LIMIT], "parameters": {"timeout": -1}}, "timeout is a positive whole number"),
    "id": ({"inputs": [tensor("x", X), LIMIT], "id": 3}, "id must be a text"),
    "binary without bytes": (
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}]},
        "binary_data_size 12, and 0 bytes are left",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_told_what_was_wanted(http, case):
    body, message = WRONG[case]
    status, answer = http.ask("POST", "/v2/models/halve/infer", body)
    assert status == 400 and message in answer["error"]


def test_whole_numbers_stay_in_their_datatype(http):
    for value, message in ((300, "from 0 to 255"), (1.5, "whole numbers"), (True, "whole numbers")):
        inputs = [tensor(name, item) for name, item in echo()]
        inputs[1]["data"] = [value, 0]
        status, answer = http.infer("echo", *inputs)
        assert status == 400 and message in answer["error"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body, size: (body[:-1], size), "bytes are left of the body"),
        (lambda body, size: (body + b"1", size), "1 bytes stand behind the last tensor"),
        (lambda body, size: (body, str(len(body) + 1)), "the body has"),
        (lambda body, size: (body, "many"), "is a whole number"),
        (lambda body, size: (body, "9" * 40), "is a whole number"),
        (lambda body, size: (body.replace(b"[1, 3]", b"[2, 3]"), size), "takes 24 bytes, but has 12"),
    ],
)
def test_wrong_bytes_are_told(http, change, message):
    body, size = change(*binary(("x", X), ("limit", torch.tensor(1.0))))
    status, answer = http.ask("POST", "/v2/models/halve/infer", body, Inference_Header_Content_Length=size)
    assert status == 400 and message in answer["error"]


def test_bytes_of_bool_are_0_or_1(http):
    body, size = binary(*echo())
    place = int(size)
    body = body[:place] + b"\x02" + body[place + 1 :]
    status, answer = http.ask("POST", "/v2/models/echo/infer", body, Inference_Header_Content_Length=size)
    assert status == 400 and "BOOL, whose bytes are 0 or 1" in answer["error"]


def test_an_error_of_the_model_is_told_in_one_line(http):
    status, answer = http.infer("picky", tensor("x", torch.tensor([-1.0])))
    assert status == 500 and answer == {"error": "the model raised ValueError: negative"}


def test_a_compressed_body_is_refused(http):
    status, answer = http.ask("POST", "/v2/models/halve/infer", b"x", Content_Encoding="gzip")
    assert status == 415 and "compressed" in answer["error"]


def test_a_page_of_another_site_is_refused(http):
    for path in ("/v2/models/halve/infer", "/v2/repository/models/halve/unload", "/v2/repository/index"):
        status, answer = http.ask("POST", path, {}, Origin="http://other.example")
        assert status == 403 and "another site" in answer["error"]
    own = f"127.0.0.1:{http.connection.port}"
    assert http.ask("POST", "/v2/repository/index", {}, Origin=f"http://{own}")[0] == 200


def test_what_is_no_http_is_refused(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert b"400" in connection.recv(100)


def test_head_and_expect_are_answered(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as connection:
        connection.sendall(b"HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        head = connection.recv(1000)
        assert head.startswith(b"HTTP/1.1 200 OK") and head.endswith(b"\r\n\r\n")
        body = json.dumps({"inputs": [tensor("x", X)]}).encode()
        lines = b"POST /v2/models/halve.twice/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(lines % len(body))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(body)
        assert connection.recv(1000).endswith(b'"data":[8.0,-4.0,2.0]}]}')


def test_requests_in_a_row_are_answered_in_a_row(shared):
    body = json.dumps({"inputs": [tensor("x", X)]}).encode()
    one = b"POST /v2/models/halve.twice/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as connection:
        connection.sendall(one * 5)
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 5 or not data.endswith(b"}"):
            data += connection.recv(10_000)
    assert data.count(b'"data":[8.0,-4.0,2.0]') == 5


def test_two_models_are_called_on_one_connection_in_turns(http):
    for _ in range(5):
        assert http.infer("halve.twice", tensor("x", X))[0] == 200
        assert http.infer("picky", tensor("x", X[0]))[0] == 200


def test_prometheus_reads_the_metrics(http):
    http.infer("halve", tensor("x", X), LIMIT)
    http.ask("POST", "/v2/models/<evil>%22%0A/infer", "{}")
    status, headers, text = http.ask_fully("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = text.decode().splitlines()
    assert any(line.startswith('dy2st_requests_total{model="halve",protocol="http",outcome="200"} ') for line in lines)
    assert any(line.startswith('dy2st_request_seconds_bucket{model="halve",protocol="http",le="+Inf"} ') for line in lines)
    assert "evil" not in text.decode()


def test_a_server_runs_without_httptools_and_uvloop(serve, monkeypatch):
    for module in ("dy2st_runtime.serving.web.connections", "uvloop"):
        monkeypatch.setitem(sys.modules, module, None)
    http = serve("halve").http()
    assert results(http.infer("halve", tensor("x", X), LIMIT)[1]) == {"result": [1.0, -0.5, 0.25]}
    body, size = binary(("x", X), ("limit", torch.tensor(1.0)))
    status, headers, content = http.ask_fully("POST", "/v2/models/halve/infer", body, Inference_Header_Content_Length=size)
    assert status == 200 and binary_results(headers, content)["result"][1] == [1, 3]
    assert http.ask("POST", "/v2/models/halve/infer", "{")[0] == 400
