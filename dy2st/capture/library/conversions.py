"""Functions that ask an object for something through a method of its class: ``float(x)``, ``bytes(x)``, ``dir(x)``.

The user's method is converted, so that a tensor may decide in it, what it writes is kept, and what it reads is guarded.
"""

from __future__ import annotations

import operator
import os
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables
from dy2st.capture.attributes.class_attributes import call_own
from dy2st.capture.environment.users_code import as_written, is_users_function
from dy2st.capture.iterables import iterators
from dy2st.capture.library.registry import handles
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.values.texts import Text

NOTHING: Any = object()
"""What :func:`given` gives where the user has written no method for it."""


def given(session: Session, value: Any, names: tuple[str, ...], kinds: tuple[type, ...], refusal: str) -> Any:
    """Return what the first of some methods of the user's gives.

    Args:
        session: the capture.
        value: what has the methods.
        names: of the methods.
        kinds: of what they may give.
        refusal: what Python says of anything else, with the name of the class, of the method, and of the class of what it gives.

    Raises:
        TypeError: a method gives something else.
    """
    for name in names:
        if not is_users_function(as_written(getattr(type(value), name, None))):
            continue
        result = call_own(session, value, name)
        if not isinstance(result, kinds):
            raise raised(TypeError(refusal.format(kind=type(value).__name__, name=name, found=type(result).__name__)))
        return result
    return NOTHING


def given_integer(session: Session, value: Any, *names: str) -> Any:
    """Return the same of methods that give an int."""
    return given(session, value, names, (int, torch.SymInt), "{name} returned non-int (type {found})")


def _asking(function: Any, name: str, kinds: tuple[type, ...], refusal: str) -> None:
    """Let the user's method answer for a function of one argument."""

    @handles(function)
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        result = given(session, args[0], (name,), kinds, refusal) if len(args) == 1 and not kwargs else NOTHING
        return function(*args, **kwargs) if result is NOTHING else result


_asking(os.fspath, "__fspath__", (str, bytes, Text), "expected {kind}.{name}() to return str or bytes, not {found}")
_asking(bytes, "__bytes__", (bytes,), "{name} returned non-bytes (type {found})")


@handles(dir)
def _dir(session: Session, value: Any) -> Any:
    result = given(session, value, ("__dir__",), (object,), "")
    return attribute_tables.names(session, value) if result is NOTHING else session.call(sorted, result)


@handles(operator.length_hint)
def _length_hint(session: Session, value: Any, default: int = 0) -> Any:
    if hasattr(type(value), "__len__"):
        return session.call(len, value)
    iterators.check_asked(session, value)
    result = given(session, value, ("__length_hint__",), (object,), "")
    return operator.length_hint(value, default) if result is NOTHING else default if result is NotImplemented else result
