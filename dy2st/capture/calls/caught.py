"""``try`` and ``with`` statements: an exception that a tensor decides goes to its handler as a value of the program.

try:                        branch 1 leaves that there was a ValueError
    if x.sum() > 0:
        raise ValueError
    y = f(x)                runs in a branch of its own, where there was none (see rests.py)
except ValueError:
    y = x                   runs in a branch, where there was one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dy2st.capture.branching.branch import join
from dy2st.capture.branching.trying import Handlers, capture_try, handle
from dy2st.capture.calls.managers import Managed, managed
from dy2st.capture.raising import rests
from dy2st.capture.raising.departures import Attempt
from dy2st.capture.raising.unwinding import Suppress
from dy2st.capture.session.session import current
from dy2st.capture.writes.places import Around


def capture_with(manager: Any, body: Any, live: Sequence[str], caught: Sequence[str]) -> None:
    """Capture a ``with`` statement.

    Args:
        manager: the context manager.
        body: a function of what it gives.
        live: the names that are read afterwards.
        caught: those that what follows may see as they were when an exception was raised that the manager ends.
    """
    session, manager = current(), managed(manager)
    if isinstance(manager, Suppress):
        return capture_try(_Entered(body), ((lambda: manager.kinds, _nothing),), None, live, caught)

    def whole() -> None:
        with manager as entered:
            body(entered)

    if session is None or not isinstance(manager, Managed):
        return whole()
    cells, depth = session.frames.cells_of(body), session.blocks.nesting
    handlers: Handlers = ((None, _nothing),)
    manager.attempt = attempt = Attempt(session, handlers, cells, caught)
    value, dead = rests.run(session, depth, whole)
    if session.blocks.has_rest(depth):
        rests.joined(session, depth, value, dead, live, join)
        handle(session, attempt, handlers, live)
        rests.go_on(session, cells)


class _Entered(Around):
    """The body of a ``with`` statement, whose manager gives nothing."""

    def __init__(self, body: Any) -> None:
        super().__init__(body)
        self.body = body

    def __call__(self) -> None:
        self.body(None)


def _nothing(error: BaseException) -> None:
    """Do what is done about an exception that a context manager ends."""
