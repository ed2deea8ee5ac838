"""Lists from outside whose length differs from call to call: one program serves any length.

    self.log.append(loss)                     only appended to: the program holds what it appends, and reads nothing of the list
    x = self.memory[k]; self.memory.pop(0)    read, too: the list is an input of the program, which knows the type of its items

At first such a list is what the capture finds in it, and what is in it is guarded. The next call that finds it longer has a second
program captured, with the list as one of these, the first of them that the code allows (see :mod:`dy2st.static.dynamic_state`).
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

from dy2st import errors
from dy2st.capture.containers import outside_inputs
from dy2st.capture.environment.sources import Source
from dy2st.capture.objects import construction
from dy2st.capture.session.outside import State
from dy2st.capture.session.session import Session
from dy2st.capture.types import kinds_of_items, mismatches, value_types
from dy2st.capture.values.abstract_objects import AbstractDeque
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.ir.program import StateSlot


def create(session: Session, items: list[Any]) -> RuntimeList:
    """Turn a list from outside into a list of the program, which is an input of it, and guard what that relies on.

    Raises:
        CaptureError: the code reads it, and there is something in it of which a program takes no list.
    """
    source, given, known = session.tracker.source_of(items), session.outside.growing_lists[id(items)], session.lists.of(items)
    assert source is not None
    if given.is_read:
        outside_inputs.check_apart(session, source, given.before)
        kind = element_of(session, given.before)
        if known is None:
            known = take(session, source, given.before, kind, functools.partial(session.lists.convert_outside, items))
        guard(session, source, given.before, kind)
    elif known is None:
        known = session.lists.convert_outside(items, None)
        known.is_appended = True
        session.outside.add_state(State(StateSlot(source.name, "new list"), source, given.before, known))
    return known


def create_deque(session: Session, shown: AbstractDeque, value: collections.deque[Any], source: Source) -> None:
    """Have what is in a deque from outside be a list of the program, and guard what that relies on.

    Args:
        session: the capture.
        shown: stands for the deque, and gets the list.
        value: the deque.
        source: gives it.

    Raises:
        CaptureError: there is something in it of which a program takes no list.
    """
    now, items = list(value), list(value)
    outside_inputs.check_apart(session, source, now)
    kind = element_of(session, now)
    session.tracker.know(items, source)
    shown.items = take(session, source, now, kind, functools.partial(session.lists.convert_outside, items)).items
    expected = "is an empty deque" if kind is None else f"is a deque of {mismatches.text(kind)}"
    guard(session, source, now, kind, expected, lambda given: list(given) if type(given) is collections.deque else None)


def take(
    session: Session,
    source: Source,
    now: list[Any],
    kind: value_types.Type | None,
    make: Callable[[value_types.Type | None], RuntimeList],
    slot: str = "list",
) -> RuntimeList:
    """Have a list from outside be an input of the program.

    Args:
        session: the capture.
        source: gives the list.
        now: what is in it now.
        kind: the type of its items.
        make: makes what stands for it, given the type of the items in the program.
        slot: the kind of the input.
    """
    classes = set(kinds_of_items.classes_in(kind))
    for one in classes - {list, dict}:
        session.tracker.met(one)
    changed = frozenset(one for one in classes if session.places.copies.is_wanted(one, session.traits.apart))
    abstract = make(kinds_of_items.with_cells(kind, changed))
    state = session.outside.add_state(State(StateSlot(source.name, slot), source, now, abstract, frozenset(classes), changed))
    session.in_flight.has_acted |= state.changes_objects
    return abstract


def guard(
    session: Session,
    source: Source,
    now: list[Any],
    kind: value_types.Type | None,
    expected: str = "",
    items_of: Callable[[Any], Any] = lambda given: given,
) -> None:
    """Require that what a source gives hold what its program is made for.

    Args:
        session: the capture.
        source: gives the list, or something else.
        now: what is in it now.
        kind: the type of its items.
        expected: the condition in words, of anything else than a list.
        items_of: gives what is in that, as a list; ``None`` where there is something else.
    """
    are_fit = kinds_of_items.condition(kind, now)
    if not expected:
        expected = "is empty" if kind is None else f"is a list of {mismatches.text(kind)}"
    session.tracker.guards.add(source, "fits", lambda given: are_fit(items_of(given)), expected)


def of_objects(session: Session) -> list[str]:
    """Return the names of the lists of plain objects from outside that the code has met and that are no inputs."""
    return [
        source.name
        for value, source in session.tracker.objects()
        if type(value) is list
        and id(value) not in session.outside.growing_lists
        and any(construction.is_record(type(item)) for item in value)
    ]


def length_before(session: Session, items: RuntimeList) -> Any:
    """Return how long a list that is only appended to was before the call: a number that only the program knows."""
    parent = session.tracker.source_of(items.items)
    assert parent is not None
    source = session.tracker.table.length(parent)
    known = next((state.abstract for state in session.outside.states if state.source is source), None)
    before = session.outside.growing_lists[id(items.items)].before
    return session.outside.dynamic_number(source, len(before)) if known is None else known


def element_of(session: Session, items: list[Any]) -> value_types.Type | None:
    """Return the type of the items of a list from outside.

    Raises:
        CaptureError: there is something in it of which a program takes no list.
    """
    try:
        return kinds_of_items.of_items(items, construction.is_record)
    except TypeError as error:
        raise errors.CaptureError(
            "a list from outside that is longer at each call is read, and holds what a program takes no list of",
            session.here(),
            seen=str(error),
            fix="keep numbers, strings, tensors of one dtype and rank in it, or tuples, lists, dicts and plain objects of them",
        ) from None
