"""Dicts and sets of which only the program knows the keys, in Python: it is converted like the user's code.

counts[n] = counts.get(n, 0) + 1        two lists of the program, one of keys and one of what is under them; ``find`` tells the
                                        position of a key
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterator
from typing import Any

from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractTable, in_any_order
from dy2st.errors import CaptureError


def _refused(use: str) -> CaptureError:
    """Return the error for code that is not converted: converted code has a handler for what asks for the lists."""
    return CaptureError(
        f"a dict or set of which only the program knows the keys {use} in code that was not converted",
        fix="do it in converted code, or with a list: sorted(table)",
    )


def find(keys: list[Any], key: Any) -> int:
    """Return the position of a key as a dict finds it; -1 if it is not there."""
    raise _refused("is searched")


def as_member(key: Any) -> Any:
    """Return what a set is searched for: a set is found as the frozen one that it is equal to."""
    raise _refused("is searched")


def under(values: list[Any], position: int) -> Any:
    """Return what is under a key, which is there."""
    raise _refused("is read")


def made(kind: Any) -> Any:
    """Return an empty table of a kind."""
    result = kind.__new__(kind)
    result._dy2st_keys, result._dy2st_values = [], []
    return result


def made_default(factory: Any) -> Any:
    """Return an empty ``defaultdict``."""
    result = made(RuntimeDefaultDict)
    result.default_factory = factory
    return result


def copied(table: Any, result: Any) -> Any:
    """Return an empty table with the items of another one put in."""
    result._dy2st_keys.extend(table._dy2st_keys)
    result._dy2st_values.extend(table._dy2st_values)
    return result


def shown(table: Any, name: str) -> Any:
    """Return what ``keys()``, ``values()`` or ``items()`` give of a table."""
    raise _refused("is iterated")


def is_mapping(source: Any) -> bool:
    """Tell whether a value has keys, as ``dict.update`` asks."""
    return hasattr(source, "keys")


def is_set(value: Any) -> bool:
    """Tell whether a value is one of the sets that operators of sets take."""
    return isinstance(value, (set, frozenset, AbstractKeys))


def is_table(value: Any) -> bool:
    """Tell whether a value is a dict, of Python or of the program."""
    return isinstance(value, (dict, AbstractTable)) and not is_set(value)


def is_runtime(value: Any) -> bool:
    """Tell whether a value is a set of the program."""
    return isinstance(value, AbstractKeys)


def members(items: Any) -> Any:
    """Return the members of a set in any order; any other iterable as it is."""
    return in_any_order(items)


class Keyed(AbstractTable):
    """What a dict and a set have in common."""

    def __len__(self) -> int:
        return len(self._dy2st_keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(shown(self, "keys"))

    def __contains__(self, key: Any) -> bool:
        return find(self._dy2st_keys, key) >= 0


class RuntimeDict(Keyed, example={}):
    """A dict."""

    def __getitem__(self, key: Any) -> Any:
        position = find(self._dy2st_keys, key)
        if position < 0:
            raise KeyError(key)
        return under(self._dy2st_values, position)

    def __setitem__(self, key: Any, value: Any) -> None:
        position = find(self._dy2st_keys, key)
        if position < 0:
            self._dy2st_keys.append(key)
            self._dy2st_values.append(value)
        else:
            self._dy2st_values[position] = value

    def __delitem__(self, key: Any) -> None:
        position = find(self._dy2st_keys, key)
        if position < 0:
            raise KeyError(key)
        del self._dy2st_keys[position]
        del self._dy2st_values[position]

    def get(self, key: Any, default: Any = None) -> Any:
        position = find(self._dy2st_keys, key)
        return default if position < 0 else under(self._dy2st_values, position)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        position = find(self._dy2st_keys, key)
        if position >= 0:
            return under(self._dy2st_values, position)
        self._dy2st_keys.append(key)
        self._dy2st_values.append(default)
        return default

    def pop(self, key: Any, *default: Any) -> Any:
        position = find(self._dy2st_keys, key)
        if position < 0:
            if default:
                return default[0]
            raise KeyError(key)
        del self._dy2st_keys[position]
        return self._dy2st_values.pop(position)

    def popitem(self) -> tuple[Any, Any]:
        if not self._dy2st_keys:
            raise KeyError("popitem(): dictionary is empty")
        return self._dy2st_keys.pop(), self._dy2st_values.pop()

    def clear(self) -> None:
        self._dy2st_keys.clear()
        self._dy2st_values.clear()

    def update(self, *sources: Any, **named: Any) -> None:
        for source in sources:
            if is_mapping(source):
                for key in source.keys():  # noqa: SIM118
                    self[key] = source[key]
            else:
                for key, value in source:
                    self[key] = value
        for key, value in named.items():
            self[key] = value

    def copy(self) -> Any:
        return copied(self, made(RuntimeDict))

    def keys(self) -> Any:
        return shown(self, "keys")

    def values(self) -> Any:
        return shown(self, "values")

    def items(self) -> Any:
        return shown(self, "items")

    def __or__(self, other: Any) -> Any:
        if not is_table(other):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> Any:
        result = self.copy()
        result.clear()
        result.update(other)
        result.update(self)
        return result

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: Any) -> Any:
        if not is_table(other):
            return False
        if len(self) != len(other):
            return False
        return all(key in other and other[key] == value for key, value in self.items())

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Any:
        return self.copy()

    def __repr__(self) -> str:
        return "{" + ", ".join([f"{key!r}: {value!r}" for key, value in self.items()]) + "}"


class RuntimeDefaultDict(RuntimeDict, example=collections.defaultdict()):
    """A ``defaultdict``."""

    default_factory: Callable[[], Any] | None

    def __getitem__(self, key: Any) -> Any:
        position = find(self._dy2st_keys, key)
        if position >= 0:
            return under(self._dy2st_values, position)
        if self.default_factory is None:
            raise KeyError(key)
        value = self.default_factory()
        self[key] = value
        return value

    def copy(self) -> Any:
        return copied(self, made_default(self.default_factory))

    def __repr__(self) -> str:
        return f"defaultdict({self.default_factory!r}, {RuntimeDict.__repr__(self)})"


class RuntimeOrderedDict(RuntimeDict, example=collections.OrderedDict()):
    """An ``OrderedDict``."""

    def copy(self) -> Any:
        return copied(self, made(RuntimeOrderedDict))

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, collections.OrderedDict) and list(self) != list(other):
            return False
        return RuntimeDict.__eq__(self, other)

    __hash__ = None

    def __repr__(self) -> str:
        if not self._dy2st_keys:
            return "OrderedDict()"
        if sys.version_info < (3, 12):
            return f"OrderedDict({list(self.items())!r})"
        return f"OrderedDict({RuntimeDict.__repr__(self)})"

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        if not self._dy2st_keys:
            raise KeyError("dictionary is empty")
        position = -1 if last else 0
        return self._dy2st_keys.pop(position), self._dy2st_values.pop(position)

    def move_to_end(self, key: Any, last: bool = True) -> None:
        position = find(self._dy2st_keys, key)
        if position < 0:
            raise KeyError(key)
        known, value = self._dy2st_keys.pop(position), self._dy2st_values.pop(position)
        if last:
            self._dy2st_keys.append(known)
            self._dy2st_values.append(value)
        else:
            self._dy2st_keys.insert(0, known)
            self._dy2st_values.insert(0, value)
