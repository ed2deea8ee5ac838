"""Tuples of a length that is known only at run time: lists of the program that nobody changes.

(x, *xs), tuple(xs)     a tuple, where the length of `xs` is known only at run time
states += (h,)          in a captured loop: the tuple that an iteration starts with has any length
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists, ranges
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractTuple, contents
from dy2st.capture.values.symbolic import TaggedUnion


def of(session: Session, items: list[Any]) -> Any:
    """Return ``tuple(items)`` of a new list that nobody else holds."""
    return AbstractTuple(session, items) if session.lists.of(items) is not None else tuple(items)


def as_list(session: Session, value: Any) -> Any:
    """Return the list of what is in a tuple; any other value as it is."""
    if not isinstance(value, tuple):
        return contents(value)
    items = list(value)
    session.lists.own(items)
    return items


def create(session: Session, value: tuple[Any, ...]) -> AbstractTuple:
    """Return the tuple of the program with the items of one of Python."""
    items: list[Any] = as_list(session, value)
    session.lists.make(items)
    return AbstractTuple(session, items)


def one_is(left: Any, right: Any) -> bool:
    """Tell whether one of two values is a tuple of a length that is known only at run time."""
    return isinstance(left, AbstractTuple) or isinstance(right, AbstractTuple)


def are(left: Any, right: Any) -> bool:
    """Tell whether two values are tuples, and one of them of a length that is known only at run time."""
    return one_is(left, right) and isinstance(left, (tuple, AbstractTuple)) and isinstance(right, (tuple, AbstractTuple))


def concat(session: Session, left: Any, right: Any) -> Any:
    """Return ``left + right``."""
    return of(session, lists.concat(session, as_list(session, left), as_list(session, right)))


def repeat(session: Session, value: AbstractTuple, times: Any) -> Any:
    """Return ``value * times``."""
    return of(session, lists.repeat(session, value.items, times))


def item(session: Session, value: AbstractTuple, key: Any) -> Any:
    """Return ``value[key]``."""
    known = session.lists.of(value.items)
    assert known is not None
    position, length = ranges.index_of(session, key, value), lists.length(session, known)
    if isinstance(position, slice):
        return of(session, lists.get(session, known, position))
    for holds in (length > position, length >= -position):
        check(session, holds, IndexError, "tuple index out of range")
    return lists.get(session, known, position)


def multiplied(session: Session, left: Any, right: Any) -> Any:
    """Return ``left * right``, of which one may be a sequence, and the other how many times it is meant."""
    for items, times in ((left, right), (right, left)):
        if isinstance(times, TaggedUnion) and isinstance(items, (list, tuple, str)):
            return session.over(times, functools.partial(multiplied, session, items))
        if isinstance(items, list) and getattr(type(items), "__mul__", None) is list.__mul__:
            return lists.repeat(session, items, times)
        if isinstance(items, AbstractTuple):
            return repeat(session, items, times)
        if isinstance(times, torch.SymInt) and type(items) in (str, tuple):
            return _many(session, items, times)
    return left * right


def _many(session: Session, items: str | tuple[Any, ...], times: torch.SymInt) -> Any:
    """Return a string or tuple so many times, of which only the program knows how many."""
    one = [items] if isinstance(items, str) else [*items]
    session.lists.own(one)
    many = lists.repeat(session, one, times)
    return session.call("".join, many) if isinstance(items, str) else of(session, many)
