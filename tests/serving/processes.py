"""The command in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.serving.clients import Http, soon

ROOT = Path(__file__).parents[2]


class Command:
    """``dy2st serve`` with some words, and what it has logged."""

    def __init__(self, *words: Any, ready: int = 1, **environment: str) -> None:
        path = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
        command = [sys.executable, "-m", "dy2st", "serve", "--port", "0", "--grpc-port", "0", *map(str, words)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": path} | environment
        )
        self.lines: list[dict[str, Any]] = []
        self.others: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        soon(lambda: len(self.events("started")) >= ready or self.process.poll() is not None, 90)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.lines.append(json.loads(line))
            else:
                self.others.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["event"] == name]

    @property
    def port(self) -> int:
        return int(self.events("started")[0]["url"].rpartition(":")[2])

    @property
    def grpc_port(self) -> int:
        return int(self.events("started")[0]["grpc_port"])

    @property
    def workers(self) -> list[int]:
        """The processes that answer, those that have died left out."""
        died = {line["worker"] for line in self.events("worker died")}
        return [line["pid"] for line in self.events("started") if line["pid"] not in died]

    def http(self) -> Http:
        return Http(self.port)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self._reader.join(10)
        return status
