"""Lists, dicts and objects that may be one object, or not, after a loop.

    a = c = [x]
    while n > 0:            after the loop, `a` is `c` only if there was no iteration
        a = [a[0] + 1]

A loop carries what is in them, and the capture holds an object for each. As long as none is changed and nobody asks which they are
it makes no difference. Once one is changed, nobody may use the others; once somebody asks (`a is c`, `return a, c`), or uses one
that was changed as another, the capture starts again, and its loops keep what is older than they are as the objects that it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dy2st.capture.values.symbolic import options_of
from dy2st_runtime.ir.flattening import children, shallow


class MayAlias:
    """Which objects may be the same."""

    def __init__(self) -> None:
        self._others: dict[int, tuple[Any, list[Any]]] = {}
        self._left: dict[int, tuple[Any, list[Any]]] = {}
        """Those of them that an iteration leaves in several places."""
        self._taken: list[dict[int, tuple[Any, list[Any]]]] = []
        """What was known of the objects that each change has told of, before it did."""

    def link(self, one: Any, other: Any) -> None:
        """Note that two values may be the same object, or hold such."""
        for part in options_of(one):
            for alias in options_of(other):
                self._link(part, alias)

    @property
    def are_any(self) -> bool:
        """Whether any object may be another."""
        return bool(self._others)

    def may_be(self, value: Any, left: bool = False) -> list[Any]:
        """Return the objects that may be a given one.

        Args:
            value: the object.
            left: only those that are one object if an iteration has left it in several places.
        """
        results, table = [value], self._left if left else self._others
        for one in results:
            results += [other for other in table.get(id(one), (None, []))[1] if all(other is not known for known in results)]
        return results[1:]

    def link_parts(self, value: Any, final: Any, same: dict[int, Any]) -> None:
        """Note that two objects in values that a loop carries may be one if an iteration leaves one object in both places.

        Args:
            value: what is carried.
            final: what the iteration leaves there.
            same: what stands for each object that an iteration has left, by its identity.
        """
        own = [*options_of(value)]
        for part in own:
            for left in options_of(final):
                parts, lefts = children(part), children(left)
                if parts is None or lefts is None or shallow(part)[1] != shallow(left)[1]:
                    continue
                others = [same.setdefault(id(left), part)]
                others += [same[id(alias)] for alias in self.may_be(left, left=True) if id(alias) in same]
                for other in others:
                    if all(other is not option for option in own):  # which of its own options a value is, its tag tells
                        self._link(part, other, self._left)
                if len(parts[0]) == len(lefts[0]):
                    for one, other in zip(parts[0], lefts[0]):
                        self.link_parts(one, other, same)

    def replace(self, pairs: Collection[tuple[Any, Any]]) -> None:
        """Note that other objects stand for those of a branch from here on: they may be whatever these may be.

        Args:
            pairs: each object of a branch, and what stands for it.
        """
        replaced = [(one, value) for one, value in pairs if one is not value]
        for table in (self._others, self._left):
            for one, value in replaced:
                for other in [*table.get(id(one), (None, []))[1]]:
                    for left, right in ((value, other), (other, value)):
                        table.setdefault(id(left), (left, []))[1].append(right)
            for key in {id(one) for one, _ in replaced} & table.keys():
                for other in table.pop(key)[1]:
                    known = table.get(id(other), (None, []))[1]
                    known[:] = [alias for alias in known if id(alias) != key]

    def _link(self, one: Any, other: Any, *tables: dict[int, tuple[Any, list[Any]]]) -> None:
        parts, others = children(one), children(other)
        if one is other or parts is None or others is None:
            return
        if not isinstance(one, tuple) and not isinstance(other, tuple):
            for a, b in ((one, other), (other, one)):
                for table in (self._others, *tables):
                    table.setdefault(id(a), (a, []))[1].append(b)
        if type(one) is type(other) and len(parts[0]) == len(others[0]):
            for part, alias in zip(parts[0], others[0]):
                self.link(part, alias)

    def forget(self, value: Any) -> None:
        """Forget a value, and what is in it: it stood for something in an iteration that has been recorded."""
        for part in options_of(value):
            for gone in (part, *(children(part) or ((),))[0]):
                if children(gone) is None:
                    continue
                if gone is not part:
                    self.forget(gone)
                for other in self._others.pop(id(gone), (None, []))[1]:
                    known = self._others.get(id(other), (None, []))[1]
                    known[:] = [alias for alias in known if alias is not gone]

    def take(self, changed: Any) -> list[Any]:
        """Return the objects that are out of date when one is changed; they are told once, unless the change is undone."""
        results = list(self._others.get(id(changed), (None, []))[1])
        if not results:
            return results
        for other in results:  # what may be the other one may be this one
            results += (
                alias
                for alias in self._others.get(id(other), (None, []))[1]
                if all(alias is not one for one in (changed, *results))
            )
        known = {id(one): self._others[id(one)] for one in (changed, *results) if id(one) in self._others}
        self._taken.append({key: (one, [*others]) for key, (one, others) in known.items()})
        del self._others[id(changed)]
        for other in results:
            if id(other) in known:
                known[id(other)][1][:] = [alias for alias in known[id(other)][1] if alias is not changed]
        return results

    def mark(self) -> int:
        """Return a point to come back to with :meth:`undo`."""
        return len(self._taken)

    def undo(self, mark: int) -> None:
        """Do what has been changed since a mark is as it was: it may be the same as others again."""
        while len(self._taken) > mark:
            for key, (one, others) in self._taken.pop().items():
                since = self._others.get(key, (one, []))[1]
                new = [alias for alias in since if all(alias is not other for other in others)]
                self._others[key] = (one, [*others, *new])
