"""Requests of one example each, run together: continuous batching.

One thread runs all that are in. Before each iteration those leave that are done, given up by their clients or out of time, and
waiting ones enter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dy2st_runtime.serving.protocol.failures import DeadlineError, failure_of
from dy2st_runtime.serving.scheduler import Scheduler, Ticket

Finished = tuple[int, Any, "BaseException | None"]
"""The number of a request, its result, and what it has raised."""


class Together(Protocol):
    """Runs examples that enter and leave at any time; see :class:`dy2st_runtime.batching.stream.Lanes`."""

    def admit(self, examples: Sequence[tuple[int, Any]]) -> Sequence[Finished]:
        """Let examples enter; gives those that are done already."""

    def step(self) -> Sequence[Finished]:
        """Do one iteration; gives those that are done."""

    def drop(self, numbers: Sequence[int]) -> None:
        """Let examples leave that nobody waits for."""


class LaneScheduler(Scheduler):
    """Runs the calls of one model together.

    Args:
        together: makes what runs them.
        most: how many run at a time.
        wait: how long the first of them waits for others to come, in seconds, where none runs.
        capacity: how many calls wait at most.
    """

    def __init__(self, together: Callable[[], Together], *, most: int, wait: float, capacity: int) -> None:
        self._together, self._most, self._wait = together, most, wait
        super().__init__(lambda item: item, threads=1, capacity=capacity)

    def _work(self) -> None:
        lanes, tickets, number = self._together(), dict[int, Ticket](), 0
        while True:
            entering = self._entering(len(tickets))
            if entering is None:
                return
            began = [ticket for ticket in entering if self._begins(ticket)]
            numbered = list(enumerate(began, number))
            number += len(began)
            tickets.update(numbered)
            try:
                self._drop_late(lanes, tickets)
                items = [(at, ticket.item) for at, ticket in numbered if at in tickets]
                finished = [*(lanes.admit(items) if items else ()), *lanes.step()]
            except BaseException as error:  # nobody knows what they have come to
                finished = [(at, None, failure_of(error)) for at in tickets]
                lanes = self._together()
            for at, value, raised in finished:
                self._tell(tickets.pop(at), value, raised)

    def _entering(self, running: int) -> list[Ticket] | None:
        """Return waiting calls for the lanes that are free; waits for some where none runs. ``None`` when there will be none."""
        with self._free:
            while not self._queue and not running:
                if self._is_closed:
                    return None
                self._free.wait()
            until = time.perf_counter() + self._wait
            while not running and len(self._queue) < self._most and not self._is_closed:
                left = until - time.perf_counter()
                if left <= 0:
                    break
                self._free.wait(left)
            count = min(len(self._queue), self._most - running)
            entering = [self._queue.popitem(last=False)[1] for _ in range(count)]
            self._running += count
        return entering

    def _begins(self, ticket: Ticket) -> bool:
        if ticket.set_running_or_notify_cancel():
            ticket.began = time.perf_counter()
            return True
        with self._free:
            self._running -= 1
        return False

    def _drop_late(self, lanes: Together, tickets: dict[int, Ticket]) -> None:
        now = time.perf_counter()
        late = [
            at for at, ticket in tickets.items() if ticket.is_given_up or (ticket.deadline is not None and now > ticket.deadline)
        ]
        if late:
            lanes.drop(late)
        for at in late:
            self._tell(tickets.pop(at), None, DeadlineError("the time of the request passed, or its client has gone"))

    def _tell(self, ticket: Ticket, value: Any, raised: BaseException | None) -> None:
        ticket.item, ticket.ended = None, time.perf_counter()
        with self._free:
            self._running -= 1
        if raised is None:
            ticket.set_result(value)
        else:
            ticket.set_exception(raised.with_traceback(None) if isinstance(raised, Exception) else failure_of(raised))
