"""Keys of dicts, members of sets and names of attributes that only the program knows: what uses one is done for each option.

d.get(k)                k is "a" or "b": a branch with d.get("a"), and one with d.get("b")
d[f"{k}_{n}"], d[k, 1]  the same for each text, and for each tuple
d[n] = x                n is 0 or 1: a branch for each; of a number of which no more is known, see lookup.py
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractSet
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st_runtime.primitives import scalars

_OPEN = (TaggedUnion, Text, *SYMBOLIC_NUMBERS)
_SETS = (set, AbstractSet, AbstractKeys)
_PLAIN = frozenset((str, int, type(None), bool, float, bytes))


def is_open(key: Any) -> bool:
    """Tell whether a key is known only when the program runs, or part of it is."""
    return type(key) not in _PLAIN and _first(key, _OPEN) is not None


def any_open(keys: Iterable[Any]) -> bool:
    """Tell whether one of some keys is known only when the program runs."""
    return any(map(is_open, keys))


def over(session: Session, key: Any, use: Callable[[Any], Any]) -> Any:
    """Do something with a key, once for each that it may be; it is left open where it may be any number or text."""
    for part in _all(key, _OPEN) if type(key) not in _PLAIN else ():
        union = part if isinstance(part, TaggedUnion) else _ways(session, part)
        if union is not None:
            return _over_part(session, key, part, union, use)
    return use(key)


def _over_part(session: Session, key: Any, part: Any, union: TaggedUnion, use: Callable[[Any], Any]) -> Any:
    return session.over(union, lambda option: over(session, _replaced(key, part, option), use))


def over_unions(session: Session, key: Any, use: Callable[[Any], Any]) -> Any:
    """Return the same for tagged unions alone: numbers of the program may be indices of tensors."""
    union = _first(key, (TaggedUnion,)) if type(key) not in _PLAIN else None
    if union is None:
        return use(key)
    return session.over(union, lambda option: over_unions(session, _replaced(key, union, option), use))


def as_member(session: Session, value: Any) -> Any:
    """Return what a set is searched for: a set is found as the frozen one that it is equal to."""
    return session.call(frozenset, value) if isinstance(value, _SETS) else value


def has_union(key: Any) -> bool:
    """Tell whether a key is a tagged union, or part of it is."""
    return type(key) not in _PLAIN and _first(key, (TaggedUnion,)) is not None


def over_all(session: Session, keys: Sequence[Any], use: Callable[[list[Any]], Any]) -> Any:
    """Return the same for several keys at once."""
    return over(session, tuple(keys), lambda known: use(list(known)))


def is_any(session: Session, key: Any) -> bool:
    """Tell whether a key may be any number or text, or part of it may."""
    parts = [] if type(key) in _PLAIN else [part for part in _all(key, _OPEN) if not isinstance(part, (TaggedUnion, torch.SymBool))]
    return any(_is_any(session, part) for part in parts)


def _is_any(session: Session, part: Any) -> bool:
    if isinstance(part, Text):  # its parts are looked at by themselves
        return not any(is_open(inner) for inner in _parts(part))
    return not isinstance(part, torch.SymInt) or session.shapes.possible(part.node.expr) is None


def refused(session: Session, key: Any, what: str) -> errors.DataDependentError:
    """Return the error for a key that may be any number or text."""
    kind = "text" if isinstance(key, Text) else "number"
    every = "for each text" if kind == "text" else "for each number: dict.fromkeys(range(n), 0)"
    return errors.DataDependentError(
        f"a {kind} that is known only at run time {what}",
        session.here(),
        fix=f"give the dict all keys before, {every}; or keep a list of pairs, (key, value), and search it",
    )


def _ways(session: Session, part: Any) -> TaggedUnion | None:
    """Return a number as one of few; ``None`` if it may be any, or is no number."""
    if isinstance(part, torch.SymBool):
        return TaggedUnion(session, session.number(scalars.where, (part, 1, 0), "int"), {1: True, 0: False})
    values = session.shapes.possible(part.node.expr) if isinstance(part, torch.SymInt) else None
    return None if values is None else TaggedUnion(session, part, {value: value for value in values})


def _parts(key: Any) -> Sequence[Any]:
    if isinstance(key, tuple):
        return storage.plain(key)  # type: ignore[no-any-return]
    if isinstance(key, Text):
        return [part[0] for part in key.parts if not isinstance(part, str)]
    if isinstance(key, slice):
        return key.start, key.stop, key.step
    return [getattr(key, name, None) for name in _fields(key)]


def _fields(key: Any) -> list[str]:
    """Return the fields by which an object is found in a dict."""
    parameters = getattr(type(key), "__dataclass_params__", None)
    if parameters is None or not (parameters.frozen and parameters.eq) or isinstance(key, type):
        return []
    return [field.name for field in dataclasses.fields(key)]


def _all(key: Any, kinds: tuple[type, ...]) -> Iterable[Any]:
    if isinstance(key, kinds) and not isinstance(key, Text):
        yield key
        return
    for part in _parts(key):
        yield from _all(part, kinds)
    if isinstance(key, Text) and Text in kinds:
        yield key


def _first(key: Any, kinds: tuple[type, ...]) -> Any:
    return next(iter(_all(key, kinds)), None)


def _replaced(key: Any, part: Any, option: Any) -> Any:
    """Return a key with another value in the place of a part."""
    if key is part:
        return option
    if isinstance(key, tuple):
        items = [_replaced(item, part, option) for item in tuple.__iter__(key)]
        return type(key)._make(items) if hasattr(key, "_make") else tuple(items)
    if isinstance(key, slice):
        return slice(*(_replaced(bound, part, option) for bound in (key.start, key.stop, key.step)))
    if isinstance(key, Text):
        pieces = (piece if isinstance(piece, str) else (_replaced(piece[0], part, option), *piece[1:]) for piece in key.parts)
        return text.fstring(*pieces)
    changed = {name: _replaced(getattr(key, name, None), part, option) for name in _fields(key)}
    if all(value is getattr(key, name, None) for name, value in changed.items()):
        return key
    result = copy.copy(key)
    for name, value in changed.items():
        object.__setattr__(result, name, value)
    return result
