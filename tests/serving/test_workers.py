"""The command in processes of its own: one worker, and several behind one address."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from http.client import HTTPException
from pathlib import Path

import pytest
import torch

import dy2st
from dy2st import InputSpec
from tests.serving.clients import Http, results, soon, tensor
from tests.serving.processes import Command
from tests.serving.test_limits import started

pytestmark = pytest.mark.slow

TRIPS = tensor("trips", torch.tensor(10))


def answers(command: Command) -> bool:
    try:
        return command.http().infer("spin", TRIPS)[0] == 200
    except OSError:
        return False


def test_one_worker_serves_until_it_is_told_to_end(archives: Path):
    command = Command(archives / "spin.dy2st", "--threads", 1)
    try:
        assert command.http().infer("spin", TRIPS)[0] == 200
        busy = started(command, 200_000)  # type: ignore[arg-type]  # it has a port
        time.sleep(0.1)
        command.process.send_signal(signal.SIGTERM)
        assert b"200 OK" in busy.recv(100)
    finally:
        assert command.end() == 0
    assert command.events("ended") and not command.others


def test_a_worker_that_is_killed_loses_its_own_requests_and_is_started_again(archives: Path):
    command = Command(archives / "spin.dy2st", "--workers", 2, "--threads", 1, ready=2)
    try:
        clients = [command.http() for _ in range(16)]  # the kernel gives each connection to one of them
        assert [client.infer("spin", TRIPS)[0] for client in clients] == [200] * 16
        victim = command.workers[0]
        os.kill(victim, signal.SIGKILL)
        lost = 0
        for client in clients:
            try:
                assert client.infer("spin", TRIPS)[0] == 200
            except (OSError, HTTPException):
                lost += 1
        assert 0 < lost < 16
        soon(lambda: len(command.workers) == 2 and victim not in command.workers, 60)
        assert all(answers(command) for _ in range(8))
        text = command.http().get("/metrics")[1].decode()
        counted = sum(int(n) for n in re.findall(r'dy2st_requests_total\{model="spin",protocol="http",outcome="200"\} (\d+)', text))
        assert counted >= 16 - lost + 8
    finally:
        assert command.end() == 0


def test_workers_share_mapped_weights_and_what_clients_load(archives: Path, tmp_path: Path):
    path = tmp_path / "large.dy2st"
    dy2st.save(torch.nn.Linear(4096, 4096).eval(), path, input_spec=[InputSpec([1, 4096])])
    command = Command(path, archives / "halve.dy2st", "--workers", 2, "--poll", 0.2, ready=2)
    try:
        x = tensor("input", torch.ones(1, 4096))
        for _ in range(8):
            assert command.http().infer("large", x)[0] == 200
        for pid in command.workers:
            mapped = [
                block for block in re.split(r"\n(?=[0-9a-f]+-)", Path(f"/proc/{pid}/smaps").read_text()) if str(path) in block
            ]
            sizes = {
                name: sum(int(n) for n in re.findall(rf"{name}: +(\d+) kB", "".join(mapped))) for name in ("Rss", "Private_Dirty")
            }
            assert sizes["Rss"] > 60_000 and sizes["Private_Dirty"] == 0
        for what, status in (("unload", 503), ("load", 200)):
            assert command.http().ask("POST", f"/v2/repository/models/halve/{what}", {})[0] == 200
            ready = "/v2/models/halve/ready"
            soon(lambda status=status: {command.http().get(ready)[0] for _ in range(12)} == {status})
    finally:
        assert command.end() == 0


def test_workers_end_when_who_started_them_is_killed(archives: Path):
    command = Command(archives / "spin.dy2st", "--workers", 2, ready=2)
    workers = command.workers
    command.process.kill()
    command.process.wait()

    def are_gone() -> bool:
        return not any(
            Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in workers
        )

    soon(are_gone, 20)


def test_workers_that_cannot_start_are_told(archives: Path, tmp_path: Path):
    damaged = tmp_path / "spin.dy2st"
    damaged.write_bytes((archives / "spin.dy2st").read_bytes()[:500])
    command = Command(damaged, "--workers", 2)
    assert command.end() == 1
    assert "a worker cannot start" in "".join(command.others)
    assert any("cannot load" in line["reason"] for line in command.events("cannot start"))


def test_state_is_refused_with_several_workers(archives: Path):
    command = Command(archives / "counter.dy2st", "--workers", 2)
    assert command.end() == 1
    assert any("use --workers 1" in line["reason"] for line in command.events("cannot start"))


def test_an_address_that_another_server_has_is_refused(archives: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = Command(archives / "spin.dy2st", "--workers", 2, "--port", other.getsockname()[1])
        assert command.end() == 1 and "cannot listen" in "".join(command.others)


def test_a_key_comes_from_the_environment(archives: Path):
    command = Command(archives / "spin.dy2st", DY2ST_API_KEY="secret")
    try:
        assert command.http().infer("spin", TRIPS)[0] == 401
        status, answer = Http(command.port, Authorization="Bearer secret").infer("spin", TRIPS)
        assert status == 200 and results(answer) == {"result": [10]}
    finally:
        command.end()
