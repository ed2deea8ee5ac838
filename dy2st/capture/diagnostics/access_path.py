"""Places as the user writes them: ``self.cache.k``, ``d["b"]``, ``y[0]``."""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject, AbstractSet, contents
from dy2st.capture.writes.places import AttributePlace, CellPlace, ItemPlace, Place

ACTS_FOR_USER = False

_MAX_OBJECTS = 2000
_TABLES = ("_parameters", "_buffers", "_modules")
_NO_PARTS = (torch.Tensor, types.ModuleType, types.FunctionType, type, str, int, float)


def access_path(session: Session, place: Place, *values: Any) -> str:
    """Return a place in terms of the variables of the user's function that runs now; of its class where no variable leads there.

    Args:
        place: any place.
        values: what it holds before and after, or on both branches, which cannot be joined.
    """
    if isinstance(place, CellPlace):
        return place.name
    owner = _path(place.owner, _variables(session))
    if owner is None:
        return str(place)
    if isinstance(place, AttributePlace):
        return f"{owner}.{place.name}"
    return f"{owner}{_item(place.item)}" if isinstance(place, ItemPlace) else owner + _differing(*values)


def _differing(before: Any = None, after: Any = None) -> str:
    """Return the item that is of another kind in one of two lists or dicts."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        before, after = dict(enumerate(before)), dict(enumerate(after))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ""
    for key in before.keys() & after.keys():
        try:
            lattice.join(lattice.type_of(before[key]), lattice.type_of(after[key]))
        except mismatches.Mismatch:
            return _item(key)
    return ""


def _variables(session: Session) -> dict[str, Any]:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in session.position.user_files:
        frame = frame.f_back
    return {} if frame is None else {name: value for name, value in frame.f_locals.items() if not name.startswith("_dy2st")}


def _path(wanted: Any, variables: dict[str, Any]) -> str | None:
    """Return the shortest way to an object."""
    todo = collections.deque(variables.items())
    seen: set[int] = set()
    while todo and len(seen) < _MAX_OBJECTS:
        text, value = todo.popleft()
        if value is wanted:
            return text
        if id(value) not in seen and not isinstance(value, _NO_PARTS):
            seen.add(id(value))
            todo += ((text + step, part) for step, part in _parts(value))
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from _items(value.items())
    elif isinstance(value, AbstractObject):
        yield "", value.table if isinstance(value, AbstractSet) else contents(value)
    elif isinstance(value, (list, tuple)):
        yield from _items(enumerate(value))
    else:
        for name, part in (storage.table_of(value) or {}).items():
            if name in _TABLES:
                yield from ((_member(value, inner), module) for inner, module in part.items())
            elif not name.startswith("__"):
                yield f".{name}", part


def _member(module: Any, name: str) -> str:
    if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        return f"[{name}]"
    return _item(name) if isinstance(module, torch.nn.ModuleDict) else f".{name}"


def _items(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    return ((_item(key), part) for key, part in pairs)


def _item(key: Any) -> str:
    is_plain = isinstance(key, str) and key.isprintable() and not set(key) & {'"', "\\"}
    return f'["{key}"]' if is_plain else f"[{storage.shown_key(key)}]"
