"""One process that serves: an event loop with HTTP and gRPC, from the first model that is loaded to the last call that has run."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import uvicorn

from dy2st_runtime.errors import Dy2stError, ServingError
from dy2st_runtime.serving import grpc_service
from dy2st_runtime.serving.logs import forward, log
from dy2st_runtime.serving.metrics import Metrics
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.repository import Repository
from dy2st_runtime.serving.service import Service
from dy2st_runtime.serving.web.rest import application

_SWITCH = 5e-4
"""Seconds after which a thread that wants to run Python takes its turn: the event loop waits for threads that call models."""


def run(options: Options) -> int:
    """Serve until SIGTERM or SIGINT; see :func:`dy2st_runtime.serving.run`."""
    Running(options).run()
    return 0


class Running:
    """A server in this process.

    Args:
        options: what to serve, and where.
        slot: the number of this worker.

    Attributes:
        started: set once requests are answered, and when that has failed.
        port, grpc_port: where, then.
    """

    def __init__(self, options: Options, slot: int = 0) -> None:
        self.options, self._slot = options, slot
        self.started = threading.Event()
        self.port = self.grpc_port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Serve until :meth:`stop` is called; in the main thread, until a signal, too.

        Raises:
            ServingError: it cannot start.
        """
        forward("uvicorn", "uvicorn.error", "uvicorn.asgi", "grpc", "grpc._cython.cygrpc", "asyncio")
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, _SWITCH))
        if self.options.torch_threads is not None:
            torch.set_num_threads(self.options.torch_threads)
        try:
            with contextlib.closing(_new_loop()) as loop:
                asyncio.set_event_loop(loop)
                loop.run_until_complete(self._serve())
        finally:
            sys.setswitchinterval(before)
            self.started.set()

    def stop(self) -> None:
        """Take no more requests, finish those that are there, and end; called by any thread."""
        self._is_stopped = True
        if self._loop is not None and self._ending is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ending.set)

    async def _serve(self) -> None:
        options, loop = self.options, asyncio.get_running_loop()
        self._loop, self._ending = loop, asyncio.Event()
        metrics = Metrics(options.shared, self._slot)

        def changed(name: str, what: str) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: metrics.count("dy2st_model_loads_total", model=name, outcome=what))

        repository = Repository(options, changed)
        listener = _bound(options)
        with contextlib.closing(listener), _signals(loop, self.stop):
            await asyncio.to_thread(repository.load_all)
            service = Service(options, repository, metrics)
            await asyncio.to_thread(service.follow)
            self.port = listener.getsockname()[1]
            http = _Http(_config(service, self.options))
            grpc = None
            if options.grpc_port is not None:
                try:
                    grpc, self.grpc_port = await grpc_service.listen(service, options.grpc_port, options.workers > 1)
                except OSError as error:
                    raise ServingError(str(error)) from None
            serving = asyncio.ensure_future(http.serve([listener]))
            watching = asyncio.ensure_future(self._watch(service))
            while not http.started and not serving.done():
                await asyncio.sleep(0.005)
            gc.collect()
            gc.freeze()  # what models are made of is not looked through at each collection
            self._say_started(service)
            if self._is_stopped:
                self._ending.set()
            await asyncio.wait([serving, ending := asyncio.ensure_future(self._ending.wait())], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            watching.cancel()
            await self._end(service, http, serving, grpc)

    def _say_started(self, service: Service) -> None:
        options = service.options
        scheme = "https" if options.tls_cert else "http"
        log("info", "started", url=f"{scheme}://{options.host}:{self.port}", grpc_port=self.grpc_port or None, slot=self._slot)
        if not options.is_local and options.api_key is None and options.tls_client_ca is None:
            log("warning", "anybody who reaches this address may call these models: give an API key", host=options.host)
        if options.shared is not None:
            with open(os.path.join(options.shared, f"ready-{self._slot}"), "w", encoding="utf-8"):
                pass
        self.started.set()

    async def _watch(self, service: Service) -> None:
        """Look for changes of files, and for what other workers are told, until cancelled."""
        if not self.options.poll and self.options.shared is None:
            return
        while True:
            await asyncio.sleep(self.options.poll or 1.0)
            if self.options.shared is not None:
                service.gather()
                await asyncio.to_thread(service.follow)
            if self.options.poll:
                try:
                    await asyncio.to_thread(service.repository.refresh)
                except (Dy2stError, OSError) as error:
                    log("error", "cannot look for changes", reason=str(error))

    async def _end(self, service: Service, http: _Http, serving: asyncio.Future[None], grpc: Any) -> None:
        drain = self.options.drain_timeout
        log("info", "ending", running=sum(v.scheduler.running + v.scheduler.waiting for _, _, v in service.repository.loaded()))
        service.is_ending = True
        http.should_exit = True
        if grpc is not None:
            await asyncio.gather(serving, grpc.stop(drain))
        else:
            await serving
        is_done = await asyncio.to_thread(service.repository.close, drain)
        service.metrics.leave()
        log("info", "ended") if is_done else log("warning", "ended while calls still ran")


class _Http(uvicorn.Server):
    """Leaves signals to this module."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def _config(service: Service, options: Options) -> uvicorn.Config:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            config = uvicorn.Config(
                application(service),
                http=_connections(options),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=options.max_connections,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, int(options.drain_timeout)),
                ssl_certfile=options.tls_cert,
                ssl_keyfile=options.tls_key,
                ssl_ca_certs=options.tls_client_ca,
                ssl_cert_reqs=ssl.CERT_NONE if options.tls_client_ca is None else ssl.CERT_REQUIRED,
            )
            config.load()
    except (OSError, ssl.SSLError) as error:
        raise ServingError(f"the certificate or key for TLS cannot be used: {error}") from None
    return config


def _connections(options: Options) -> Any:
    try:
        from dy2st_runtime.serving.web.connections import protocol_class  # needs httptools, which is optional
    except ModuleNotFoundError:
        return "h11"
    return protocol_class(options.receive_timeout)


def _bound(options: Options) -> socket.socket:
    """Return a socket at the address for HTTP.

    Raises:
        ServingError: the address is taken.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.workers > 1:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        raise ServingError(f"cannot listen at {options.host}:{options.port} for HTTP: {error.strerror or error}") from None
    return listener


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # optional, and faster
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
