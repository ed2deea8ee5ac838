"""What is done with strings known only at run time: they are searched, taken apart, changed, asked.

``"of" in text``, ``text.startswith("no")``, ``text.strip()[:8]``, ``len(text)`` become operations of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.environment import written_out
from dy2st.capture.recording import failing
from dy2st.capture.session.session import Session, need
from dy2st.capture.texts.text import as_runtime_string
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st.errors import CaptureError
from dy2st_runtime.primitives.text import ANSWERS, CHANGES, contains, part

_TAKEN = (str, int, type(None), torch.SymInt)
"""What methods of strings take."""


def contains_text(session: Session, container: str | Text, value: Any) -> Any:
    """Return ``value in container``, of which one is known only at run time."""
    if not isinstance(value, (str, Text)):
        raise TypeError(f"'in <string>' requires string as left operand, not {type(value).__name__}")
    return session.number(contains, (_given(session, container), _given(session, value)), "bool")


def length(session: Session, value: Text) -> Any:
    """Return ``len(value)``."""
    number = session.number(str.__len__, (as_runtime_string(session, value),), "int")
    session.shapes.constrain_size(number)
    return number


def called(session: Session, name: str, owner: str | Text, args: tuple[Any, ...]) -> Any:
    """Return ``owner.name(*args)``, where one of these strings is known only at run time."""
    given = tuple(_given(session, value) for value in (owner, *args))
    if name in ANSWERS:
        return session.number(getattr(str, name), given, ANSWERS[name])
    return _made(session, getattr(str, name), given)


def takes(args: tuple[Any, ...]) -> bool:
    """Tell whether a method of a known string is called with one, or with a number, that is known only at run time."""
    return any(isinstance(value, (Text, torch.SymInt)) or (isinstance(value, tuple) and takes(value)) for value in args)


def _made(session: Session, target: Callable[..., Any], args: tuple[Any, ...]) -> Text:
    string = RuntimeString()
    session.builder.call(target, args, {}, string)
    return Text.of(string)


def _given(session: Session, value: Any) -> Any:
    if isinstance(value, Text):
        return as_runtime_string(session, value)
    if isinstance(value, tuple):
        return tuple(_given(session, item) for item in value)
    if not isinstance(value, _TAKEN):
        raise CaptureError(
            f"a method of a string known only at run time is given a {type(value).__name__}",
            session.here(),
            fix="give it strings and ints",
        )
    return value


def _method(name: str) -> Callable[..., Any]:
    def method(self: Text, *args: Any) -> Any:
        return called(need(), name, self, args)

    method.__name__ = name
    return method


def item(session: Session, value: str | Text, index: Any) -> Any:
    """Return ``value[index]``, where the string or the index is known only at run time."""
    if not isinstance(index, slice):
        return session.call(written_out.character, value, index)
    bounds = [session.to_number(b) if isinstance(b, torch.Tensor) else b for b in (index.start, index.stop, index.step)]
    return _made(session, part, tuple(_given(session, given) for given in (value, *bounds)))


def character(session: Session, value: str | Text, position: Any) -> Text:
    """Return the character at a position that is there."""
    return _made(session, part, (_given(session, value), position, position + 1, None))


def to_number(session: Session, value: Text, target: Callable[..., Any], kind: str, *base: int) -> Any:
    """Return the number that a text is of.

    Raises:
        CaptureError: an ``except`` clause is for what Python raises where it is none.
    """
    name = "ord" if target is ord else kind
    failing.refuse(session, ValueError() if target is not ord else TypeError(), f"{name}() of a string", "test what goes into it")
    return session.number(target, (_given(session, value), *base), kind)


for _name in (*ANSWERS, *CHANGES):
    setattr(Text, _name, _method(_name))
setattr(Text, "__getitem__", lambda self, index: item(need(), self, index))  # noqa: B010
