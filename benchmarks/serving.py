"""What a server adds to the calls of a model: ``python -m benchmarks.serving`` (needs the extras ``cli`` and ``serve``).

The time of one request over loopback, on a connection that is kept, against a direct call; and how many requests 200 clients get
done, against direct calls of as many threads as the server has. Server, clients and direct calls share the cores of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dy2st
import dy2st_runtime
from benchmarks.report import seconds_text


class Small(nn.Module):
    """A network of microseconds, with a loop."""

    def __init__(self, width: int = 64, trips: float = 2.0) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(width, width), nn.Linear(width, 10)
        self.register_buffer("trips", torch.tensor(trips))
        self.trips: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Refine, then classify."""
        i = torch.zeros(())
        while i < self.trips:
            x = torch.tanh(self.layer(x)) + x / 2
            i = i + 1
        result: Tensor = self.head(x)
        return result


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int]]] = {
    "small": (Small, (1, 64)),
    "medium": (lambda: Small(256, 20.0), (8, 256)),
    "large": (lambda: Small(512, 20.0), (32, 512)),
}
"""Models, and the shape of what one request gives to them."""


def _requests(name: str, shape: tuple[int, int]) -> bytes:
    """Return a request of HTTP with its tensor in bytes."""
    data = torch.randn(shape).numpy().tobytes()
    tensor = {"name": "x", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    lines = (
        f"POST /v2/models/{name}/infer HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(head)}",
        f"Content-Length: {len(head) + len(data)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + head + data


def _length(head: bytes) -> int:
    """Return the size of the body behind the head of a response that is a success."""
    assert head.startswith(b"HTTP/1.1 200"), head
    return next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))


class _Client:
    """One connection, without anything of a client's library."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        size = _length(head)
        while len(body) < size:
            body += self._socket.recv(1 << 16)
        return body


def _grpc_call(port: int, name: str, shape: tuple[int, int]) -> Callable[[], Any]:
    import grpc

    from dy2st_runtime.serving.protocol.grpc_messages import SERVICE, messages

    kinds = messages()
    request = kinds["ModelInferRequest"](model_name=name)
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    request.raw_input_contents.append(torch.randn(shape).numpy().tobytes())
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    take, give = kinds["ModelInferRequest"].SerializeToString, kinds["ModelInferResponse"].FromString
    call = channel.unary_unary(f"/{SERVICE}/ModelInfer", request_serializer=take, response_deserializer=give)
    return lambda: call(request)


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    times, end = list[float](), time.perf_counter() + seconds
    for _ in range(20):
        call()
    while time.perf_counter() < end or len(times) < 20:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


def _direct(path: Path, shape: tuple[int, int]) -> Callable[[], Tensor]:
    model, x = dy2st_runtime.load(path).eval(), torch.randn(shape)

    def call() -> Tensor:
        with torch.inference_mode():
            result: Tensor = model(x)
            return result

    return call


def _rate_of_threads(call: Callable[[], Any], threads: int, seconds: float) -> float:
    """Return how many direct calls several threads do in a second."""

    def loop(_: int) -> int:
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            call()
            count += 1
        return count

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(loop, range(threads))) / seconds


async def _load(port: int, request: bytes, clients: int, seconds: float) -> list[float]:
    """Return the times of requests of clients that each ask again when they are answered."""
    times, end = list[float](), time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            began = time.perf_counter()
            writer.write(request)
            await reader.readexactly(_length(await reader.readuntil(b"\r\n\r\n")))
            times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times


@contextmanager
def _server(paths: list[Path], options: list[str]) -> Iterator[tuple[int, int]]:
    """Start a server; gives the ports of HTTP and gRPC."""
    ports = ["--port", "0", "--grpc-port", "0", "--queue", "1024"]
    command = [sys.executable, "-m", "dy2st", "serve", *map(str, paths), *ports, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("event") == "started":
                yield int(entry["url"].rpartition(":")[2]), entry["grpc_port"]
                break
        else:
            raise SystemExit("the server did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print.

    Args:
        arguments: of the command line; see ``--help``.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description="A server against direct calls.")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure (5)")
    parser.add_argument("--clients", type=int, default=200, help="how many clients at once (200)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the server, for each model")
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="a model (repeatable); all when left out")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    names = options.model or list(MODELS)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: _saved(name, Path(folder)) for name in names}
        direct = {name: _direct(paths[name], MODELS[name][1]) for name in names}
        with _server(list(paths.values()), ["--threads", str(options.threads)]) as (port, grpc_port):
            for name in names:
                figures[name] = _measured(name, direct[name], port, grpc_port, options)
                print(_line(name, figures[name]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


def _saved(name: str, folder: Path) -> Path:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    path = folder / f"{name}.dy2st"
    dy2st.save(make().eval(), path, input_spec=[dy2st.InputSpec(shape)])
    return path


def _measured(name: str, direct: Callable[[], Any], port: int, grpc_port: int, options: argparse.Namespace) -> dict[str, float]:
    shape = MODELS[name][1]
    request, client = _requests(name, shape), _Client(port)
    ways = {"direct": direct, "http": lambda: client.ask(request), "grpc": _grpc_call(grpc_port, name, shape)}
    samples: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(4):  # in turns: other work on the machine meets all of them
        for way, call in ways.items():
            samples[way] += _times(call, options.seconds / 4)
    figures = {way: statistics.median(times) for way, times in samples.items()}
    rates = [_rate_of_threads(direct, options.threads, options.seconds / 2)]
    times = sorted(asyncio.run(_load(port, request, options.clients, options.seconds)))
    rates.append(_rate_of_threads(direct, options.threads, options.seconds / 2))
    figures["direct_rate"], figures["served_rate"] = statistics.mean(rates), len(times) / options.seconds
    figures["loaded_p50"], figures["loaded_p99"] = times[len(times) // 2], times[len(times) * 99 // 100]
    return figures


def _line(name: str, found: dict[str, float]) -> str:
    above = {way: f"{1e6 * (found[way] - found['direct']):+.0f} µs" for way in ("http", "grpc")}
    return (
        f"{name:<8} direct {seconds_text(found['direct'])}   http {seconds_text(found['http'])} ({above['http']})   "
        f"grpc {seconds_text(found['grpc'])} ({above['grpc']})   under load {found['served_rate']:.0f} requests/s of "
        f"{found['direct_rate']:.0f} direct calls/s = {found['served_rate'] / found['direct_rate']:.2f} x   "
        f"p50 {seconds_text(found['loaded_p50'])} p99 {seconds_text(found['loaded_p99'])}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
