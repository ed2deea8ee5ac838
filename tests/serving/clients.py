"""Small clients of HTTP and gRPC, and the requests that they send."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from dy2st_runtime.serving.protocol.datatypes import NAMES


class Http:
    """One connection; responses of JSON are read, others are bytes."""

    def __init__(self, port: int, **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = headers

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        status, _, answer = self.ask_fully(method, path, body, **headers)
        return status, answer

    def ask_fully(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        named = {name.replace("_", "-"): value for name, value in (self.headers | headers).items()}
        self.connection.request(method, path, data, named)
        response = self.connection.getresponse()
        content = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(content) if is_json else content

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return self.ask("GET", path, **headers)

    def infer(self, model: str, *inputs: dict[str, Any], **more: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/v2/models/{model}/infer", {"inputs": inputs, **more})


def tensor(name: str, value: torch.Tensor, **more: Any) -> dict[str, Any]:
    """A tensor of a request, in JSON."""
    data = (value.float() if value.dtype == torch.bfloat16 else value).tolist()
    flat = {"data": data if isinstance(data, list) else [data]}
    return {"name": name, "datatype": NAMES[value.dtype], "shape": list(value.shape), **flat, **more}


def raw(value: torch.Tensor) -> bytes:
    return value.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def binary(*named: tuple[str, torch.Tensor], **more: Any) -> tuple[bytes, str]:
    """The body of a request with tensors in bytes, and the size of its JSON."""
    inputs, parts = [], []
    for name, value in named:
        parts.append(raw(value))
        description = {"name": name, "datatype": NAMES[value.dtype], "shape": list(value.shape)}
        inputs.append(description | {"parameters": {"binary_data_size": len(parts[-1])}})
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}, **more}).encode()
    return b"".join((head, *parts)), str(len(head))


def results(answer: dict[str, Any]) -> dict[str, Any]:
    """The data of the outputs by name."""
    return {output["name"]: output["data"] for output in answer["outputs"]}


def binary_results(headers: dict[str, str], content: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    """The outputs of a response in bytes, by name: datatype, shape, bytes."""
    size = int(headers["inference-header-content-length"])
    place, found = size, {}
    for output in json.loads(content[:size])["outputs"]:
        count = output["parameters"]["binary_data_size"]
        found[output["name"]] = output["datatype"], output["shape"], content[place : place + count]
        place += count
    assert place == len(content)
    return found


def soon(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)
    return found
