"""100,000 requests that are wrong in every way: none ends the server, none makes it keep memory, good ones are answered meanwhile."""

from __future__ import annotations

import collections
import os
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving.clients import soon
from tests.serving.hostile import GOOD, KINDS, cut
from tests.serving.processes import Command

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("DY2ST_HOSTILE", "100000"))
_LEAST = b"HTTP/1.1 "
_ATTACKERS = 16


def resident(pid: int) -> int:
    """Bytes of memory of a process that are its own."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Dirty", "Private_Clean")))


def attack(port: int, data: bytes, chance: random.Random) -> bytes:
    """Send bytes, and read something, or nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(data)
            if chance.random() < 0.3:
                return b""
            connection.settimeout(0.05)  # there is no answer to half a request
            return connection.recv(4096)
        except OSError:
            return b""


def attacks(port: int, seed: int, count: int) -> collections.Counter[bytes]:
    """Send hostile requests, and count the statuses that come back."""
    chance, statuses = random.Random(seed), collections.Counter[bytes]()
    for _ in range(count):
        answer = attack(port, chance.choice(KINDS)(chance), chance)
        if answer.startswith(_LEAST):
            statuses[answer[9:12]] += 1
    return statuses


def test_hostile_requests_do_nothing(archives: Path):
    command = Command(archives / "halve.dy2st", "--threads", 2, "--receive-timeout", 2, "--max-body", 1 << 20)
    try:
        pid, sizes, statuses = command.workers[0], list[int](), collections.Counter[bytes]()
        slow = [socket.create_connection(("127.0.0.1", command.port)) for _ in range(100)]
        chance = random.Random(0)
        with ThreadPoolExecutor(_ATTACKERS) as attackers:
            for turn in range(20):
                seeds = [chance.randrange(1 << 30) for _ in range(_ATTACKERS)]
                for found in attackers.map(lambda seed: attacks(command.port, seed, COUNT // 20 // _ATTACKERS), seeds):
                    statuses += found
                assert command.http().ask("POST", "/v2/models/halve/infer", GOOD)[0] == 200
                for place, connection in enumerate(slow):
                    slow[place] = _trickle(connection, command.port, chance)
                sizes.append(resident(pid))
        print(statuses, [size >> 20 for size in sizes])
        assert command.process.poll() is None and command.workers == [pid]
        assert not set(statuses) - {b"100", b"200", b"400", b"403", b"404", b"405", b"408", b"413", b"415", b"504"}
        assert statuses[b"400"] > COUNT / 10
        assert max(sizes[10:]) - max(sizes[4:10]) < 8 << 20, [size >> 20 for size in sizes]
        soon(lambda: command.http().get("/status")[1]["models"][0]["waiting"] == 0)
        failed = [line for line in command.lines if line["level"] in ("error", "critical")]
        assert not failed, "\n".join(str(line) for line in failed[:3])
        descriptors = f"/proc/{pid}/fd"
        for connection in slow:
            connection.close()
        soon(lambda: len(os.listdir(descriptors)) < 60, 20)
    finally:
        assert command.end() == 0
    assert not command.others


def _trickle(connection: socket.socket, port: int, chance: random.Random) -> socket.socket:
    """Send one byte more of a request; a new connection where the server has given this one up."""
    try:
        connection.sendall(cut(chance)[:1])
        return connection
    except OSError:
        connection.close()
        return socket.create_connection(("127.0.0.1", port))


def test_hostile_bytes_to_grpc_do_nothing(archives: Path):
    grpc = pytest.importorskip("grpc")
    command = Command(archives / "halve.dy2st", "--threads", 2)
    try:
        chance = random.Random(1)
        with grpc.insecure_channel(f"127.0.0.1:{command.grpc_port}") as channel:
            codes = set()
            for _ in range(COUNT // 50):
                method = chance.choice(["ModelInfer", "ModelMetadata", "RepositoryModelLoad", "RepositoryIndex", "Nothing"])
                call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
                try:
                    call(chance.randbytes(chance.randrange(200)), timeout=20)
                except grpc.RpcError as error:
                    codes.add(error.code().name)
        assert codes <= {"INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "UNKNOWN"}, codes
        threads = [threading.Thread(target=attack, args=(command.grpc_port, chance.randbytes(300), chance)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert command.http().ask("POST", "/v2/models/halve/infer", GOOD)[0] == 200
    finally:
        assert command.end() == 0
