"""Ranks of the keys of a dict: numbers of the program that tell in which order they have come in, however many orders there are.

if x > 0: d["a"] = 1            a key that is put in gets the next rank; that of a key which is there stays. Ranks are joined and
else:     d["b"] = 1            carried like other numbers, one for each key, and so is the number that the next key gets
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dy2st.capture.values.storage import MISSING

_NEXT: Any = type("Next", (), {"__repr__": lambda self: "<next>"})()
FIRST = 0
"""What stands for the rank of a key that is not there."""


class Ranks:
    """The ranks of the keys of one dict.

    Args:
        of: the rank of each key: a Python int, or a symbolic one. Those of keys that are not there mean nothing.
        following: a rank that no key has reached.
    """

    __slots__ = ("following", "of")

    def __init__(self, of: Mapping[Any, Any], following: Any) -> None:
        self.of, self.following = of, following

    @classmethod
    def begun(cls, keys: Sequence[Any]) -> Ranks:
        """Return those of keys that are in order."""
        return cls({key: place for place, key in enumerate(keys)}, len(keys))

    def completed(self, keys: Iterable[Any]) -> Ranks:
        """Return the same with keys that it does not have behind those that it has."""
        missing = [key for key in keys if key not in self.of]
        if not missing:
            return self
        return Ranks(
            {**self.of, **{key: self.following + place for place, key in enumerate(missing)}}, self.following + len(missing)
        )

    def with_last(self, key: Any, choose: Callable[[Any, Any], Any] = lambda before, after: after) -> Ranks:
        """Return the same with a key at the end; ``choose`` gives its rank, of the one that it has and the one of the last."""
        rank = choose(self.of.get(key, FIRST), self.following)
        return Ranks({**self.of, key: rank}, self.following + 1)

    def without(self, key: Any) -> Ranks:
        """Return the same without a key."""
        return Ranks({other: rank for other, rank in self.of.items() if other not in {key}}, self.following)

    def with_at(self, key: Any, last: bool) -> Ranks:
        """Return the same with a key at an end."""
        return self.with_last(key) if last else self.with_first(key)

    def with_first(self, key: Any) -> Ranks:
        """Return the same with a key in front of all others."""
        return Ranks({**self.of, key: -self.following}, self.following + 1)

    def parts(self) -> dict[Any, Any]:
        """Return all numbers in it, by what they are the rank of."""
        return {**self.of, _NEXT: self.following}

    def with_part(self, key: Any, rank: Any) -> Ranks:
        """Return the same with one of those numbers."""
        return Ranks(self.of, rank) if key is _NEXT else Ranks({**self.of, key: rank}, self.following)

    def constant_order(self, keys: Iterable[Any]) -> list[Any] | None:
        """Return some keys in their order; ``None`` if that is known only at run time."""
        ranks = self.completed(keys).of
        order = list(keys)
        return sorted(order, key=ranks.__getitem__) if all(type(ranks[key]) is int for key in order) else None


def changes(old: Ranks, new: Ranks) -> dict[Any, tuple[Any, Any]]:
    """Return the numbers that differ, and those of new keys, with what they were: of new keys, what they are if that is known."""
    before = old.parts()
    results = {}
    for key, rank in new.parts().items():
        was = before.get(key, MISSING)
        if was is MISSING:
            results[key] = (rank if type(rank) is int else FIRST), rank
        elif was is not rank and not (type(was) is type(rank) is int and was == rank):
            results[key] = was, rank
    return results
