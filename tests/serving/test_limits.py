"""What one client may not do to the others: queues, deadlines, sizes, slow senders, the key; and how a server ends."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from dy2st_runtime.errors import ServingError
from dy2st_runtime.serving.protocol.grpc_messages import SERVICE, messages
from tests.serving.clients import Http, results, soon, tensor
from tests.serving.conftest import Serve, Server

LONG = 300_000
"""Trips that take some tenths of a second."""


def spin(http: Http, trips: int, **more: Any) -> tuple[int, Any]:
    return http.infer("spin", tensor("trips", torch.tensor(trips)), **more)


def occupancy(server: Server) -> tuple[float, float]:
    line = server.http().get("/status")[1]["models"][0]
    return line["running"], line["waiting"]


def started(server: Server, trips: int) -> socket.socket:
    """A connection on which a call was asked for."""
    body = json.dumps({"inputs": [tensor("trips", torch.tensor(trips))]}).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    head = f"POST /v2/models/spin/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def test_a_full_queue_is_told_with_when_to_try_again(serve: Serve):
    server = serve("spin", threads=1, queue=1)
    busy = [started(server, LONG)]
    soon(lambda: occupancy(server) == (1, 0))
    busy.append(started(server, 1))
    soon(lambda: occupancy(server) == (1, 1))
    body = {"inputs": [tensor("trips", torch.tensor(1))]}
    status, headers, answer = server.http().ask_fully("POST", "/v2/models/spin/infer", body)
    assert status == 429 and "1 requests wait already" in answer["error"] and headers["retry-after"] == "1"
    for connection in busy:
        assert b"200 OK" in connection.recv(100)


@pytest.mark.parametrize("way", ["header", "parameter", "server"])
def test_a_deadline_is_kept(serve: Serve, way):
    server = serve("spin", threads=1, timeout=0.15 if way == "server" else None)
    body: dict[str, Any] = {"inputs": [tensor("trips", torch.tensor(LONG))]}
    if way == "parameter":
        body["parameters"] = {"timeout": 150_000}
    headers = {"X_Request_Timeout_Ms": "150"} if way == "header" else {}
    began = time.monotonic()
    status, answer = server.http().ask("POST", "/v2/models/spin/infer", body, **headers)
    assert status == 504 and "0.15 s" in answer["error"] and 0.1 < time.monotonic() - began < 1


def test_what_waits_until_its_deadline_does_not_run(serve: Serve):
    server = serve("spin", threads=1)
    busy = started(server, LONG)
    soon(lambda: occupancy(server) == (1, 0))
    status, _ = spin(server.http(), 1, parameters={"timeout": 100_000})
    assert status == 504 and occupancy(server) == (1, 0)
    assert b"200 OK" in busy.recv(100)


def test_a_client_that_is_gone_leaves_the_queue(serve: Serve):
    server = serve("spin", threads=1)
    busy = started(server, LONG)
    soon(lambda: occupancy(server) == (1, 0))
    waiting = [started(server, 1) for _ in range(3)]
    soon(lambda: occupancy(server) == (1, 3))
    for connection in waiting[:2]:
        connection.close()
    soon(lambda: occupancy(server) == (1, 1))
    assert b"200 OK" in busy.recv(100) and b"200 OK" in waiting[2].recv(100)


def test_too_many_iterations_are_told(serve: Serve):
    server = serve("spin", max_steps=1000)
    http = server.http()
    status, answer = spin(http, 1001)
    assert status == 422 and answer == {"error": "the loops of this call make more than 1000 iterations (max_steps)"}
    assert spin(http, 1000)[0] == 200


def test_a_body_that_is_too_large_is_refused(serve: Serve):
    server = serve("spin", max_body=1000)
    status, answer = server.http().ask("POST", "/v2/models/spin/infer", b" " * 1001)
    assert status == 413 and answer == {"error": "the body has more than 1000 bytes"}
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST /v2/models/spin/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"800\r\n" + b" " * 0x800 + b"\r\n")
        assert b" 413 " in connection.recv(200)


def test_all_bodies_together_are_bounded(serve: Serve):
    server = serve("spin", max_body=60_000, max_held=100_000)
    head = b"POST /v2/models/spin/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 59000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as first:
        first.sendall(head + b" " * 58_999)
        soon(lambda: server.http().ask("POST", "/v2/models/spin/infer", b" " * 50_000)[0] == 429)
        assert spin(server.http(), 1)[0] == 200
    for body in (b" " * 50_000, b" " * 60_000):
        soon(lambda body=body: server.http().ask("POST", "/v2/models/spin/infer", body)[0] == 400)


def test_who_sends_too_slowly_is_given_up(serve: Serve):
    server = serve("spin", receive_timeout=0.3)
    heads = {
        "no byte": b"",
        "half a head": b"POST /v2/models/spin/infer HTTP/1.1\r\nHost:",
        "half a body": b"POST /v2/models/spin/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    }
    connections = {name: socket.create_connection(("127.0.0.1", server.port), timeout=10) for name in heads}
    for name, head in heads.items():
        connections[name].sendall(head)
    for name in ("no byte", "half a head"):
        assert _until_end(connections[name]) == b""
    assert b" 408 " in _until_end(connections["half a body"])


def _until_end(connection: socket.socket) -> bytes:
    data = b""
    try:
        while chunk := connection.recv(1000):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def test_a_head_that_does_not_end_is_given_up(serve: Serve):
    server = serve("spin")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        try:
            for number in range(1000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            assert connection.recv(1) == b""
        except OSError:
            pass


def test_the_key_is_wanted_for_all_but_health_and_page(serve: Serve):
    server = serve("spin", api_key="secret")
    http = server.http()
    for path in ("/v2/health/live", "/v2/health/ready", "/", "/openapi.json"):
        assert http.get(path)[0] == 200
    for path in ("/v2", "/v2/models/spin", "/metrics", "/status"):
        status, answer = server.http().get(path)
        assert status == 401 and "API key" in answer["error"]
    assert spin(server.http(), 1)[0] == spin(server.http(X_API_Key="guess"), 1)[0] == 401
    assert spin(server.http(Authorization="Basic secret"), 1)[0] == 401
    for headers in ({"Authorization": "Bearer secret"}, {"X_API_Key": "secret"}):
        assert spin(server.http(**headers), 1)[0] == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine, which has signed itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    try:
        subprocess.run(
            [*made, "-keyout", key, "-out", cert, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return cert, key


def is_ready_by_https(server: Server, context: ssl.SSLContext) -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=10)
    connection.request("GET", "/v2/health/ready")
    return connection.getresponse().status == 200


def is_ready_by_grpc(server: Server, credentials: grpc.ChannelCredentials) -> bool:
    with grpc.secure_channel(f"127.0.0.1:{server.grpc_port}", credentials) as channel:
        give = messages()["ServerReadyResponse"].FromString
        return bool(channel.unary_unary(f"/{SERVICE}/ServerReady", response_deserializer=give)(b"", timeout=10).ready)


def test_tls_is_spoken_with_a_certificate(serve: Serve, certificate):
    cert, key = certificate
    server = serve("spin", tls_cert=str(cert), tls_key=str(key))
    assert is_ready_by_https(server, ssl.create_default_context(cafile=str(cert)))
    assert is_ready_by_grpc(server, grpc.ssl_channel_credentials(cert.read_bytes()))
    with pytest.raises(OSError):
        server.http().get("/v2/health/ready")


def test_clients_show_a_certificate_where_they_have_to(serve: Serve, certificate):
    cert, key = certificate
    server = serve("spin", tls_cert=str(cert), tls_key=str(key), tls_client_ca=str(cert))
    context = ssl.create_default_context(cafile=str(cert))
    with pytest.raises(OSError):
        is_ready_by_https(server, context)
    with pytest.raises(grpc.RpcError):
        is_ready_by_grpc(server, grpc.ssl_channel_credentials(cert.read_bytes()))
    context.load_cert_chain(cert, key)
    assert is_ready_by_https(server, context)
    assert is_ready_by_grpc(server, grpc.ssl_channel_credentials(cert.read_bytes(), key.read_bytes(), cert.read_bytes()))


def test_a_certificate_that_is_none_is_told(serve: Serve, tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(ServingError, match="certificate or key for TLS"):
        serve("spin", tls_cert=str(tmp_path / "cert.pem"))


def test_an_address_that_is_taken_is_told(serve: Serve):
    server = serve("spin")
    with pytest.raises(ServingError, match="cannot listen at 127.0.0.1"):
        serve("spin", port=server.port)
    with pytest.raises(ServingError, match="for gRPC"):
        serve("spin", grpc_port=server.grpc_port)


def test_state_is_written_by_one_call_at_a_time(serve: Serve):
    server = serve("counter", threads=4)
    with ThreadPoolExecutor(8) as threads:
        clients = [server.http() for _ in range(8)]
        x = tensor("x", torch.tensor([1.0, 1.0]))
        for found in threads.map(lambda client: [client.infer("counter", x)[0] for _ in range(25)], clients):
            assert found == [200] * 25
    total, calls = results(server.http().infer("counter", x)[1]).values()
    assert total == [2.0 * 201] and calls == [201.0, 201.0]


def test_calls_run_at_once_where_they_write_nothing(serve: Serve):
    server = serve("spin", threads=2)
    busy = [started(server, LONG) for _ in range(2)]
    soon(lambda: occupancy(server) == (2, 0))
    for connection in busy:
        assert b"200 OK" in connection.recv(100)


def test_a_server_that_ends_finishes_what_runs(serve: Serve):
    server = serve("spin", threads=1)
    busy = [started(server, LONG), started(server, 5)]
    soon(lambda: occupancy(server) == (1, 1))
    ending = threading.Thread(target=server.stop)
    ending.start()
    for connection in busy:
        assert b"200 OK" in connection.recv(200)
    ending.join(20)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_loading_may_be_closed_to_clients(serve: Serve):
    http = serve("spin", control=False).http()
    for what in ("load", "unload"):
        status, answer = http.ask("POST", f"/v2/repository/models/spin/{what}", {})
        assert status == 403 and "--control" in answer["error"]
    assert spin(http, 1)[0] == 200
