"""Lookups in dicts and sequences of Python objects where only the program knows the key: a branch for each that it may be."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from dy2st import errors
from dy2st.capture import optional
from dy2st.capture.branch import capture_if_exp
from dy2st.capture.exceptions import raised
from dy2st.capture.session import Session
from dy2st.capture.values import SYMBOLIC_NUMBERS, is_number


def is_runtime_number(key: Any) -> bool:
    """Whether a key is a number of the program. (Tensors are found in dicts by identity.)"""
    return isinstance(key, SYMBOLIC_NUMBERS)


def item(session: Session, table: dict[Any, Any], key: Any) -> Any:
    """``table[key]``.

    Raises:
        CaptureError: the dict would put in what is missing, under a key that nobody knows.
    """
    missing: Callable[[], Any] = lambda: _raise(KeyError(key))  # noqa: E731
    if isinstance(table, collections.Counter):
        missing = lambda: 0  # noqa: E731
    elif hasattr(type(table), "__missing__") and getattr(table, "default_factory", table) is not None:
        raise errors.DataDependentError(
            f"a number known only when the program runs is looked up in a {type(table).__name__}, which puts in what is missing",
            session.here(),
            fix="use .get(key, default), give it all the keys before as a dict, or keep a list with an item for each number",
        )
    return _in_dict(session, table, key, missing)


def get(session: Session, table: dict[Any, Any], key: Any, default: Any = None) -> Any:
    """``table.get(key, default)``."""
    return _in_dict(session, table, key, lambda: default)


def position(items: Sequence[Any], wanted: Any, error: Exception) -> Any:
    """``items[wanted]``, with an error for a position that is not there."""
    return _found(items, wanted, range(len(items)), lambda: _raise(error))


def _in_dict(session: Session, table: dict[Any, Any], key: Any, missing: Callable[[], Any]) -> Any:
    def find(settled: dict[Any, Any]) -> Any:
        return _found(settled, key, [known for known in settled if is_number(known)], missing)

    return optional.settled(session, table, find)


def _found(items: Any, key: Any, keys: Sequence[Any], missing: Callable[[], Any]) -> Any:
    """The item under the first of ``keys`` that is equal to a number of the program."""
    if not keys:
        return missing()
    first, rest = keys[0], keys[1:]
    return capture_if_exp(key == first, lambda: items[first], lambda: _found(items, key, rest, missing))


def _raise(error: Exception) -> Any:
    raise raised(error)
