"""Sets of which only the program knows the members, in Python: it is converted like the user's code."""

from __future__ import annotations

from typing import Any

from dy2st.capture.collections.runtime_tables import Keyed, as_member, find, is_runtime, is_set, made, members
from dy2st.capture.values.abstract_objects import AbstractKeys


class RuntimeSet(Keyed, AbstractKeys, example=set()):
    """A set."""

    def add(self, key: Any) -> None:
        if find(self._dy2st_keys, key) < 0:
            self._dy2st_keys.append(key)

    def discard(self, key: Any) -> None:
        position = find(self._dy2st_keys, as_member(key))
        if position >= 0:
            del self._dy2st_keys[position]

    def remove(self, key: Any) -> None:
        position = find(self._dy2st_keys, as_member(key))
        if position < 0:
            raise KeyError(key)
        del self._dy2st_keys[position]

    def pop(self) -> Any:
        for key in self:
            self.remove(key)
            return key
        raise KeyError("pop from an empty set")

    def __repr__(self) -> str:
        return "{" + ", ".join([repr(key) for key in self]) + "}"

    def clear(self) -> None:
        self._dy2st_keys.clear()

    def copy(self) -> Any:
        result = made(RuntimeSet)
        result._dy2st_keys.extend(self._dy2st_keys)
        return result

    def update(self, *others: Any) -> None:
        for other in others:
            for key in members(other):
                self.add(key)

    def difference_update(self, *others: Any) -> None:
        for other in others:
            for key in members(other):
                self.discard(key)

    def intersection_update(self, *others: Any) -> None:
        for other in others:
            kept = as_set(other)
            self._dy2st_keys[:] = [key for key in self._dy2st_keys if key in kept]

    def symmetric_difference_update(self, other: Any) -> None:
        for key in members(as_set(other)):
            if key in self:
                self.remove(key)
            else:
                self.add(key)

    def union(self, *others: Any) -> Any:
        result = self.copy()
        result.update(*others)
        return result

    def difference(self, *others: Any) -> Any:
        result = self.copy()
        result.difference_update(*others)
        return result

    def intersection(self, *others: Any) -> Any:
        result = self.copy()
        result.intersection_update(*others)
        return result

    def symmetric_difference(self, other: Any) -> Any:
        result = self.copy()
        result.symmetric_difference_update(other)
        return result

    def isdisjoint(self, other: Any) -> Any:
        return all(key not in self for key in members(other))

    def issubset(self, other: Any) -> Any:
        others = as_set(other)
        return all(key in others for key in self._dy2st_keys)

    def issuperset(self, other: Any) -> Any:
        return all(key in self for key in members(other))

    def __or__(self, other: Any) -> Any:
        return self.union(other) if is_set(other) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if is_set(other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if is_set(other) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if is_set(other) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return as_set(other).union(self)

    def __rand__(self, other: Any) -> Any:
        return as_set(other).intersection(self)

    def __rsub__(self, other: Any) -> Any:
        return as_set(other).difference(self)

    def __rxor__(self, other: Any) -> Any:
        return as_set(other).symmetric_difference(self)

    def __ior__(self, other: Any) -> Any:
        if not is_set(other):
            return NotImplemented
        self.update(other)
        return self

    def __iand__(self, other: Any) -> Any:
        if not is_set(other):
            return NotImplemented
        self.intersection_update(other)
        return self

    def __isub__(self, other: Any) -> Any:
        if not is_set(other):
            return NotImplemented
        self.difference_update(other)
        return self

    def __ixor__(self, other: Any) -> Any:
        if not is_set(other):
            return NotImplemented
        self.symmetric_difference_update(other)
        return self

    def __le__(self, other: Any) -> Any:
        return self.issubset(other) if is_set(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return len(self) < len(other) and self.issubset(other) if is_set(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self.issuperset(other) if is_set(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return len(self) > len(other) and self.issuperset(other) if is_set(other) else NotImplemented

    def __eq__(self, other: Any) -> Any:
        return len(self) == len(other) and self.issuperset(other) if is_set(other) else False

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Any:
        return self.copy()


def as_set(items: Any) -> Any:
    """Return a set of the program: this one, or one of what is in an iterable."""
    if is_runtime(items):
        return items
    result = made(RuntimeSet)
    result.update(items)
    return result
