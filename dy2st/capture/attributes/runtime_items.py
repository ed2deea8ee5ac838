"""Items of containers at a position that a tensor decides."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

import torch

from dy2st import errors
from dy2st.capture.branching import lookup
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import lists, ranges, tuples
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.texts import methods, text
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import is_number, number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.capture.values.texts import Text

_OF_MODULES = (torch.nn.ModuleList, torch.nn.Sequential)


_FEW = 8
"""Of so many lists the one at a position known only at run time is one of several values."""


def is_runtime(key: Any) -> bool:
    if isinstance(key, slice):
        return any(map(is_runtime, (key.start, key.stop, key.step)))
    return isinstance(key, (torch.Tensor, *SYMBOLIC_NUMBERS))


def item_at_runtime(session: Session, value: Any, key: Any) -> Any:
    if isinstance(value, range):
        return ranges.item(session, value, key)
    session.outside.check_changed(value)
    if isinstance(value, (list, tuple, str)):
        key = ranges.index_of(session, key, value)
    if type(value) in (list, tuple, str) and not value:
        return _in_nothing(session, value, key)
    if isinstance(value, (list, tuple, str)) and value and not isinstance(key, slice):
        few_lists = len(value) <= _FEW and all(type(part) is list for part in value)  # a list of the program would have copies
        if few_lists or not _fits_list(value):
            return _at_position(session, value, key)
    if isinstance(value, _OF_MODULES) and len(value) and not isinstance(key, slice):
        return _module_at(session, value, key)
    if isinstance(value, (list, tuple)) and value:
        if isinstance(value, tuple) and not isinstance(key, slice):
            key = _in_tuple(session, key, len(value))
        copied = list(value)
        session.lists.own(copied)
        part = lists.get(session, session.lists.make(copied), key)
        return tuples.of(session, part) if isinstance(value, tuple) and isinstance(key, slice) else part
    if isinstance(value, lookup.MAPPINGS) and lookup.is_runtime(key):
        return lookup.item(session, value, key)
    return methods.item(session, value, key) if isinstance(value, (str, Text)) else _refused(session, value)


def _in_nothing(session: Session, value: Any, key: Any) -> Any:
    """Return ``value[key]`` of an empty list, tuple or string."""
    if not isinstance(key, slice):
        raise raised(IndexError(f"{'string' if isinstance(value, str) else type(value).__name__} index out of range"))
    result = value[:]
    if isinstance(result, list):
        session.lists.own(result)
    return result


def _refused(session: Session, value: Any) -> NoReturn:
    if not isinstance(value, type) and not hasattr(type(value), "__getitem__"):
        kind = number_kind(value) if is_number(value) else type(value).__name__
        raise raised(TypeError(f"'{kind}' object is not subscriptable"))
    raise errors.CaptureError(
        f"a {type(value).__name__} is indexed with a number that is known only at run time",
        session.here(),
        fix="stack what is in it into a tensor, or choose with if statements",
    )


def _in_tuple(session: Session, key: Any, length: int) -> Any:
    """Return a position in a tuple, checked: the list that the program makes of it has other words."""
    position = session.to_number(key)
    for holds in (position < length, position >= -length):
        check(session, holds, IndexError, "tuple index out of range")
    return position


def _fits_list(items: Any) -> bool:
    """Tell whether the items can be those of a list of the program."""
    parts = [part for item in items for part in (item if type(item) is tuple else (item,))]
    return all(isinstance(part, (torch.Tensor, list)) or (is_number(part) and not isinstance(part, enum.Enum)) for part in parts)


def _at_position(session: Session, items: Any, key: Any) -> Any:
    """Return the item of a sequence of Python objects at a position known only at run time."""
    position, length = session.to_number(key), len(items)
    wanted = capture_if_exp(position < 0, lambda: position + length, lambda: position)
    error = IndexError(f"{'string' if isinstance(items, str) else type(items).__name__} index out of range")
    return lookup.position(items, wanted, error)


def _module_at(session: Session, value: Any, key: Any) -> Any:
    """Return one of the modules of a ``ModuleList`` or ``Sequential``."""
    position, length = session.to_number(key), len(value)
    wanted = capture_if_exp(position < 0, lambda: position + length, lambda: position)

    def missing() -> NoReturn:
        raise raised(session.call(IndexError, text.fstring("index ", (position, None, ""), " is out of range")))

    return lookup.first(range(length), lambda place: wanted == place, lambda place: value[place], missing)


def length(session: Session, owner: Any) -> Any:
    known = session.lists.of(owner)
    return storage.base_of(owner).__len__(owner) if known is None else lists.length(session, known)
