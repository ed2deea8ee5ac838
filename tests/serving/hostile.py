"""Bytes that a server should not be sent, made from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import torch

from tests.serving.clients import binary, tensor

GOOD = {"inputs": [tensor("x", torch.tensor([[4.0, -2.0, 1.0]])), tensor("limit", torch.tensor(1.0))]}
PATH = "/v2/models/halve/infer"
_ODD = [None, True, -1, 1.5, 1e308, 2**63, 2**70, "", "x" * 300, [], {}, [[]], [None], {"a": 1}, "\ud800", "FP16", "BYTES", "NaN"]


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *headers, "", "")).encode(errors="replace")


def whole(body: bytes, *headers: str, path: str = PATH) -> bytes:
    return head(path, f"Content-Length: {len(body)}", *headers) + body


def noise(chance: random.Random) -> bytes:
    """No HTTP at all."""
    return chance.randbytes(chance.randrange(1, 400))


def wrong_json(chance: random.Random) -> bytes:
    """A good request with some bytes that are others."""
    body = bytearray(json.dumps(GOOD).encode())
    for _ in range(chance.randrange(1, 6)):
        body[chance.randrange(len(body))] = chance.randrange(256)
    return whole(bytes(body[: chance.randrange(1, len(body) + 1)]))


def odd_values(chance: random.Random) -> bytes:
    """A good request in which some values are others."""
    table = json.loads(json.dumps(GOOD))
    for _ in range(chance.randrange(1, 4)):
        owner = chance.choice(
            [table, *(item for item in table["inputs"] if isinstance(item, dict))] if table.get("inputs") else [table]
        )
        owner[chance.choice(["inputs", "outputs", "parameters", "id", "name", "shape", "datatype", "data", "\u0000"])] = (
            chance.choice(_ODD)
        )
        if not isinstance(table.get("inputs"), list):
            break
    return whole(json.dumps(table).encode())


def wrong_sizes(chance: random.Random) -> bytes:
    """Tensors in bytes whose sizes are not what is said."""
    body, size = binary(("x", torch.randn(chance.randrange(1, 5), 3)), ("limit", torch.tensor(1.0)))
    cut = body[: chance.randrange(len(body) + 1)] + b"z" * chance.choice([0, 0, 1, 40])
    said = chance.choice([size, str(chance.randrange(2000)), "-1", "x", "9" * 30, ""])
    return whole(cut, f"Inference-Header-Content-Length: {said}")


def wrong_heads(chance: random.Random) -> bytes:
    """Heads that lie, repeat themselves or are too long."""
    lines = [
        f"Content-Length: {chance.choice(['-1', '99999999999999999999', 'x', '3, 4', '1e3', ''])}",
        "Transfer-Encoding: chunked",
        f"Content-Encoding: {chance.choice(['gzip', 'br', 'identity'])}",
        f"X-Request-Timeout-Ms: {chance.choice(['0', '-5', 'soon', '9' * 20])}",
        f"X: {'y' * chance.choice([1, 5000])}",
        "Expect: 100-continue",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Origin: http://other.example",
        "Bad\x00Name: 1",
    ]
    path = chance.choice(
        [PATH, "/" + "a" * 3000, "/v2/models/%00%ff/infer", "/v2/models/../../infer", "*", "/v2/repository/models/x/load", "//"]
    )
    method = chance.choice(["POST", "GET", "PUT", "FOO", "OPTIONS", "HEAD"])
    return head(path, *chance.sample(lines, chance.randrange(1, 4)), method=method) + chance.choice(
        [b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n"]
    )


def nested(chance: random.Random) -> bytes:
    """Lists in lists in lists."""
    depth = chance.randrange(50, 3000)
    return whole(b'{"inputs":' + b"[" * depth + b"]" * chance.choice([depth, depth - 1, 0]))


def chunks(chance: random.Random) -> bytes:
    """Chunks that are none."""
    size = chance.choice([b"ffffffffffffffff", b"-1", b"zz", b"10;x=y", b"0"])
    return head(PATH, "Transfer-Encoding: chunked") + size + b"\r\n" + chance.randbytes(20) + b"\r\n"


def cut(chance: random.Random) -> bytes:
    """A good request that ends before it is over."""
    data = whole(json.dumps(GOOD).encode())
    return data[: chance.randrange(1, len(data))]


def several(chance: random.Random) -> bytes:
    """Requests in a row, one of them wrong."""
    good = whole(json.dumps(GOOD).encode())
    return good * chance.randrange(1, 4) + wrong_json(chance) + good


KINDS: list[Callable[[random.Random], bytes]] = [
    noise, wrong_json, odd_values, wrong_sizes, wrong_heads, nested, chunks, cut, several,
]  # fmt: skip
