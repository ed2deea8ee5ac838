"""Servers on ports of this machine that are free, in a thread of the test."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dy2st_runtime.serving.options import Options
from tests.serving import models
from tests.serving.clients import Http

collect_ignore_glob = [] if all(map(importlib.util.find_spec, ("grpc", "starlette", "uvicorn"))) else ["*.py"]
"""The packages of the extra ``serve`` may be missing."""

Serve = Callable[..., "Server"]


class Server:
    """A server that runs."""

    def __init__(self, options: Options) -> None:
        from dy2st_runtime.serving.server import Running  # what it imports is optional

        self.options = options
        self.running = Running(options)
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.running.started.wait(60)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self.running.run()
        except BaseException as error:
            self.failure = error

    @property
    def port(self) -> int:
        return self.running.port

    @property
    def grpc_port(self) -> int:
        return self.running.grpc_port

    def http(self, **headers: str) -> Http:
        return Http(self.port, **headers)

    def stop(self) -> None:
        self.running.stop()
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all models; not to be changed."""
    folder = tmp_path_factory.mktemp("archives")
    models.save_all(folder)
    return folder


def _options(archives: Path, names: tuple[str, ...], **more: Any) -> Options:
    table = {name: str(archives / f"{name}.dy2st") for name in names}
    return Options(**{"models": table, "port": 0, "grpc_port": 0, "threads": 2, "drain_timeout": 20.0, "poll": 0.05} | more)


@pytest.fixture(scope="session")
def shared(archives: Path) -> Iterator[Server]:
    """A server of all models, for tests that change nothing."""
    names = tuple(sorted(path.stem for path in archives.glob("*.dy2st")))
    server = Server(_options(archives, names, poll=0.0))
    yield server
    server.stop()


@pytest.fixture
def serve(archives: Path) -> Iterator[Serve]:
    """Starts a server of some models, with options."""
    started: list[Server] = []

    def start(*names: str, **options: Any) -> Server:
        started.append(Server(_options(archives, names, **options)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def folder(archives: Path, tmp_path: Path) -> Path:
    """A folder with models that may be changed."""
    result = tmp_path / "models"
    result.mkdir()
    for name in ("halve", "counter"):
        shutil.copy(archives / f"{name}.dy2st", result)
    return result
