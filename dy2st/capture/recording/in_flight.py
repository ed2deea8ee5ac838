"""Exceptions of one capture: those on their way, what they pass, and what is done before an operation that may raise one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import CellType
from typing import Any, Protocol

from dy2st import names
from dy2st.capture.writes.places import CellPlace

ACTS_FOR_USER = False


class Pending(Protocol):
    """What an exception passes on its way out of the captured code."""

    def catches(self, error: BaseException) -> bool: ...

    def sees(self, error: BaseException) -> bool: ...

    def keeps(self, place: CellPlace) -> bool: ...

    def unwind(self, session: Any, error: BaseException) -> Any: ...


class Foreseeing(Protocol):
    """What looks whether operations fail, where the captured code catches that."""

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any: ...

    def sizes(self, func: Any, args: Any, kwargs: Any) -> Any: ...

    def number(self, target: Any, args: Any) -> None: ...

    def is_named(self, kind: type[Exception]) -> bool: ...

    def is_caught(self, kind: type[Exception]) -> bool: ...


class InFlight:
    """The exceptions of one capture.

    Attributes:
        pending: the handlers, `finally` clauses and context managers that the captured code is in, outside first.
        left: the exception that is on its way to a handler (see departures.py); ``None`` in code that runs.
        departures: what stands for these exceptions, by where they are raised.
        raised: what `raise` statements of the user's have raised.
        chains: these, with when that was, and what they were raised behind before.
        handled_around: the identities of what the caller is handling: the next call may be made where nothing is handled.
        failed: the last operation of torch that failed on abstract values: its error, function and arguments.
        before_raise: called before an operation that raises is recorded.
        before_failing: called before an operation that may fail when the program runs: it records what was written by then, or
            finds that the program has to.
        has_acted: whether the program is known to have changed a tensor from outside by now, or to have drawn random numbers.
        foreseen: looks whether operations fail that are about to be recorded; ``None`` if nobody does.
        in_batch: whether the code is captured for one item of a batch, ``torch.func.vmap``, and no branch can be for one item.
        has_written: tells whether the program has written something outside by now that can be seen when it raises.
    """

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.left = CellPlace(CellType(None), names.LEFT)
        self.departures: dict[tuple[Any, ...], Any] = {}
        self.raised: list[BaseException] = []
        self.chains: list[tuple[BaseException, int, dict[str, Any]]] = []
        self.handled_around = set(map(id, _handled()))
        self.failed: tuple[BaseException, Any, Any, Any] | None = None
        self.before_raise: Callable[[], None] = lambda: None
        self.before_failing: Callable[[], None] | None = None
        self.has_acted = False
        self.foreseen: Foreseeing | None = None
        self.in_batch = False
        self.has_written: Callable[[], bool] = lambda: False

    @contextlib.contextmanager
    def around(self, step: Pending) -> Iterator[None]:
        """Let an exception that leaves a block inside pass a step."""
        self.pending.append(step)
        try:
            yield
        finally:
            self.pending.pop()

    def forget(self) -> None:
        """Note that the capture is over: let go of what it raised."""
        self.raised.clear()
        self.chains.clear()
        self.failed = None


def _handled() -> Iterator[BaseException]:
    """Yield the exceptions that are being handled."""
    error = sys.exc_info()[1]
    while error is not None:
        yield error
        error = error.__context__
