"""Functions of ``functools`` and ``itertools`` that call a function of the user's: it is converted like any other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from dy2st import errors
from dy2st.capture import iteration
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.session import Session
from dy2st.capture.truth import truth
from dy2st.capture.values import is_symbolic

_NOTHING: Any = object()


@handles(functools.reduce)
def _reduce(session: Session, function: Any, values: Any, initial: Any = _NOTHING) -> Any:
    total = initial
    for value in iteration.iterated(values):
        total = value if total is _NOTHING else session.call(function, total, value)
    if total is _NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    return total


@handles(itertools.starmap)
def _starmap(session: Session, function: Any, values: Any) -> Iterator[Any]:
    return (session.call(function, *iteration.iterated(arguments)) for arguments in iteration.iterated(values))


@handles(itertools.accumulate)
def _accumulate(session: Session, values: Any, func: Any = None, *, initial: Any = None) -> Iterator[Any]:
    return _accumulated(session, iteration.iterated(values), func, initial)


def _accumulated(session: Session, values: Any, function: Any, initial: Any) -> Iterator[Any]:
    total = _NOTHING
    for value in values if initial is None else itertools.chain((initial,), values):
        if total is _NOTHING:
            total = value
        else:
            total = total + value if function is None else session.call(function, total, value)
        yield total


def _selecting(name: str, select: Any) -> Handler:
    def handle(session: Session, predicate: Any, values: Any) -> Iterator[Any]:
        def holds(value: Any) -> bool:
            found = truth(session, value if predicate is None else session.call(predicate, value))
            if is_symbolic(found):
                raise errors.CaptureError(
                    f"itertools.{name}() with a condition that a tensor decides", session.here(),
                    fix="write a for loop with an if statement",
                )  # fmt: skip
            return bool(found)

        made: Iterator[Any] = select(holds, iteration.iterated(values))
        return made

    return handle


for _select in (itertools.takewhile, itertools.dropwhile, itertools.filterfalse):
    handles(_select)(_selecting(_select.__name__, _select))
