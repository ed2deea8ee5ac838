"""Which request runs when: a bounded queue and threads that take from it.

:class:`Scheduler` is all that the rest of the server knows of how calls are run: ``submit`` takes what one request gives and
returns a future of what the model makes of it. :class:`~dy2st_runtime.serving.lanes.LaneScheduler` runs them together.
"""

from __future__ import annotations

import collections
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dy2st_runtime.serving.protocol.failures import DeadlineError, QueueFullError, UnavailableError, failure_of


class Ticket(Future[Any]):
    """The future of one call; cancelling it while it waits takes it out of the queue.

    Attributes:
        began, ended: when it ran, in seconds of ``time.perf_counter``; 0 before.
        queued: when it was taken into the queue.
        is_given_up: whether it was cancelled while it ran; what runs calls together leaves it then.
    """

    def __init__(self, leave: Callable[[Ticket], None], item: Any, deadline: float | None) -> None:
        super().__init__()
        self._leave = leave
        self.item, self.deadline = item, deadline
        self.queued, self.began, self.ended = time.perf_counter(), 0.0, 0.0
        self.is_given_up = False

    def cancel(self) -> bool:
        """Cancel it, as every future: true unless it runs or has run."""
        done = super().cancel()
        if done:
            self._leave(self)
        self.is_given_up = True
        return done


class Scheduler:
    """Runs calls of one model in the order in which they come.

    Args:
        run: makes the result of what a request gives; called by several threads at once.
        threads: how many calls run at once.
        capacity: how many calls wait at most.

    Example:
        >>> scheduler = Scheduler(lambda x: x + 1, threads=2, capacity=8)
        >>> scheduler.submit(1).result()
        2
        >>> scheduler.close()
        True
    """

    def __init__(self, run: Callable[[Any], Any], *, threads: int, capacity: int) -> None:
        self._run, self._capacity = run, capacity
        self._queue: collections.OrderedDict[int, Ticket] = collections.OrderedDict()
        self._free = threading.Condition(threading.Lock())
        self._running = 0
        self._is_closed = False
        self._threads = [threading.Thread(target=self._work, name=f"dy2st-call-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many calls run."""
        return self._running

    def submit(self, item: Any, deadline: float | None = None) -> Ticket:
        """Take a call into the queue.

        Args:
            item: what the request gives.
            deadline: when it is of no use any more, in seconds of ``time.perf_counter``.

        Raises:
            QueueFullError: as many wait as may.
            UnavailableError: the model is being unloaded.
        """
        ticket = Ticket(self._forget, item, deadline)
        with self._free:
            if self._is_closed:
                raise UnavailableError("the model is being unloaded")
            if len(self._queue) >= self._capacity:
                raise QueueFullError(f"{self._capacity} requests wait already; try again later")
            self._queue[id(ticket)] = ticket
            self._free.notify()
        return ticket

    def close(self, timeout: float | None = None) -> bool:
        """Take no more calls, and wait until those that are there have run.

        Args:
            timeout: how long to wait, in seconds; what waits then is told so.

        Returns:
            Whether all have run.
        """
        with self._free:
            self._is_closed = True
            self._free.notify_all()
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        with self._free:
            left = list(self._queue.values())
            self._queue.clear()
        for ticket in left:
            if ticket.set_running_or_notify_cancel():
                ticket.set_exception(UnavailableError("the server ends"))
        return not left and not any(thread.is_alive() for thread in self._threads)

    def _forget(self, ticket: Ticket) -> None:
        with self._free:
            self._queue.pop(id(ticket), None)

    def _next(self) -> Ticket | None:
        """Wait for a call, and take it; ``None`` when there will be none."""
        with self._free:
            while not self._queue:
                if self._is_closed:
                    return None
                self._free.wait()
            _, ticket = self._queue.popitem(last=False)
            self._running += 1
            return ticket

    def _work(self) -> None:
        while (ticket := self._next()) is not None:
            tell = self._done(ticket)
            with self._free:
                self._running -= 1
            if tell is not None:
                tell()
            del ticket, tell  # with their tensors, while this thread waits

    def _done(self, ticket: Ticket) -> Callable[[], None] | None:
        """Do a call, and return what tells how it went; ``None`` where nobody wants to know any more."""
        if not ticket.set_running_or_notify_cancel():
            return None
        item, ticket.item = ticket.item, None
        ticket.began = time.perf_counter()
        if ticket.deadline is not None and ticket.began > ticket.deadline:
            late = DeadlineError("the time of the request passed while it waited")
            return functools.partial(ticket.set_exception, late)
        try:
            return functools.partial(ticket.set_result, self._run(item))
        except Exception as error:
            return functools.partial(ticket.set_exception, error.with_traceback(None))  # whose frames would keep the tensors
        except BaseException as error:  # a model may raise SystemExit; this process goes on
            return functools.partial(ticket.set_exception, failure_of(error))
        finally:
            ticket.ended = time.perf_counter()
