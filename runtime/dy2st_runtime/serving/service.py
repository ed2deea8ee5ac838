"""What both ways to the server share: from a request to its results, with deadlines, cancelling, counting and the API key."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hmac
import importlib.metadata
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dy2st_runtime.serving.logs import log
from dy2st_runtime.serving.metrics import Metrics
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.protocol.datatypes import Result
from dy2st_runtime.serving.protocol.failures import (
    DeadlineError,
    ForbiddenError,
    GoneError,
    QueueFullError,
    RequestError,
    UnauthorizedError,
    UnavailableError,
    failure_of,
)
from dy2st_runtime.serving.protocol.json_messages import Request
from dy2st_runtime.serving.repository import Found, Repository
from dy2st_runtime.serving.scheduler import Ticket
from dy2st_runtime.serving.sync import Wishes
from dy2st_runtime.serving.tracing import Tracing

NAME, PLATFORM = "dy2st", "dy2st_archive"
EXTENSIONS = ("binary_tensor_data", "model_repository", "schedule_policy")


def release() -> str:
    """Return the version of this package."""
    try:
        return importlib.metadata.version("dy2st")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@dataclasses.dataclass
class Trip:
    """One request for inference on its way.

    Attributes:
        protocol: ``"http"`` or ``"grpc"``.
        headers: as bytes, their names in lower case.
        began: when it came, in seconds of ``time.perf_counter``.
        found: the model, once it is known.
        ticket: its call, once it is in the queue.
    """

    protocol: str
    headers: Iterable[tuple[bytes, bytes]] = ()
    began: float = dataclasses.field(default_factory=time.perf_counter)
    found: Found | None = None
    ticket: Ticket | None = None


class Service:
    """A server's models, as requests see them. The thread of the event loop calls all but what says otherwise.

    Args:
        options: of the server.
        repository: its models.
        metrics: what it counts.
    """

    def __init__(self, options: Options, repository: Repository, metrics: Metrics) -> None:
        self.options, self.repository, self.metrics = options, repository, metrics
        self.is_ending, self._held = False, 0
        self._wishes = Wishes(options.shared)
        self._tracing = Tracing() if options.tracing else None
        self._key = None if options.api_key is None else options.api_key.encode()

    @property
    def is_ready(self) -> bool:
        """Whether requests should come here."""
        return not self.is_ending and self.repository.is_ready

    def authorize(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Check the API key, of ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``.

        Args:
            headers: of the request, their names in lower case.

        Raises:
            UnauthorizedError: it is missing or wrong.
        """
        if self._key is None:
            return
        for name, value in headers:
            given = value if name == b"x-api-key" else None
            if name == b"authorization" and value[:7].lower() == b"bearer ":
                given = value[7:]
            if given is not None and hmac.compare_digest(given, self._key):
                return
        raise UnauthorizedError("this server wants its API key, in the header Authorization: Bearer KEY or X-API-Key: KEY")

    def hold(self, size: int) -> None:
        """Count bytes of bodies that are in memory.

        Args:
            size: how many more, or with a minus how many less.

        Raises:
            QueueFullError: they would be too many.
        """
        if size > 0 and self._held + size > self.options.max_held:
            raise QueueFullError(f"{self._held} bytes of requests are here already; try again later")
        self._held += size

    def control(self, name: str, is_wanted: bool) -> None:
        """Load or unload a model for a client, here and in the other workers; takes its time, in a thread of its own.

        Args:
            name: of the model.
            is_wanted: whether to load it.

        Raises:
            ForbiddenError: clients may not.
            BadRequestError, NotFoundError: it cannot be done.
        """
        if not self.options.allows_control:
            raise ForbiddenError("this server does not load and unload models for clients: start it with --control, or an API key")
        (self.repository.load if is_wanted else self.repository.unload)(name)
        self._wishes.tell(name, is_wanted)

    def follow(self) -> None:
        """Load and unload what other workers were asked to; takes its time, in a thread of its own."""
        for name, is_wanted in self._wishes.news():
            with contextlib.suppress(RequestError):  # the log and the index say it
                (self.repository.load if is_wanted else self.repository.unload)(name)

    async def infer(
        self, trip: Trip, request: Request, timeout: float | None, gone: Callable[[], Any] | None = None
    ) -> Sequence[Result]:
        """Return what a model makes of a request.

        Args:
            trip: of the request, with its model; gets its call.
            request: what is asked.
            timeout: how many seconds the client gives on its way, besides in the request; ``None`` for any number.
            gone: an awaitable that ends when the client is gone; left out where the task is cancelled then.

        Raises:
            RequestError: what the client is to be told.
        """
        if self.is_ending:
            raise UnavailableError("the server ends")
        found, limits = trip.found, [limit for limit in (timeout, request.timeout, self.options.timeout) if limit is not None]
        assert found is not None
        deadline = time.perf_counter() + min(limits) if limits else None
        try:
            ticket = found.version.submit(found.method, request.inputs, request.outputs, deadline)
        except UnavailableError:  # it was replaced at this moment
            trip.found = found = self.repository.find(found.name, found.number)
            ticket = found.version.submit(found.method, request.inputs, request.outputs, deadline)
        trip.ticket = ticket
        try:
            return await _result(ticket, min(limits) if limits else None, gone)
        except Exception as error:
            raise failure_of(error) from None
        finally:
            ticket.cancel()

    def account(self, trip: Trip, outcome: str, failure: RequestError | None = None) -> None:
        """Count a request that is over; log it where that is asked for, or the model failed.

        Args:
            trip: of the request. Of what a client says, nothing becomes a label but the name of a model that is there.
            outcome: a status or code.
            failure: what the client was told.
        """
        found, ticket = trip.found, trip.ticket
        name, seconds = "" if found is None else found.name, time.perf_counter() - trip.began
        self.metrics.count("dy2st_requests_total", model=name, protocol=trip.protocol, outcome=outcome)
        self.metrics.observe("dy2st_request_seconds", seconds, model=name, protocol=trip.protocol)
        if ticket is not None and ticket.began:
            self.metrics.observe("dy2st_queue_seconds", ticket.began - ticket.queued, model=name)
            if ticket.ended:
                self.metrics.observe("dy2st_compute_seconds", ticket.ended - ticket.began, model=name)
        told = None if failure is None else str(failure)[:500]
        version = "" if found is None else found.number
        is_own = failure is not None and failure.status in (500, 503)
        if is_own or self.options.log_requests:
            level, seconds = "error" if is_own else "info", round(seconds, 6)
            log(level, "request", protocol=trip.protocol, model=name, version=version, outcome=outcome, seconds=seconds, error=told)
        if self._tracing is not None:
            texts = {"model": name, "version": version, "protocol": trip.protocol, "outcome": outcome}
            self._tracing.add(trip.headers, trip.began, ticket, told, **texts)

    def gather(self) -> Metrics:
        """Return what all workers have counted, with what there is now."""
        values: list[tuple[str, dict[str, str], float]] = []
        loaded = self.repository.loaded()
        for name, number, version in loaded:
            labels = {"model": name, "version": number}
            values.append(("dy2st_waiting", labels, version.scheduler.waiting))
            values.append(("dy2st_running", labels, version.scheduler.running))
        values.append(("dy2st_models_ready", {}, len(loaded)))
        self.metrics.set_gauges(values)
        return self.metrics.together()


async def _result(ticket: Ticket, timeout: float | None, gone: Callable[[], Any] | None) -> Sequence[Result]:
    """Wait for a call, for its deadline, or for the client to be gone, whichever is first.

    Raises:
        DeadlineError: the deadline was.
        GoneError: the client is gone.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(error: BaseException | None = None) -> None:
        if not waiter.done():
            waiter.set_result(None) if error is None else waiter.set_exception(error)

    def done(_: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(wake)

    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        assert gone is not None
        await gone()
        wake(GoneError("the client is gone"))

    ticket.add_done_callback(done)
    timers = []
    if timeout is not None:
        told = DeadlineError(f"the request took more than its {timeout:g} s")
        timers.append(loop.call_later(timeout, wake, told))
    if gone is not None:  # most calls are done by then, and need no task
        timers.append(loop.call_later(_PATIENCE, lambda: watching.append(loop.create_task(watch()))))
    try:
        await waiter
    finally:
        for timer in timers:
            timer.cancel()
        for task in watching:
            task.cancel()
    results: Sequence[Result] = ticket.result()
    return results


_PATIENCE = 0.02
"""Seconds until a connection is watched for being cut."""
