"""The functions of ``heapq`` that are no loop over one list, or need none; the others are followed in Python."""

from __future__ import annotations

import heapq
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.library import steps_written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.looping import comprehensions
from dy2st.capture.operators import relations
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st.capture.values.kinds import is_symbolic


@handles(heapq.merge)
def _merge(session: Session, *iterables: Any, key: Callable[..., Any] | None = None, reverse: bool = False) -> Any:
    """Return ``heapq.merge``: which iterable gives the next item may be known only at run time."""
    if key is None and all(session.lists.of(items) is None and _is_known(items) for items in iterables):
        return heapq.merge(*iterables, reverse=reverse)
    if not all(isinstance(items, (list, tuple, range)) for items in iterables):
        raise errors.CaptureError(
            "heapq.merge() of iterators whose order is known only at run time",
            session.here(),
            fix="give it lists, or sort them all: sorted([*first, *second])",
        )
    return session.call(iter, session.call(steps_written_out.merge, key, reverse, *iterables))


def _extremes(function: Any, *, reverse: bool) -> None:
    """Register the handler of ``nlargest`` or ``nsmallest``: of whole numbers they are the first in order."""
    written = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)

    @handles(function)
    def handle(session: Session, n: Any, iterable: Any, key: Callable[..., Any] | None = None) -> Any:
        if not isinstance(n, int) or n < 2 or not isinstance(key, (operator.itemgetter, types.NoneType)):
            return session.call(written, n, iterable, key)
        items = session.call(list, iterable)
        if not _are_whole(session, items if key is None else comprehensions.mapped(items, lambda item: session.call(key, item))):
            return session.call(written, n, items, key)
        return session.call(operator.getitem, session.call(sorted, items, key=key, reverse=reverse), slice(n))


def _are_whole(session: Session, numbers: list[Any]) -> bool:
    known = session.lists.of(numbers)
    if known is not None:
        return bool(known.element == value_types.NumberType("int"))
    return all(isinstance(number, (int, torch.SymInt)) for number in numbers)


_extremes(heapq.nlargest, reverse=True)
_extremes(heapq.nsmallest, reverse=False)


def _is_known(items: Any) -> bool:
    if isinstance(items, range):
        return True
    return isinstance(items, (tuple, list)) and not any(is_symbolic(item) or relations.is_followed(item) for item in items)
