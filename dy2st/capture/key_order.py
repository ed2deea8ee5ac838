"""The order of a dict's keys, where it differs from way to way.

if x.sum() > 0:
    d["a"] = x; d["b"] = x          the program has one order for both ways, so nobody may ask for it afterwards:
else:                               d["a"] is fine, list(d) and `return d` are refused
    d["b"] = x; d["a"] = x
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dy2st import errors
from dy2st.capture.journal import ItemPlace, Place, Write
from dy2st.capture.values import Undefined, may_be_undefined

Order = tuple[dict[Any, Any], tuple[Any, ...]]
"""A dict with its keys."""


class KeyOrders:
    """Dicts whose keys are in an order that only the run of the program knows."""

    def __init__(self) -> None:
        self._unknown: dict[int, tuple[dict[Any, Any], Place]] = {}
        self.asked: set[tuple[Any, ...]] = set()
        """The keys, in order, of the dicts whose order was asked."""
        self._together: dict[int, tuple[Any, object]] = {}

    def begin_trip(self, place: Place, value: Any, final: Any, loop: object) -> None:
        """What a trip of a loop finds in a place. Keys that each trip leaves are there all, or none of them in the first trip."""
        if isinstance(place, ItemPlace) and may_be_undefined(value) and not may_be_undefined(final):
            self._together[id(value)] = value, loop

    def write(self, table: dict[Any, Any], key: Any) -> None:
        """A key is written that is not there, or on some ways only: then it comes after the others."""
        loop = self._together.get(id(table[key]), (None, None))[1]
        keys = list(table)
        for later in keys[keys.index(key) + 1 :]:
            if loop is None or self._together.get(id(table[later]), (None, None))[1] is not loop:
                self._unknown.setdefault(id(table), (table, ItemPlace(table, key)))

    def compare(self, orders: Iterable[Order]) -> None:
        """The ways through a block have left dicts with their keys in some orders."""
        for table, left in orders:
            now = [key for key in table if key in left]
            if now != [key for key in left if key in table]:
                self._unknown.setdefault(id(table), (table, ItemPlace(table, left[-1])))

    def check(self, table: Any, here: errors.Location | None) -> None:
        """The order of the keys of a dict is asked.

        Raises:
            CaptureError: it is known only at run time.
        """
        if isinstance(table, dict) and len(table) > 1:
            self.asked.add(tuple(table))
        if id(table) in self._unknown and len(table) > 1:
            place = self._unknown[id(table)][1]
            raise errors.CaptureError(
                f"the order of a dict's keys depends on a branch or loop, which writes {place}, and is used",
                here,
                fix="write the keys in the same order on all ways, or give all of them a value before",
            )


def orders_of(writes: Iterable[Write]) -> list[Order]:
    """The keys that a block leaves in the dicts that it has written."""
    tables = {id(place.owner): place.owner for write in writes if isinstance(place := write.place, ItemPlace)}
    return [
        (table, tuple(key for key, value in table.items() if not isinstance(value, Undefined)))
        for table in tables.values()
        if isinstance(table, dict)
    ]
