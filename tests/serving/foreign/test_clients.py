"""Clients of other projects, as they are published. Each test is left out where its package is not installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from tests.serving.clients import binary
from tests.serving.conftest import Serve, Server

pytestmark = pytest.mark.slow

X = numpy.array([[4.0, -2.0, 1.0]], numpy.float32)
LIMIT = numpy.array(1.0, numpy.float32)
WANTED = [[1.0, -0.5, 0.25]]


def triton(module: str, server: Server) -> tuple[Any, Any]:
    """A client of NVIDIA Triton's, and the module that it is in."""
    found = pytest.importorskip(f"tritonclient.{module}")
    return found, found.InferenceServerClient(f"127.0.0.1:{server.port if module == 'http' else server.grpc_port}")


@pytest.mark.parametrize("module", ["http", "grpc"])
def test_tritonclient_asks_for_everything(serve: Serve, module):
    tools, client = triton(module, serve("halve", "echo"))
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("halve", "1")
    metadata = client.get_server_metadata(**({} if module == "http" else {"as_json": True}))
    assert metadata["name"] == "dy2st" and "binary_tensor_data" in metadata["extensions"]
    described = client.get_model_metadata("halve", **({} if module == "http" else {"as_json": True}))
    assert described["platform"] == "dy2st_archive" and [item["name"] for item in described["inputs"]] == ["x", "limit"]
    index = client.get_model_repository_index(**({} if module == "http" else {"as_json": True}))
    assert {entry["name"] for entry in (index if module == "http" else index["models"])} == {"echo", "halve", "halve.twice"}
    client.unload_model("halve")
    assert not client.is_model_ready("halve") and client.is_model_ready("echo")
    client.load_model("halve")
    assert client.is_model_ready("halve")
    with pytest.raises(tools.InferenceServerException, match="no model 'nothing'"):
        client.load_model("nothing")


@pytest.mark.parametrize("module", ["http", "grpc"])
@pytest.mark.parametrize("is_binary", [True, False])
def test_tritonclient_calls_models(shared: Server, module, is_binary):
    tools, client = triton(module, shared)
    inputs = [tools.InferInput("x", [1, 3], "FP32"), tools.InferInput("limit", [], "FP32")]
    more = {"binary_data": is_binary} if module == "http" else {}
    for item, value in zip(inputs, (X, LIMIT)):
        item.set_data_from_numpy(value, **more)
    outputs = [tools.InferRequestedOutput("result", **more)]
    for asked in (outputs, None):
        answer = client.infer("halve", inputs, outputs=asked, request_id="7", model_version="1")
        assert answer.as_numpy("result").tolist() == WANTED
    if module == "grpc":
        assert client.infer("halve", inputs, client_timeout=10).get_response().model_name == "halve"
        later: list[Any] = []
        client.async_infer("halve", inputs, lambda result, error: later.append((result, error)))
        while not later:
            pass
        assert later[0][1] is None and later[0][0].as_numpy("result").tolist() == WANTED
    else:
        assert client.async_infer("halve", inputs).get_result().as_numpy("result").tolist() == WANTED


@pytest.mark.parametrize("module", ["http", "grpc"])
def test_tritonclient_has_every_datatype(shared: Server, module):
    tools, client = triton(module, shared)
    kinds = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
    names = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64".split()
    inputs, wanted = [], {}
    for number, (kind, name) in enumerate(zip(kinds, names)):
        wanted[kind] = numpy.array([1, 0], numpy.float32 if kind == "bfloat16" else kind)
        inputs.append(tools.InferInput(f"tensors.{number}", [2], name))
        inputs[-1].set_data_from_numpy(wanted[kind])
    answer = client.infer("echo", inputs)
    for kind, value in wanted.items():
        assert answer.as_numpy(kind).tolist() == value.tolist()


def test_tritonclient_reads_texts(shared: Server):
    tools, client = triton("http", shared)
    inputs = []
    for name, value in {"pair.0": [1, 2], "pair.1": [1, 2], "table.bias": [1, 2], "count": [5]}.items():
        kind = numpy.int64 if name == "count" else numpy.float32
        inputs.append(tools.InferInput(name, [len(value)], "INT64" if name == "count" else "FP32"))
        inputs[-1].set_data_from_numpy(numpy.array(value, kind))
    for is_binary in (True, False):
        outputs = [tools.InferRequestedOutput("text", binary_data=is_binary)]
        (text,) = client.infer("structured", inputs, outputs=outputs).as_numpy("text").tolist()
        assert (text if isinstance(text, str) else text.decode()) == "5 ü"


@pytest.mark.parametrize("way", ["json", "binary", "grpc"])
def test_kserve_calls(shared: Server, way):
    if importlib.util.find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    script, port = Path(__file__).with_name("kserve_client.py"), shared.grpc_port if way == "grpc" else shared.port
    found = subprocess.run([sys.executable, script, way, str(port)], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


def test_open_inference_openapi_calls(shared: Server):
    if importlib.util.find_spec("open_inference") is None:
        pytest.skip("open-inference-openapi is not installed")
    client_module = pytest.importorskip("open_inference.openapi.client")
    types = pytest.importorskip("open_inference.openapi.types")
    client = client_module.OpenInferenceClient(base_url=f"http://127.0.0.1:{shared.port}")
    client.check_server_liveness()
    client.check_server_readiness()
    client.check_model_readiness("halve")
    client.check_model_version_readiness("halve", "1")
    assert client.read_server_metadata().name == "dy2st"
    assert [item.name for item in client.read_model_metadata("halve").inputs] == ["x", "limit"]
    tensors = [("x", X), ("limit", LIMIT)]
    inputs = [
        types.RequestInput(
            name=name, shape=list(value.shape), datatype="FP32", data=types.TensorData.parse_obj(value.flatten().tolist())
        )
        for name, value in tensors
    ]
    request = types.InferenceRequest(inputs=inputs, outputs=[types.RequestOutput(name="result")])
    answer = client.model_infer("halve", request=request)
    assert answer.outputs[0].data.__root__ == WANTED[0]
    with pytest.raises(Exception, match="no model 'nothing'"):
        client.read_model_metadata("nothing")


def test_prometheus_client_reads_the_metrics(shared: Server):
    parser = pytest.importorskip("prometheus_client.parser")
    body, size = binary(("x", torch.from_numpy(X)), ("limit", torch.from_numpy(LIMIT)))
    assert shared.http().ask("POST", "/v2/models/halve/infer", body, Inference_Header_Content_Length=size)[0] == 200
    families = {family.name: family for family in parser.text_string_to_metric_families(shared.http().get("/metrics")[1].decode())}
    assert families["dy2st_requests"].type == "counter" and families["dy2st_request_seconds"].type == "histogram"


def test_schemathesis_finds_the_server_to_be_its_schema(serve: Serve, tmp_path: Path):
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed")
    server = serve("halve", "structured", control=False)
    schema = server.http().get("/openapi.json")[1]
    for operations in schema["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                parameter["schema"] = {"enum": ["halve", "structured", "none"] if parameter["name"] == "model" else ["1", "2"]}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(tmp_path / "schema.json"), "--checks", checks, "--seed", "1"]
    options = ["--url", f"http://127.0.0.1:{server.port}", "--max-examples", "40", "--continue-on-failure"]
    found = subprocess.run([*command, *options], capture_output=True, text=True, timeout=500, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-6000:]
    assert server.http().get("/v2/health/ready")[0] == 200
