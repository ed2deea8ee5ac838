"""The service of gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import torch

import dy2st
from dy2st_runtime.serving.protocol.grpc_messages import SERVICE, messages
from tests.serving.clients import raw, soon
from tests.serving.conftest import Serve, Server
from tests.serving.models import DTYPES

X = torch.tensor([[4.0, -2.0, 1.0]])


class Client:
    """A channel, and a method for each of the service."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def start(self, name: str, request: Any, **more: Any) -> Any:
        kinds = messages()
        take, give = kinds[f"{name}Request"].SerializeToString, kinds[f"{name}Response"].FromString
        return self.channel.unary_unary(f"/{SERVICE}/{name}", request_serializer=take, response_deserializer=give).future(
            request, **more
        )

    def ask(self, name: str, request: Any = None, /, metadata: Any = None, **fields: Any) -> Any:
        message = messages()[f"{name}Request"](**fields) if request is None else request
        return self.start(name, message, metadata=metadata, timeout=30).result()

    def code(self, name: str, request: Any = None, /, **fields: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.ask(name, request, **fields)
        return caught.value.code(), caught.value.details()


@pytest.fixture
def client(shared: Server) -> Iterator[Client]:
    result = Client(shared.grpc_port)
    yield result
    result.channel.close()


def request(model: str, *named: tuple[str, str, torch.Tensor], is_raw: bool = True, **fields: Any) -> Any:
    result = messages()["ModelInferRequest"](model_name=model, **fields)
    for name, datatype, value in named:
        item = result.inputs.add(name=name, datatype=datatype, shape=value.shape)
        if is_raw:
            result.raw_input_contents.append(raw(value))
        else:
            field = {"FP32": "fp32_contents", "INT64": "int64_contents"}[datatype]
            getattr(item.contents, field).extend(value.flatten().tolist())
    return result


def halve(is_raw: bool = True, **fields: Any) -> Any:
    return request("halve", ("x", "FP32", X), ("limit", "FP32", torch.tensor(1.0)), is_raw=is_raw, **fields)


def spin(trips: int) -> Any:
    return request("spin", ("trips", "INT64", torch.tensor(trips)))


def test_the_server_and_its_models_tell_of_themselves(client):
    assert client.ask("ServerLive").live and client.ask("ServerReady").ready
    assert client.ask("ServerMetadata").name == "dy2st"
    assert client.ask("ModelReady", name="halve").ready and client.ask("ModelReady", name="halve", version="1").ready
    found = client.ask("ModelMetadata", name="halve")
    assert (found.name, list(found.versions), found.platform) == ("halve", ["1"], "dy2st_archive")
    assert [(i.name, i.datatype, list(i.shape)) for i in found.inputs] == [("x", "FP32", [-1, 3]), ("limit", "FP32", [])]
    assert [(o.name, o.datatype, list(o.shape)) for o in found.outputs] == [("result", "FP32", [-1, 3])]


def test_a_call_answers_in_the_form_of_the_request(client):
    with_bytes = client.ask("ModelInfer", halve(id="3"))
    assert (with_bytes.model_name, with_bytes.model_version, with_bytes.id) == ("halve", "1", "3")
    assert list(with_bytes.raw_output_contents) == [raw(torch.tensor([1.0, -0.5, 0.25]))]
    with_numbers = client.ask("ModelInfer", halve(is_raw=False, model_version="1"))
    assert list(with_numbers.outputs[0].contents.fp32_contents) == [1.0, -0.5, 0.25] and not with_numbers.raw_output_contents


def test_every_datatype_goes_through(client):
    names = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"]
    values = [torch.tensor([1, 0]).to(dtype) for dtype in DTYPES]
    message = request("echo", *((f"tensors.{n}", name, value) for n, (name, value) in enumerate(zip(names, values))))
    answer = client.ask("ModelInfer", message)
    assert [output.datatype for output in answer.outputs] == names
    assert list(answer.raw_output_contents) == [raw(value) for value in values]


def test_some_outputs_are_asked_for(client):
    two = torch.tensor([1.0, 2.0])
    named = [(name, "FP32", two) for name in ("pair.0", "pair.1", "table.bias")] + [("count", "INT64", torch.tensor([5]))]
    message = request("structured", *named, is_raw=False)
    for name in ("text", "number", "is_large"):
        message.outputs.add(name=name)
    text, number, is_large = client.ask("ModelInfer", message).outputs
    assert list(text.contents.bytes_contents) == ["5 ü".encode()] and list(text.shape) == [1]
    assert list(number.contents.int64_contents) == [5] and list(is_large.contents.bool_contents) == [False]


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (request("nothing"), "NOT_FOUND", "there is no model 'nothing'"),
        (halve(model_version="2"), "NOT_FOUND", "no version '2'"),
        (request("halve"), "INVALID_ARGUMENT", "input 'x' is missing"),
        (request("halve", ("x", "FP32", X.T)), "INVALID_ARGUMENT", "input 'x' must be FP32[-1, 3], but is FP32[3, 1]"),
        (request("picky", ("x", "FP32", -X[0])), "INTERNAL", "the model raised ValueError: negative"),
    ],
)
def test_a_wrong_request_is_told_what_was_wanted(client, message, code, text):
    found, details = client.code("ModelInfer", message)
    assert found.name == code and text in details


def test_bytes_must_be_as_many_as_the_inputs_and_the_only_contents(client):
    message = halve()
    del message.raw_input_contents[1:]
    assert "1 tensors, and there are 2 inputs" in client.code("ModelInfer", message)[1]
    message = halve()
    message.inputs[0].contents.fp32_contents.append(1.0)
    assert "has contents" in client.code("ModelInfer", message)[1]
    message = halve()
    message.raw_input_contents[0] = b"123"
    assert "takes 12 bytes, but has 3" in client.code("ModelInfer", message)[1]


def test_numbers_of_16_bits_come_in_bytes(client):
    message = messages()["ModelInferRequest"](model_name="echo")
    message.inputs.add(name="tensors.0", datatype="FP16", shape=[2])
    code, details = client.code("ModelInfer", message)
    assert code.name == "INVALID_ARGUMENT" and "raw_input_contents" in details


def test_the_repository_is_told_loaded_and_unloaded(serve: Serve):
    client = Client(serve("halve", "picky").grpc_port)
    index = client.ask("RepositoryIndex").models
    assert [(m.name, m.version, m.state) for m in index if m.name == "picky"] == [("picky", "1", "READY")]
    client.ask("RepositoryModelUnload", model_name="halve")
    assert not client.ask("ModelReady", name="halve").ready and client.ask("ServerReady").ready
    assert client.code("ModelInfer", halve())[0].name == "UNAVAILABLE"
    assert {m.name for m in client.ask("RepositoryIndex", ready=True).models} == {"picky"}
    client.ask("RepositoryModelLoad", model_name="halve")
    assert client.ask("ModelInfer", halve()).outputs
    for name in ("RepositoryModelLoad", "RepositoryModelUnload"):
        assert client.code(name, model_name="../halve")[0].name == "NOT_FOUND"


def test_a_deadline_that_passes_takes_the_call_out_of_the_queue(serve: Serve):
    server = serve("spin", threads=1)
    client, http = Client(server.grpc_port), server.http()
    running = client.start("ModelInfer", spin(400_000), timeout=60)
    soon(lambda: occupancy(http)[0] == 1)
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        client.start("ModelInfer", spin(1), timeout=0.1).result()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED and time.monotonic() - began < 2
    soon(lambda: occupancy(http)[1] == 0)
    assert running.result().outputs


def test_a_call_that_is_cancelled_leaves_the_queue(serve: Serve):
    server = serve("spin", threads=1)
    client, http = Client(server.grpc_port), server.http()
    running = client.start("ModelInfer", spin(400_000), timeout=60)
    soon(lambda: occupancy(http)[0] == 1)
    waiting = client.start("ModelInfer", spin(1), timeout=60)
    soon(lambda: occupancy(http) == (1, 1))
    waiting.cancel()
    soon(lambda: occupancy(http)[1] == 0)
    assert running.result().outputs


def occupancy(http: Any) -> tuple[float, float]:
    line = http.get("/status")[1]["models"][0]
    return line["running"], line["waiting"]


def test_the_timeout_of_a_request_is_in_microseconds(serve: Serve):
    client = Client(serve("spin").grpc_port)
    message = spin(400_000)
    message.parameters["timeout"].int64_param = 50_000
    code, details = client.code("ModelInfer", message)
    assert code.name == "DEADLINE_EXCEEDED" and "0.05 s" in details


def test_a_full_queue_and_too_many_steps_are_told(serve: Serve):
    client = Client(serve("spin", threads=1, queue=1, max_steps=200_000).grpc_port)
    running = [client.start("ModelInfer", spin(190_000), timeout=60) for _ in range(8)]
    codes = [call.exception().code().name if call.exception() else "OK" for call in running]
    assert codes.count("OK") in (1, 2) and set(codes) == {"OK", "RESOURCE_EXHAUSTED"}
    code, details = client.code("ModelInfer", spin(200_001))
    assert code.name == "INVALID_ARGUMENT" and "more than 200000 iterations" in details


def test_a_message_that_is_too_large_is_refused(serve: Serve):
    client = Client(serve("halve", max_body=1 << 20).grpc_port)
    big = request("halve", ("x", "FP32", torch.zeros(200_000, 3)), ("limit", "FP32", torch.tensor(1.0)))
    assert client.code("ModelInfer", big)[0].name == "RESOURCE_EXHAUSTED"


def test_the_key_is_wanted_for_all_but_health(serve: Serve):
    client = Client(serve("halve", api_key="secret").grpc_port)
    assert client.ask("ServerLive").live and client.ask("ServerReady").ready
    assert client.code("ServerMetadata")[0].name == "UNAUTHENTICATED"
    assert client.code("ModelInfer", halve())[0].name == "UNAUTHENTICATED"
    assert client.code("ModelInfer", halve(), metadata=[("x-api-key", "guess")])[0].name == "UNAUTHENTICATED"
    for metadata in ([("authorization", "Bearer secret")], [("x-api-key", "secret")]):
        assert client.ask("ModelInfer", halve(), metadata=metadata).outputs


def test_many_threads_get_their_own_results(client):
    found: list[bool] = []

    def calls(number: int) -> None:
        x = torch.full((number, 3), float(number))
        message = request("halve.twice", ("x", "FP32", x))
        found.extend(list(client.ask("ModelInfer", message).raw_output_contents) == [raw(x * 2)] for _ in range(20))

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 160


def test_a_server_that_ends_finishes_what_runs(serve: Serve):
    server = serve("spin", threads=1)
    client, http = Client(server.grpc_port), server.http()
    running = [client.start("ModelInfer", spin(200_000), timeout=60) for _ in range(2)]
    soon(lambda: occupancy(http) == (1, 1))
    http.connection.close()
    server.stop()
    assert all(call.result().outputs for call in running)


def test_requests_whose_sizes_differ_where_they_must_not_are_told(serve: Serve, tmp_path):
    path = tmp_path / "both.dy2st"
    dy2st.save(lambda x, y: x + y, path, input_spec=[dy2st.InputSpec([None]), dy2st.InputSpec([3])])
    client = Client(serve(models={"both": str(path)}).grpc_port)
    code, details = client.code("ModelInfer", request("both", ("x", "FP32", torch.ones(2)), ("y", "FP32", torch.ones(3))))
    assert code.name in ("INVALID_ARGUMENT", "INTERNAL") and "2" in details and "3" in details
