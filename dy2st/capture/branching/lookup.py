"""Lookups in dicts and sequences of Python objects where only the program knows the key: a branch for each that it may be."""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import keys, optional, tensor_keys, unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.objects import table_sites
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_number
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, may_be_undefined
from dy2st.capture.values.texts import Text

MAPPINGS = (dict, types.MappingProxyType)
"""Where Python itself looks a key up."""


def is_runtime(key: Any) -> bool:
    """Tell whether a key is, or holds, a number or text of which no more is known. (Tensors are found in dicts by identity.)"""
    if isinstance(key, tuple):
        return any(map(is_runtime, tuple.__iter__(key)))
    return isinstance(key, (*SYMBOLIC_NUMBERS, Text))


def by_identity(session: Session, table: Any, key: Any, puts: bool = True) -> Any:
    """Return a tensor as a key of a dict, which finds it by its identity; any other key as it is.

    Of those that are there it is none that is another object during the capture (see :mod:`tensor_keys`).

    Raises:
        CaptureError: it would be put into a dict from outside, and only the program knows which tensor it is.
    """
    if not isinstance(key, torch.Tensor) or not isinstance(table, MAPPINGS):
        return key
    known = session.outside.real(key)
    source = session.tracker.source_of(known)
    if not session.fakes.is_abstract(known):
        if source is not None:
            session.tracker.guards.same(source, known)
        return known
    puts = puts or hasattr(type(table), "__missing__")
    if not puts or session.allocations.allocated_at(table) is not None or any(key is other for other in table):
        return key
    raise tensor_keys.refused(session, type(table).__name__)


def item(session: Session, table: Any, key: Any) -> Any:
    """Return ``table[key]``.

    Raises:
        CaptureError: the dict would put in what is missing, under a key that nobody knows.
    """
    missing: Callable[[], Any] = lambda: _raise(KeyError(key))  # noqa: E731
    if isinstance(table, collections.Counter):
        missing = lambda: 0  # noqa: E731
    elif hasattr(type(table), "__missing__") and getattr(table, "default_factory", table) is not None:
        error = errors.DataDependentError(
            f"a number known only when the program runs is looked up in a {type(table).__name__}, which puts in what is missing",
            session.here(),
            fix="use .get(key, default), give it all the keys before as a dict, or keep a list with an item for each number",
        )
        table_sites.require(session, table, error)
    return find(session, table, key, lambda known: held(table, known), missing)


def get(session: Session, table: Any, key: Any, default: Any = None) -> Any:
    """Return ``table.get(key, default)``."""
    return find(session, table, key, lambda known: held(table, known), lambda: default)


def held(table: Any, key: Any) -> Any:
    """Return what is under a key that is there, on this way."""
    value = table[key]
    return value.without_unbound() if may_be_undefined(value) else value


def presence(session: Session, table: Any, key: Any) -> Any:
    """Return ``key in table``: a Python bool, or a symbolic one."""
    if is_runtime(key):
        return find(session, table, key, lambda known: True, lambda: False)
    return key in table and unions.presence(table[key])


def put(session: Session, table: dict[Any, Any], key: Any, write: Callable[[Any], None]) -> None:
    """Put something in under a key of which nobody knows more than that it is there.

    Raises:
        DataDependentError: it may be another one.
    """

    def missing() -> None:
        table_sites.require(session, table, keys.refused(session, key, "is put into a dict"))

    find(session, table, key, write, missing)


def position(items: Sequence[Any], wanted: Any, error: Exception) -> Any:
    """Return ``items[wanted]``, with an error for a position that is not there."""
    places = range(len(items))
    return first(places, lambda place: wanted == place, lambda place: items[place], lambda: _raise(error))


def normalized(session: Session, table: Any, key: Any) -> Any:
    """Return a key of an item that is read and written: one of those that are there, if nobody knows which it is otherwise.

    Raises:
        DataDependentError: the dict has a value for those too that are not there.
    """
    if not isinstance(table, dict) or not keys.is_any(session, key):
        return tensor_keys.over(session, table, key, lambda one: _there(table, one))

    def normalize(one: Any) -> Any:
        if hasattr(type(table), "__missing__"):
            if not is_runtime(one):
                return Known(one)  # what is not there is made
            what = f"is looked up in a {type(table).__name__}, which has an item for each"
            table_sites.require(session, table, keys.refused(session, one, what))
        return find(session, table, one, Known, lambda: _raise(KeyError(one)))

    return keys.over(session, key, normalize)


def _there(table: Any, key: Any) -> Any:
    if not isinstance(key, torch.Tensor):
        return key
    may_give = hasattr(type(table), "__missing__") or type(table).__getitem__ is not dict.__getitem__
    return Known(key) if may_give or key in table else _raise(KeyError(key))


class Known:
    """A key that is known where it is met: branches pass it on as it is."""

    __dy2st_key__ = True

    def __init__(self, key: Any) -> None:
        self.key = key


def known(key: Any) -> Any:
    """Return a key as it is looked up."""
    return key.key if isinstance(key, Known) else key


def find(session: Session, table: Any, key: Any, use: Callable[[Any], Any], missing: Callable[[], Any]) -> Any:
    """Do something with the key of a dict that is equal to one that nobody knows; something else if there is none."""

    def search(known: Any) -> Any:
        return first([*known], lambda other: equal(session, key, other), use, missing)

    return optional.case_split(session, table, search) if isinstance(table, dict) else search(table)


def first(known: Sequence[Any], test: Callable[[Any], Any], use: Callable[[Any], Any], missing: Callable[[], Any]) -> Any:
    """Return the first of some keys for which a test holds."""
    for index, key in enumerate(known):
        alike = test(key)
        if not isinstance(alike, bool):
            return _this_or_another(alike, key, known[index + 1 :], test, use, missing)
        if alike:
            return use(key)
    return missing()


def _this_or_another(
    alike: Any, key: Any, rest: Sequence[Any], test: Callable[[Any], Any], use: Callable[[Any], Any], missing: Callable[[], Any]
) -> Any:
    return capture_if_exp(alike, lambda: use(key), lambda: first(rest, test, use, missing))


def equal(session: Session, key: Any, other: Any) -> Any:
    """Tell whether two keys are equal, of which one is known."""
    if isinstance(key, tuple):
        if not isinstance(other, tuple) or tuple.__len__(key) != tuple.__len__(other):
            return False
        return _all_equal(session, [*zip(tuple.__iter__(key), tuple.__iter__(other))])
    if isinstance(key, Text):
        return operator.eq(key, other) if isinstance(other, str) else False
    if isinstance(key, SYMBOLIC_NUMBERS):
        result = key == other if is_number(other) else False
        known = session.shapes.known(result)
        return result if known is None else known
    if isinstance(key, torch.Tensor) or isinstance(other, torch.Tensor):
        return tensor_keys.is_one(session, key, other)
    held = [[*map(id, tensor_keys.tensors_of(one))] for one in (key, other)]  # others have another hash
    return key is other or (held[0] == held[1] and bool(key == other))


def _all_equal(session: Session, pairs: list[tuple[Any, Any]]) -> Any:
    for index, pair in enumerate(pairs):
        alike = equal(session, *pair)
        if not isinstance(alike, bool):
            rest = pairs[index + 1 :]
            return capture_if_exp(alike, functools.partial(_all_equal, session, rest), lambda: False) if rest else alike
        if not alike:
            return False
    return True


def _raise(error: Exception) -> Any:
    raise raised(error)
