"""Several processes behind one address: started, started again when they die, and told to end together."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from dy2st_runtime.errors import ServingError
from dy2st_runtime.serving.__main__ import FAILED
from dy2st_runtime.serving.logs import log
from dy2st_runtime.serving.options import Options

_TICK = 0.1
_LONG = 10.0
"""A worker that ran for so many seconds is started again at once; one that did not waits longer each time."""
_MOST_PAUSE = 30.0


def supervise(options: Options) -> int:
    """Serve with several workers until SIGTERM or SIGINT.

    Each binds the same address, and the kernel gives each connection to one of them. Weights from one megabyte on are mapped, so
    that the workers share their pages.

    Args:
        options: of the server.

    Returns:
        The exit status.

    Raises:
        ServingError: the first workers cannot start.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ServingError("this system cannot give one address to several processes: use --workers 1")
    folder = tempfile.mkdtemp(prefix="dy2st-serve-")
    try:
        with _reserved(options) as (port, grpc_port):
            return _Workers(dataclasses.replace(options, port=port, grpc_port=grpc_port, shared=folder)).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Worker:
    """One place of a worker: the process that has it now, and when the next one may start."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.process: subprocess.Popen[str] | None = None
        self.began, self.pause, self.resume = 0.0, 0.0, 0.0


class _Workers:
    """The processes of a server."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._workers = [_Worker(slot) for slot in range(options.workers)]
        self._is_ending = False

    def run(self) -> int:
        with _handled(self._end):
            for worker in self._workers:
                self._start(worker)
            try:
                while not self._is_ending:
                    time.sleep(_TICK)
                    for worker in self._workers:
                        self._look_at(worker)
            finally:
                self._stop()
        return 0

    def _end(self, *_: Any) -> None:
        self._is_ending = True

    def _start(self, worker: _Worker) -> None:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "dy2st_runtime.serving", str(worker.slot)]
        worker.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}, start_new_session=True
        )
        worker.began = time.monotonic()
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):
            worker.process.stdin.write(self._options.to_json() + "\n")
            worker.process.stdin.flush()
        log("info", "worker started", slot=worker.slot, worker=worker.process.pid)

    def _look_at(self, worker: _Worker) -> None:
        """Start a worker again that has died, unless it never could start."""
        now = time.monotonic()
        if worker.process is None:
            if now >= worker.resume and not self._is_ending:
                self._start(worker)
            return
        status = worker.process.poll()
        if status is None or self._is_ending:
            return
        assert worker.process.stdin is not None and self._options.shared is not None
        with contextlib.suppress(OSError):
            worker.process.stdin.close()
        if status == FAILED and not os.path.exists(os.path.join(self._options.shared, f"ready-{worker.slot}")):
            raise ServingError("a worker cannot start; the log says why")
        log("error", "worker died", slot=worker.slot, worker=worker.process.pid, status=status)
        worker.process = None
        worker.pause = 0.0 if now - worker.began > _LONG else min(_MOST_PAUSE, max(0.5, worker.pause * 2))
        worker.resume = now + worker.pause

    def _stop(self) -> None:
        """End the workers, those that do not want to after the time for that."""
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._options.drain_timeout + 5
        for process in running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                log("error", "worker killed", worker=process.pid)
                process.kill()
                process.wait()


@contextlib.contextmanager
def _handled(end: Any) -> Iterator[None]:
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _reserved(options: Options) -> Iterator[tuple[int, int | None]]:
    """Hold the ports, so that no other server gets them, and a free one is the same for all workers.

    Raises:
        ServingError: another process has one.
    """
    with contextlib.ExitStack() as stack:
        ports = list[int | None]()
        for port in (options.port, options.grpc_port):
            if port is None:
                ports.append(None)
                continue
            try:
                family, kind, _, _, address = socket.getaddrinfo(options.host, port, type=socket.SOCK_STREAM)[0]
                if port:
                    with socket.socket(family, kind) as alone:  # fails where somebody listens, whatever they share
                        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        alone.bind(address)
                holder = stack.enter_context(socket.socket(family, kind))
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                holder.bind(address)
            except OSError as error:
                raise ServingError(f"cannot listen at {options.host}:{port}: {error.strerror or error}") from None
            ports.append(holder.getsockname()[1])
        assert ports[0] is not None
        yield ports[0], ports[1]
