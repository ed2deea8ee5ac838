"""Counters of which only the program knows the keys, in Python: it is converted like the user's code."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from dy2st.capture.collections.runtime_tables import RuntimeDict, copied, find, is_mapping, made, under


class RuntimeCounter(RuntimeDict, example=collections.Counter()):
    """A ``Counter``."""

    def copy(self) -> Any:
        return copied(self, made(RuntimeCounter))

    def __getitem__(self, key: Any) -> Any:
        position = find(self._dy2st_keys, key)
        return 0 if position < 0 else under(self._dy2st_values, position)

    def __delitem__(self, key: Any) -> None:
        position = find(self._dy2st_keys, key)
        if position >= 0:
            del self._dy2st_keys[position]
            del self._dy2st_values[position]

    def update(self, *sources: Any, **named: Any) -> None:
        for source in (*sources, named):
            count(self, source, 1)

    def subtract(self, *sources: Any, **named: Any) -> None:
        for source in (*sources, named):
            count(self, source, -1)

    def total(self) -> Any:
        return sum(self._dy2st_values)

    def elements(self) -> Any:
        found = []
        for key, count in self.items():
            for _ in range(count):
                found.append(key)
        return iter(found)

    def most_common(self, n: Any = None) -> list[tuple[Any, Any]]:
        found = sorted(self.items(), key=lambda item: item[1], reverse=True)
        if n is None:
            return found
        return found[: max(n, 0)]

    def __add__(self, other: Any) -> Any:
        return combined(self, other, lambda mine, others: mine + others)

    def __sub__(self, other: Any) -> Any:
        return combined(self, other, lambda mine, others: mine - others)

    def __or__(self, other: Any) -> Any:
        return combined(self, other, lambda mine, others: max(mine, others))

    def __and__(self, other: Any) -> Any:
        return combined(self, other, lambda mine, others: min(mine, others))

    def __pos__(self) -> Any:
        return signed(self, 1)

    def __neg__(self) -> Any:
        return signed(self, -1)

    def __le__(self, other: Any) -> Any:
        return among(self, other) if isinstance(other, (collections.Counter, RuntimeCounter)) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return among(other, self) if isinstance(other, (collections.Counter, RuntimeCounter)) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        if not isinstance(other, (collections.Counter, RuntimeCounter)):
            return NotImplemented
        return among(self, other) and self != other

    def __gt__(self, other: Any) -> Any:
        if not isinstance(other, (collections.Counter, RuntimeCounter)):
            return NotImplemented
        return among(other, self) and self != other

    def __iadd__(self, other: Any) -> Any:
        for key, number in other.items():
            self[key] = self[key] + number
        return positive(self)

    def __isub__(self, other: Any) -> Any:
        for key, number in other.items():
            self[key] = self[key] - number
        return positive(self)

    def __ior__(self, other: Any) -> Any:
        for key, number in other.items():
            if number > self[key]:
                self[key] = number
        return positive(self)

    def __iand__(self, other: Any) -> Any:
        for key, number in self.items():
            if other[key] < number:
                self[key] = other[key]
        return positive(self)

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, (collections.Counter, RuntimeCounter)):
            return RuntimeDict.__eq__(self, other)
        if any(other[key] != number for key, number in self.items()):
            return False
        return all(self[key] == number for key, number in other.items())

    __hash__ = None

    def __repr__(self) -> str:
        if not self._dy2st_keys:
            return "Counter()"
        return "Counter({" + ", ".join([f"{key!r}: {count!r}" for key, count in self.most_common()]) + "})"


def count(table: Any, source: Any, sign: int) -> None:
    """Add to the counts of a ``Counter``, or subtract from them."""
    if source is None:
        return
    if is_mapping(source):
        for key in source.keys():  # noqa: SIM118
            table[key] = source[key] * sign + table[key]
    else:
        for key in source:
            table[key] = table[key] + sign


def positive(table: Any) -> Any:
    """Take out what a ``Counter`` has no more of; gives the counter."""
    for key in [key for key, number in table.items() if not number > 0]:
        del table[key]
    return table


def combined(table: Any, other: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Return what an operator gives of two ``Counter``."""
    if not isinstance(other, (collections.Counter, RuntimeCounter)):
        return NotImplemented
    result = made(RuntimeCounter)
    for key, number in table.items():
        found = combine(number, other[key])
        if found > 0:
            result[key] = found
    for key, number in other.items():
        if key not in table:
            found = combine(0, number)
            if found > 0:
                result[key] = found
    return result


def signed(table: Any, sign: int) -> Any:
    """Return what a ``Counter`` has more than nothing of, or less with ``sign`` -1."""
    result = made(RuntimeCounter)
    for key, number in table.items():
        if number * sign > 0:
            result[key] = number * sign
    return result


def among(table: Any, other: Any) -> bool:
    """Tell whether a ``Counter`` has no more of anything than another one."""
    if any(number > other[key] for key, number in table.items()):
        return False
    return all(table[key] <= number for key, number in other.items())
