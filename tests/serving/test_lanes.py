"""Requests of one example each, run together."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from tests.serving.clients import results, soon, tensor
from tests.serving.conftest import Serve, Server
from tests.serving.test_limits import occupancy, spin, started


def halve(server: Server, x: torch.Tensor, limit: float) -> Any:
    status, answer = server.http().infer("halve", tensor("x", x), tensor("limit", torch.tensor(limit)))
    assert status == 200, answer
    (data,) = results(answer).values()
    return data


def alone(x: torch.Tensor, limit: float) -> list[float]:
    while x.abs().max() > limit:
        x = x / 2
    return x.flatten().tolist()


def test_each_request_gets_what_it_would_get_alone(serve: Serve) -> None:
    server = serve("halve", max_batch=16, max_wait=0.02)
    torch.manual_seed(0)
    calls = [(torch.randn(1 + k % 3, 3) * 2**k, 0.5 + k % 2) for k in range(30)]
    with ThreadPoolExecutor(15) as threads:
        found = list(threads.map(lambda call: halve(server, *call), calls))
    for data, call in zip(found, calls):
        assert data == alone(*call)


def test_other_methods_and_results_by_name_run_too(serve: Serve) -> None:
    server = serve("halve", max_batch=4)
    status, answer = server.http().infer("halve.twice", tensor("x", torch.ones(1, 3)))
    assert (status, *results(answer).values()) == (200, [2.0, 2.0, 2.0])


def test_a_quick_request_does_not_wait_for_a_slow_one(serve: Serve) -> None:
    server = serve("spin", max_batch=4)
    slow = started(server, 10**9)
    soon(lambda: occupancy(server) == (1, 0))
    for trips in (0, 3, 7):
        assert spin(server.http(), trips)[1]["outputs"][0]["data"] == [trips]
    slow.close()
    soon(lambda: occupancy(server) == (0, 0))  # it leaves at the next iteration


def test_a_request_that_raises_fails_alone(serve: Serve) -> None:
    server = serve("picky", max_batch=8, max_wait=0.05)
    good, bad = torch.tensor([1.0, -0.5, 2.0]), torch.tensor([-1.0, 0.5])
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda x: server.http().infer("picky", tensor("x", x)), [good, bad] * 3))
    for number, (status, answer) in enumerate(found):
        if number % 2:
            assert status == 500
            assert "negative" in answer["error"]
        else:
            assert results(answer).popitem()[1] == [1.0, 2.0]


def test_time_that_is_over_frees_the_lane(serve: Serve) -> None:
    server = serve("spin", max_batch=2)
    status, answer = spin(server.http(), 10**9, parameters={"timeout": 200_000})
    assert status == 504, answer
    soon(lambda: occupancy(server) == (0, 0))
    assert spin(server.http(), 2)[0] == 200


def test_a_limit_of_steps_is_one_for_each_request(serve: Serve) -> None:
    server = serve("spin", max_batch=8, max_wait=0.05, max_steps=50)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda trips: spin(server.http(), trips)[0], [40, 60, 50, 10, 51, 3]))
    assert found == [200, 422, 200, 200, 422, 200]


def test_a_full_queue_and_a_model_that_writes_state(serve: Serve) -> None:
    server = serve("spin", max_batch=1, queue=1)
    assert spin(server.http(), 1)[0] == 200
    counting = serve("counter", max_batch=8)
    for number in (1, 2, 3):
        _, answer = counting.http().infer("counter", tensor("x", torch.ones(2)))
        assert list(results(answer).values())[1] == [number, number]


def test_a_server_ends_when_its_lanes_are_empty(serve: Serve) -> None:
    server = serve("spin", max_batch=2)
    waiting = started(server, 20_000)
    soon(lambda: occupancy(server)[0] == 1)
    server.stop()
    assert _status(waiting) == 200


def _status(connection: socket.socket) -> int:
    with connection:
        return int(connection.recv(4096).split()[1])
