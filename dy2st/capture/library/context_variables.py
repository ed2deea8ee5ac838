"""Context variables: what one holds is a place like an attribute: guarded, undone, joined, and written when a program has run."""

from __future__ import annotations

import contextvars
from typing import Any

from dy2st import errors
from dy2st.capture.library.registry import handles
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.context_slots import UNSET, ContextSlot, slot_of
from dy2st.capture.writes.places import AttributePlace


class ContextToken:
    """What ``var.set(value)`` gives in captured code: Python's own could be used once, and only in the context of the capture.

    Args:
        var: the variable.
        old_value: what it held before; ``contextvars.Token.MISSING`` if nothing.

    Example:
        >>> ContextToken(contextvars.ContextVar("depth"), 1).old_value
        1
    """

    def __init__(self, var: Any, old_value: Any) -> None:
        self.var = var
        self.old_value = old_value
        self.is_used = False


@handles(contextvars.ContextVar.get)
def _get(session: Session, variable: contextvars.ContextVar[Any], *default: Any) -> Any:
    place = _place(session, variable)
    session.outside.read(place)
    value = place.read()
    if value is not MISSING:
        return value
    if default:
        return default[0]
    try:
        return contextvars.Context().run(variable.get)  # the default that it was made with
    except LookupError as error:
        raise raised(error) from None


@handles(contextvars.ContextVar.set)
def _set(session: Session, variable: contextvars.ContextVar[Any], value: Any) -> Any:
    place = _place(session, variable)
    session.outside.read(place)
    old = place.read()
    _write(session, place, value)
    return session.call(ContextToken, variable, contextvars.Token.MISSING if old is MISSING else old)


@handles(contextvars.ContextVar.reset)
def _reset(session: Session, variable: contextvars.ContextVar[Any], token: Any) -> None:
    if not isinstance(token, (contextvars.Token, ContextToken)):
        raise raised(TypeError(f"expected an instance of Token, got {token!r}"))
    if isinstance(token, contextvars.Token):
        raise errors.CaptureError(
            f"{variable.name!r} is reset with a token that was there before the call, which Python takes once only",
            session.here(),
            fix="set and reset the variable in one function, or call set() with the value that it held before",
        )
    if token.var is not variable:
        raise raised(ValueError(f"{token!r} was created by a different ContextVar"))
    if token.is_used is True:
        raise raised(RuntimeError(f"{token!r} has already been used once"))
    session.call(setattr, token, "is_used", True)
    place = _place(session, variable)
    session.outside.read(place)
    _write(session, place, token.old_value)


def _write(session: Session, place: AttributePlace, value: Any) -> None:
    session.places.write(place)
    place.write(MISSING if value is contextvars.Token.MISSING or value is UNSET else value)


def _place(session: Session, variable: contextvars.ContextVar[Any]) -> AttributePlace:
    """Return the place of what a variable holds, in the context of the call."""
    slot: ContextSlot = slot_of(variable)
    source = session.tracker.source_of(variable)
    if source is None and id(variable) not in session.allocations.created:
        source = session.tracker.table.strong(variable, variable.name)
    if source is not None:
        session.tracker.know(slot, session.tracker.table.context(source, slot_of))
    return AttributePlace(slot, "value")
