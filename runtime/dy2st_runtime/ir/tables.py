"""Dicts and sets that a program holds as lists of their keys and of what is under them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_KINDS: Mapping[str, Callable[..., Any]] = {
    "dict": dict, "OrderedDict": collections.OrderedDict, "Counter": lambda pairs: collections.Counter(dict(pairs)),
}  # fmt: skip
"""What makes a dict of each kind from its items."""


def zipped(kind: str, parts: Sequence[Any]) -> Any:
    """Return the dict of a kind with these keys and what is under them.

    Example:
        >>> zipped("dict", ([3, 1], ["a", "b"]))
        {3: 'a', 1: 'b'}
    """
    return _KINDS[kind](zip(*parts, strict=True))


def resolved(kind: str, items: list[Any]) -> list[Any]:
    """Put dicts and sets in the places of what stands for them in a list of a program; gives the list.

    Args:
        kind: of the dicts that are neither sets nor ``defaultdict``.
        items: the list.
    """
    return _resolved(kind, items, {})  # type: ignore[no-any-return]


def _resolved(kind: str, value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    if id(value) in known:
        return known[id(value)][1]
    if type(value) is list:
        known[id(value)] = value, value
        value[:] = [_resolved(kind, item, known) for item in value]
    elif type(value) is tuple:
        parts = [_resolved(kind, item, known) for item in value]
        return value if all(new is old for new, old in zip(parts, value)) else tuple(parts)
    elif hasattr(value, "_dy2st_keys"):
        known[id(value)] = value, _made(kind, value, known)
        return known[id(value)][1]
    return value


def _made(kind: str, table: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    keys = _resolved(kind, table._dy2st_keys, known)
    if not hasattr(table, "_dy2st_values"):
        return set(keys)
    values = _resolved(kind, table._dy2st_values, known)
    if hasattr(table, "default_factory"):
        return collections.defaultdict(table.default_factory, zip(keys, values, strict=True))
    return zipped(kind, (keys, values))


KINDS = {
    f"{name} {kind}": (function, kind) for name, function in (("zipped", zipped), ("resolved", resolved)) for kind in _KINDS
}
"""The collections of a structure that these are, each with the function and its first argument."""
