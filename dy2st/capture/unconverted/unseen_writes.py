"""What code that is not converted writes to the objects that it gets: found by comparison, and noted like writes of converted code.

A function in C, one of a library, one that is marked: it runs once, at capture, and may append to a list of the user's, or set an
attribute; one of the user's, also of what it finds in its globals and closure. What such objects hold is copied before the call
and compared after it; where it differs the old is put back, and the new written again in the open.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.same_contents import module_hooks
from dy2st.capture.environment.users_code import is_library
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import opaque
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.writes.places import AttributePlace, ContentsPlace

MAKES_TEXTS_FOR_USER = True

_CONTAINERS = (list, dict, set, collections.deque)
_LEAVES = (
    *CONSTANTS,
    torch.Tensor,
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    types.ModuleType,
    AbstractObject,
    *CAPTURE_VALUES,
)
_MOST = 500
"""How many objects are compared, the nearest first."""
_OF_MODULES = frozenset(vars(torch.nn.Module()))
"""The attributes that torch itself keeps in a module."""


def called(session: Session, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function, and note what it writes to what it is given, and finds itself."""
    before = reached((*args, *kwargs.values(), *opaque.reached(function)))
    if not before:
        return function(*args, **kwargs)
    session.outside.show(value for value, _ in before)
    try:
        return function(*args, **kwargs)
    finally:
        for value, held in before:
            note(session, value, held)


def called_with_modules(session: Session, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of torch, and note what it writes to the modules that it is given; ``forward`` writes to tensors only.

    Raises:
        CaptureError: it adds or removes hooks, and a tensor decides whether it is called.
    """
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.nn.Module) and "_modules" in vars(value)]
    is_torchs = isinstance(function, types.FunctionType) and function.__module__.startswith("torch.")
    if not given or not is_torchs or function.__name__ == "forward":
        return function(*args, **kwargs)
    modules = {id(part): part for module in given for part in module.modules()}
    hooks = [module_hooks(part) for part in modules.values()]
    before = [(part, _members(part)) for part in modules.values()]
    try:
        result = function(*args, **kwargs)
    finally:
        for part, held in before:
            _note_attributes(session, part, held, _members)
    if not session.blocks.at_root and hooks != [module_hooks(part) for part in modules.values()]:
        raise errors.CaptureError(
            f"a tensor decides whether {function.__qualname__}() is called, which changes the hooks of a module",
            session.here(),
            fix="call it outside of the static function",
        )
    return result


def _members(module: torch.nn.Module) -> dict[str, Any]:
    """Return the attributes of a module, those that it registers too."""
    tables = [vars(module)[name] for name in storage.MODULE_TABLES]
    return {name: item for table in (vars(module), *tables) for name, item in table.items()}


def reached(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return the objects that can be reached, with copies of what they hold."""
    results: list[tuple[Any, Any]] = []
    waiting, seen = collections.deque(values), set[int]()
    while waiting and len(results) < _MOST:
        value = waiting.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _CONTAINERS):
            held = ContentsPlace(value).read()
            results.append((value, held))
            waiting.extend(held.values() if isinstance(held, dict) else held)
        elif isinstance(value, tuple):
            waiting.extend(value)
        elif (table := _attributes(value)) is not None:
            results.append((value, table))
            waiting.extend(table.values())
            waiting.extend(item for kind in type(value).__mro__ for item in vars(kind).values() if isinstance(item, _CONTAINERS))
    return results


def are_few(values: Iterable[Any]) -> bool:
    """Tell whether all objects that can be reached are compared: what is written to others nobody sees."""
    return len(reached(values)) < _MOST


def has_attributes(value: Any) -> bool:
    """Tell whether a value is an object of the user's, with attributes to which something may be written."""
    return not isinstance(value, (*_LEAVES, *_CONTAINERS, tuple)) and _attributes(value) is not None


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object of the user's."""
    table = None if is_library(type(value).__module__) else storage.table_of(value)
    if table is None:
        return None
    unknown = _OF_MODULES if isinstance(value, torch.nn.Module) else ()
    return {name: item for name, item in table.items() if name not in unknown}


def note(session: Session, value: Any, held: Any) -> None:
    """Note what was written to an object, which held something else before (see :func:`reached`)."""
    if not isinstance(value, _CONTAINERS):
        _note_attributes(session, value, held)
        return
    place = ContentsPlace(value)
    now = place.read()
    if not is_same(held, now):
        place.write(held)
        session.places.write(place)
        place.write(now)


def have_changed(before: Iterable[tuple[Any, Any]]) -> bool:
    """Tell whether any of some objects holds something else than it did (see :func:`reached`)."""

    def has_changed(value: Any, held: Any) -> bool:
        if isinstance(value, _CONTAINERS):
            return not is_same(held, ContentsPlace(value).read())
        return bool(_changed(held, _attributes(value) or {}))

    return any(has_changed(value, held) for value, held in before)


def _changed(held: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names of the attributes that are others now."""
    return [name for name in {**held, **now} if held.get(name, MISSING) is not now.get(name, MISSING)]


def put_back(before: Iterable[tuple[Any, Any]]) -> bool:
    """Put back what objects held; returns whether any held something else.

    Args:
        before: the objects, with copies of what they held (see :func:`reached`).
    """
    results = [_put_back(value, held) for value, held in before]
    return any(results)


def _put_back(value: Any, held: Any) -> bool:
    if isinstance(value, _CONTAINERS):
        place = ContentsPlace(value)
        if is_same(held, place.read()):
            return False
        place.write(held)
        return True
    changed = _changed(held, _attributes(value) or {})
    for name in changed:
        AttributePlace(value, name).write(held.get(name, MISSING))
    return bool(changed)


def _note_attributes(
    session: Session, value: Any, held: dict[str, Any], attributes: Callable[[Any], dict[str, Any] | None] = _attributes
) -> None:
    now = attributes(value) or {}
    for name in _changed(held, now):
        place = AttributePlace(value, name)
        place.write(held.get(name, MISSING))
        session.places.write(place)
        place.write(now.get(name, MISSING))


def is_same(held: Any, now: Any) -> bool:
    """Tell whether two copies of what an object held are of the same objects in the same places."""
    if len(held) != len(now):
        return False
    if isinstance(held, dict):
        return all(a is b and held[a] is now[b] for a, b in zip(held, now))
    return all(a is b for a, b in zip(held, now))
