"""Loops over positions: each iteration takes the item at its own."""

from __future__ import annotations

from collections.abc import Sequence
from types import CellType
from typing import Any

from dy2st.capture.branching.branch import capture_if, capture_if_exp
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.looping.loop import capture_loop
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.writes.places import CellPlace

_POSITION = "<position>"


def capture_positions(session: Session, items: RuntimeIterable, body: Any, live: Sequence[str], test: Any, start: int) -> None:
    position = CellType(start)
    session.allocations.own(position)
    place = CellPlace(position, _POSITION)

    def more() -> Any:
        k = position.cell_contents
        return k < items.length()

    def again() -> Any:
        if test is None:
            return more()
        going = test()
        if is_symbolic(going):
            return capture_if_exp(going, more, lambda: False)
        return more() if going else False

    def iteration() -> None:
        k = position.cell_contents
        item = items.at(k)
        position.cell_contents = k + 1
        body(item)

    cells = [*session.frames.cells_of(body, *([test] if test is not None else [])), place]
    capture_loop(session, again(), again, iteration, cells, [*live, _POSITION])
    going = items.end is not None and (test is None or test())
    if is_symbolic(going):
        capture_if(going, items.end, nothing, ())
    elif going and items.end is not None:
        items.end()


def nothing() -> None:
    """Do nothing: the branch of an iteration that is skipped."""
