"""Loops over iterators of the user's whose steps or whose number a tensor decides.

for item in numbers:     →   going = True
    body                     while going and test():
                                 try: item = numbers.__next__()
                                 except StopIteration: going = False
                                 else: body

So what ``__next__`` writes to the iterator is state of the loop, and the iterator is at its place when the loop has been left.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from dy2st.capture.branching.branch import capture_if, capture_if_exp
from dy2st.capture.branching.trying import capture_try
from dy2st.capture.iterables import iterators
from dy2st.capture.looping.loop import capture_loop
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.signals import Refused
from dy2st.capture.writes.places import Around, CellPlace

DECIDED: Any = object()
"""What :func:`step` gives where a tensor decides whether there is a further item."""


def step(iterator: Any) -> Any:
    """Return the next item of an iterator, or its end, where that is known."""
    try:
        return iterators.step(iterator)
    except Refused as refused:
        if not isinstance(refused.__cause__, StopIteration):
            raise
    return DECIDED


def capture_steps(session: Session, iterator: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """Record a loop over an iterator whose class has a ``__next__`` that can be converted.

    Args:
        session: the capture.
        iterator: what gives the items.
        body: a function of the item.
        live: the names that are read after an iteration or after the loop.
        test: whether the loop goes on.
    """
    going: Any = True
    item: Any = None
    step = types.MethodType(type(iterator).__next__, iterator)
    names = (*live, "going", "item")

    def take() -> None:
        nonlocal item
        item = session.call(step)

    def stop(error: BaseException) -> None:
        nonlocal going
        going = False

    def iteration() -> None:
        capture_try(take, ((_kinds, stop),), None, names, ())
        if is_symbolic(going):
            capture_if(going, use, _nothing, live)
        elif going:
            use()

    def again() -> Any:
        if going is False:
            return going
        return capture_if_exp(going, test, lambda: False) if is_symbolic(going) else test()

    use = _Use(body, lambda: item)
    session.allocations.own_variables(take)
    session.allocations.own_variables(stop)
    cells = [*session.frames.cells_of(body, test), CellPlace(_cell_of(stop, "going"), "going")]
    capture_loop(session, True, again, iteration, cells, (*live, "going"))


class _Use(Around):
    """The body of the loop as a branch, which shares the cells of the body."""

    def __init__(self, body: Any, item: Callable[[], Any]) -> None:
        super().__init__(body)
        self.body, self.item = body, item

    def __call__(self) -> None:
        self.body(self.item())


def _cell_of(function: Any, name: str) -> types.CellType:
    """Return a variable that a function shares with the code around it."""
    return function.__closure__[function.__code__.co_freevars.index(name)]  # type: ignore[no-any-return]


def _kinds() -> Any:
    return StopIteration


def _nothing() -> None:
    """There is no item."""
