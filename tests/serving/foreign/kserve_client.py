"""Calls a server with KServe's clients; a process of its own, since its messages and those of tritonclient are not for one."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kserve
import numpy
from kserve.inference_client import RESTConfig

X, LIMIT = numpy.array([[4.0, -2.0, 1.0]], numpy.float32), numpy.array(1.0, numpy.float32)
WANTED = [[1.0, -0.5, 0.25]]


def request(is_binary: bool) -> Any:
    inputs = [kserve.InferInput("x", [1, 3], "FP32"), kserve.InferInput("limit", [], "FP32")]
    for item, value in zip(inputs, (X, LIMIT)):
        if is_binary or value.ndim:
            item.set_data_from_numpy(value, binary_data=is_binary)
        else:
            item = inputs[1] = kserve.InferInput("limit", [], "FP32", data=[1.0])
    return kserve.InferRequest(model_name="halve", infer_inputs=inputs)


async def by_rest(port: int, is_binary: bool) -> None:
    client, base = kserve.InferenceRESTClient(RESTConfig(protocol="v2", retries=0)), f"http://127.0.0.1:{port}"
    assert await client.is_server_live(base) and await client.is_server_ready(base) and await client.is_model_ready(base, "halve")
    answer = await client.infer(base, request(is_binary), model_name="halve")
    assert answer.outputs[0].as_numpy().tolist() == WANTED


async def by_grpc(port: int) -> None:
    client = kserve.InferenceGRPCClient(f"127.0.0.1:{port}", retries=0)
    assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("halve")
    answer = await client.infer(request(False))
    assert answer.outputs[0].as_numpy().tolist() == WANTED
    await client.close()


if __name__ == "__main__":
    way, port = sys.argv[1:]
    asyncio.run(by_grpc(int(port)) if way == "grpc" else by_rest(int(port), way == "binary"))
