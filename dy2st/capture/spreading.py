"""`*xs` in a list display or a call, where the length of `xs` is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dy2st import errors
from dy2st.capture import comprehensions, iteration, text
from dy2st.capture.iterables import Stream
from dy2st.capture.session import Session


class Spread:
    """Stands for the items of a list of the program among the items of a display, or the arguments of a call."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


def spread(session: Session, value: Any) -> Any:
    """What a starred part of a list display or call steps through."""
    items = iteration.collected(value) if isinstance(value, Stream) or iteration.as_runtime(value) is not None else None
    if items is None:
        return iteration.iterated(value)
    return items if session.lists.of(items) is None else [Spread(items)]


def spliced(session: Session, parts: Sequence[Any]) -> list[Any]:
    """A new list of the program: the parts, with the items of those that are spread."""
    made: list[Any] = []
    session.lists.own(made)
    session.lists.make(made)
    for part in parts:
        if isinstance(part, Spread):
            session.call(made.extend, part.items)
        else:
            session.call(made.append, part)
    return made


def call(session: Session, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A call with such arguments.

    Raises:
        CaptureError: the function takes a number of arguments that Python must know.
    """
    fixed = [value for value in args if not isinstance(value, Spread)]
    if function in (max, min) and len(fixed) > 1:  # of one argument they take the items
        return session.call(function, spliced(session, args), **kwargs)
    separator = kwargs.get("sep", " ")
    if function is print and kwargs.keys() <= {"sep", "end"} and isinstance(separator, str):
        words = comprehensions.mapped(spliced(session, args), lambda item: session.call(str, item))
        return session.call(print, text.connected(separator, words), end=kwargs.get("end", "\n"))
    raise errors.CaptureError(
        f"{getattr(function, '__qualname__', function)}() gets the items of a list as its arguments, "
        "and their number is known only at run time",
        session.here(),
        fix="pass the list itself: max([*items, x]), or torch.stack(items)",
    )
