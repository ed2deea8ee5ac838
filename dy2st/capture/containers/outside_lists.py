"""Lists from outside whose length differs from call to call: one program serves any length.

    self.log.append(loss)                     only appended to: the program holds what it appends, and reads nothing of the list
    x = self.memory[k]; self.memory.pop(0)    read, too: the list is an input of the program, which knows the type of its items

At first such a list is what the capture finds in it, and what is in it is guarded. The next call that finds it longer has a second
program captured, with the list as one of these, the first of them that the code allows (see :mod:`dy2st.static.dynamic_state`).
"""

from __future__ import annotations

from typing import Any

from dy2st import errors
from dy2st.capture.environment.sources import Source
from dy2st.capture.session.outside import State
from dy2st.capture.session.session import Session
from dy2st.capture.types import kinds_of_items, mismatches, value_types
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.ir.program import StateSlot


def create(session: Session, items: list[Any]) -> RuntimeList:
    """Turn a list from outside into a list of the program, which is an input of it, and guard what that relies on.

    Raises:
        CaptureError: the code reads it, and there is something in it of which a program takes no list.
    """
    source, given, known = session.tracker.source_of(items), session.outside.growing_lists[id(items)], session.lists.of(items)
    assert source is not None
    if known is None:
        known = session.lists.convert_outside(items, _element_of(session, given.before) if given.is_read else None)
        known.is_appended = not given.is_read
        kind = "list" if given.is_read else "new list"
        session.outside.add_state(State(StateSlot(source.name, kind), source, given.before, known))
    if given.is_read:
        guard(session, source, given.before, known)
    return known


def guard(session: Session, source: Source, now: list[Any], abstract: RuntimeList) -> None:
    """Require that a list from outside hold what its program is made for.

    Args:
        session: the capture.
        source: gives the list.
        now: what is in it now.
        abstract: what stands for it.
    """
    kind = abstract.element
    expected = "is empty" if kind is None else f"is a list of {mismatches.text(kind)}"
    session.tracker.guards.add(source, "fits", kinds_of_items.condition(kind, now), expected)


def length_before(session: Session, items: RuntimeList) -> Any:
    """Return how long a list that is only appended to was before the call: a number that only the program knows."""
    parent = session.tracker.source_of(items.items)
    assert parent is not None
    source = session.tracker.table.length(parent)
    known = next((state.abstract for state in session.outside.states if state.source is source), None)
    before = session.outside.growing_lists[id(items.items)].before
    return session.outside.dynamic_number(source, len(before)) if known is None else known


def _element_of(session: Session, items: list[Any]) -> value_types.Type | None:
    try:
        return kinds_of_items.of_items(items)
    except TypeError as error:
        raise errors.CaptureError(
            "a list from outside that is longer at each call is read, and holds what a program takes no list of",
            session.here(),
            seen=str(error),
            fix="keep numbers, strings and tensors of one dtype and rank in it, or tuples of them",
        ) from None
