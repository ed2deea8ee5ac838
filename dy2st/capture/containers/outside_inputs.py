"""Objects in what is an input of the program: the code must not have met them otherwise, for there the program has another."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from dy2st import errors
from dy2st.capture.environment.request import OBJECT
from dy2st.capture.environment.sources import Source
from dy2st.capture.objects import construction
from dy2st.capture.session.session import Session
from dy2st.capture.types import kinds_of_items
from dy2st.capture.values.signals import NeedsObject


def check_apart(session: Session, source: Source, items: Iterable[Any]) -> None:
    """Check that the code has met no object that is in a list from outside, or that is one of several, by another name.

    Args:
        session: the capture.
        source: gives the list, or the one object in it.
        items: of the list.

    Raises:
        NeedsObject: it has, and that is to be an input, too.
        CaptureError: that cannot be.
    """
    held = kinds_of_items.held_in(items, construction.is_record)
    for value, other in _met(session):
        if id(value) not in held or (other is source and type(value) is not list):
            continue
        if construction.is_plain(type(value)) and session.outside.dynamic_state.get(other.name) != OBJECT:
            raise NeedsObject(other.name)
        raise errors.CaptureError(
            f"{other.name} is in {source.name} too, which differs from call to call",
            session.here(),
            fix="keep its position in the list, or what is read of it",
        )


def guard_apart(session: Session) -> None:
    """Require that the code have met no object that is in an input.

    Raises:
        NeedsObject: see :func:`check_apart`.
        CaptureError: the same.
    """
    for state in session.outside.states:
        if not state.classes:
            continue
        assert state.source is not None
        check_apart(session, state.source, state.value)
        others = list(_others(session, state.source, state.classes))
        if others:
            holds = kinds_of_items.is_or_holds if state.slot.kind == "object" else kinds_of_items.holds
            session.tracker.guards.holds_none(state.source, others, functools.partial(holds, construction.is_record))


def _others(session: Session, source: Source, classes: frozenset[type]) -> Iterator[Source]:
    for value, other in _met(session):
        if type(value) in classes and (other is not source or type(value) is list):
            yield other


def _met(session: Session) -> list[tuple[Any, Source]]:
    """Return the objects from outside that the code has met, but those that are inputs themselves."""
    inputs = [state.source for state in session.outside.states if state.slot.kind == "object"]
    return [(value, source) for value, source in session.tracker.objects() if source not in inputs]
