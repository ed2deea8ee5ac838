"""Methods of ``UserDict`` and ``ChainMap`` that ask whether a key is there, where the standard library catches a ``KeyError``.

Whether a key is there may be decided by a tensor, and an exception that a tensor decides cannot be caught. These are converted in
the place of the methods that they are named after.
"""

from __future__ import annotations

import collections
import collections.abc
import types
from typing import Any


def _get(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    return default


def _pop(self: Any, key: Any, *default: Any) -> Any:
    if key not in self and default:
        return default[0]
    value = self[key]
    del self[key]
    return value


def _setdefault(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    self[key] = default
    return default


def _found(self: Any, key: Any) -> Any:
    for mapping in self.maps:
        if key in mapping:
            return mapping[key]
    return self.__missing__(key)


def _remove(self: Any, key: Any) -> None:
    if key not in self.maps[0]:
        raise KeyError(f"Key not found in the first mapping: {key!r}")
    del self.maps[0][key]


def _pop_first(self: Any, key: Any, *default: Any) -> Any:
    if not default and key not in self.maps[0]:
        raise KeyError(f"Key not found in the first mapping: {key!r}")
    return self.maps[0].pop(key, *default)


_TESTED: dict[Any, Any] = {
    collections.abc.Mapping.get: _get,
    collections.abc.MutableMapping.pop: _pop,
    collections.abc.MutableMapping.setdefault: _setdefault,
    collections.ChainMap.__getitem__: _found,
    collections.ChainMap.__delitem__: _remove,
    collections.ChainMap.pop: _pop_first,
}


def instead_of(function: types.FunctionType, args: tuple[Any, ...]) -> types.FunctionType:
    """What is converted for a method of a mapping: another one if the keys of that are simply there or not."""
    other = _TESTED.get(function)
    return other if other is not None and args and _is_table(args[0]) else function


def _is_table(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, collections.ChainMap):
        own = _inherits(kind, collections.ChainMap, "__getitem__", "__contains__", "__missing__")
        return own and all(map(_is_table, value.maps))
    if isinstance(value, collections.UserDict):
        return _inherits(kind, collections.UserDict, "__getitem__", "__contains__") and not hasattr(kind, "__missing__")
    return isinstance(value, dict) and _inherits(kind, dict, "__getitem__", "__contains__") and not hasattr(kind, "__missing__")


def _inherits(kind: type, base: type, *names: str) -> bool:
    return all(getattr(kind, name) is getattr(base, name) for name in names)
