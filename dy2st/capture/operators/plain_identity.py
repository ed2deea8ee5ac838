"""Whether two numbers or strings are one object: of few values Python has one object only."""

from __future__ import annotations

import operator
from typing import Any

import torch

from dy2st.capture.looping.truth import logical_not
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, tensor_traits
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.texts import Text
from dy2st.errors import CaptureError, DataDependentError

_SMALL_INTS = range(-5, 257)
"""Of each of these CPython has one object."""


def are_one(session: Session, left: Any, right: Any) -> Any:
    """Tell whether two numbers or strings, of which the program makes one at least, are one object: few values have one object
    only.

    Raises:
        DataDependentError: of two equal ones nobody knows whether the second was made anew.
    """
    for value, other in ((left, right), (right, left)):
        if isinstance(value, torch.SymBool) and isinstance(other, bool):
            return value if other else logical_not(value)
    if type(left) is not type(right):
        for value in (left, right):
            tell_kinds_apart(session, value)
    kinds = [kind_of(value) for value in (left, right)]
    if kinds[0] is not kinds[1] or kinds[0] is None:
        return False
    shared = kinds[0] is bool or any(type(value) is int and value in _SMALL_INTS for value in (left, right))
    if shared:
        return session.number(operator.eq, (left, right), "bool")
    raise DataDependentError(
        f"whether two values of the type {kinds[0].__name__} are one object is known to Python only",
        session.here(),
        fix="compare them with ==, or keep a flag of your own",
    )


def kind_of(value: Any) -> type | None:
    """Return the class that a number or string has in eager; none for any other value."""
    kinds = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool, Text: str}
    kind: type = kinds.get(type(value), type(value))
    return kind if kind in kinds.values() else None


def tell_kinds_apart(session: Session, number: Any) -> None:
    """Note that the class of a number is asked for; of any other value nothing is done.

    Raises:
        NeedsApart: it may be an int on one path and a float on another.
        CaptureError: they are told apart, and it may come from a list that has both.
    """
    if isinstance(number, torch.SymFloat):
        tell_items_apart(session)


def tell_items_apart(session: Session) -> None:
    """Note that the classes of numbers are asked for, where they may come from a list."""
    if not lattice.has_mixed_numbers():
        return
    if tensor_traits.NUMBER not in session.traits.apart:
        raise NeedsApart(tensor_traits.NUMBER)
    raise CaptureError(
        "whether this number is an int or a float is asked where a list of the program has both, and the list does not keep it",
        session.here(),
        fix="put in floats only: float(value)",
    )
