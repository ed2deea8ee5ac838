"""Loops over positions: each iteration takes the item at its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import CellType
from typing import Any

from dy2st.capture.branching.branch import capture_if, capture_if_exp
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.looping.loop import capture_loop
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.writes.places import CellPlace, ItemPlace

_POSITION = "<position>"


class KeptPosition:
    """Where an iterator is that the user's code keeps: whoever takes from it next goes on from there.

    Args:
        session: the capture.
        reached: keeps the position.
    """

    def __init__(self, session: Session, reached: dict[str, Any]) -> None:
        self._session, self._place = session, ItemPlace(reached, "position")

    def __call__(self) -> Any:
        return self._place.read()

    def go_to(self, k: Any) -> None:
        """Go on from a position."""
        self._session.places.write(self._place)
        self._place.write(k)

    def end(self) -> None:
        """Note that an iterator has come to the end: it gives nothing more, even if there is."""
        self.go_to(sys.maxsize)


class _LoopPosition:
    """Where a loop is, in a variable of its own."""

    def __init__(self, session: Session, start: int) -> None:
        cell = CellType(start)
        session.allocations.own(cell)
        self.place = CellPlace(cell, _POSITION)

    def __call__(self) -> Any:
        return self.place.read()

    def go_to(self, k: Any) -> None:
        self.place.write(k)

    def end(self) -> None:
        """Do nothing: the loop is over."""


def capture_positions(session: Session, items: RuntimeIterable, body: Any, live: Sequence[str], test: Any, start: int) -> None:
    position = _LoopPosition(session, start) if items.reached is None else KeptPosition(session, items.reached)
    own = [position.place] if isinstance(position, _LoopPosition) else []

    def more() -> Any:
        k = position()
        return k < items.length() if items.more is None else items.more(k)

    def again() -> Any:
        if test is None:
            return more()
        going = test()
        if is_symbolic(going):
            return capture_if_exp(going, more, lambda: False)
        return more() if going else False

    def iteration() -> None:
        k = position()
        item = items.at(k)
        position.go_to(k + 1)
        body(item)

    cells = [*session.frames.cells_of(body, *([test] if test is not None else [])), *own]
    capture_loop(session, again(), again, iteration, cells, [*live, _POSITION])
    if items.end is not None or items.reached is not None:
        _end(items, position, test)


def _end(items: RuntimeIterable, position: KeptPosition | _LoopPosition, test: Any) -> None:
    """Do what there is to do where a loop has run out of items."""

    def ended() -> None:
        k = position()
        position.end()
        if items.end is not None:
            items.end(k)

    going = test is None or test()
    if is_symbolic(going):
        capture_if(going, ended, nothing, ())
    elif going:
        ended()


def nothing() -> None:
    """Do nothing: the branch of an iteration that is skipped."""
