"""Dicts of which only the program knows the keys, or their order, where there are too many ways to go through each.

c = Counter()                   which labels are there, and which came first, is one of many ways: a loop over ``c`` is one loop
for x in xs:                    of the program, over the positions of those that are there. What it finds at one of them is a
    c[label(x)] += 1            tagged union of the keys, and what there is under that key.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

from dy2st.capture.branching import unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, Undefined, may_be_undefined
from dy2st_runtime.primitives import control, scalars

_FEW = 8
"""So many ways are written out: each set of keys in each order."""
_LAST = 2**62
"""Stands for the rank of a key that is not there."""


class RuntimeView(Represents, example={}.keys()):
    """What shows the keys, values or items of such a dict: as they are when they are asked.

    Args:
        table: the dict.
        name: of the method that gives such a view.
    """

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name


@functools.cache
def _showing(name: str, *, ordered: bool) -> Callable[..., RuntimeView]:
    kind = collections.OrderedDict if ordered else dict
    return type("RuntimeView", (RuntimeView,), {}, example=getattr(kind(), name)())


def is_wide(session: Session, table: Any) -> bool:
    """Tell whether a dict may have more sets of keys, in more orders, than are written out."""
    if not isinstance(table, dict):
        return False
    unsure = sum(isinstance(value, TaggedUnion) and may_be_undefined(value) for value in dict.values(table))
    return bool(2**unsure * session.blocks.key_orders.ways(table) > _FEW)


def is_counted(table: Any) -> bool:
    """Tell whether a dict has more keys that may be there than are asked one after the other how many there are.

    Those tell more: where there are none, no single one is there.
    """
    return isinstance(table, dict) and sum(map(may_be_undefined, dict.values(table))) > _COUNTED


_COUNTED = 6


def view(table: Any, name: str) -> RuntimeView:
    """Return ``table.keys()``, ``table.values()`` or ``table.items()``."""
    return _showing(name, ordered=isinstance(table, collections.OrderedDict))(table, name)


def steps(session: Session, shown: RuntimeView) -> RuntimeIterable:
    """Return what a loop over a view goes through."""
    table, name = shown.table, shown.name
    keys = [key for key, value in dict.items(table) if not isinstance(value, Undefined)]
    before = [*dict.items(table)]
    present = [unions.presence(dict.__getitem__(table, key)) for key in keys]
    count = _count(session, present)
    at = _places(session, session.blocks.key_orders.ranks(session, table, keys), present)

    def value_of(place: int) -> Any:
        value = dict.__getitem__(table, keys[place])
        return value.without_unbound() if may_be_undefined(value) else value

    def item(position: Any) -> Any:
        place = lists.iterable(session, at).at(position)
        key = session.new_union(place, dict(enumerate(keys)))
        if name == "keys":
            return key
        value = session.over(session.new_union(place, dict(enumerate(range(len(keys))))), value_of)
        return value if name == "values" else (key, value)

    def number() -> Any:
        now = [*dict.items(table)]
        if len(now) != len(before) or any(a is not c or b is not d for (a, b), (c, d) in zip(now, before)):
            check(session, length(session, table) == count, RuntimeError, "dictionary changed size during iteration")
        return count

    return RuntimeIterable(number, item, "a dict")


def at_end(session: Session, table: Any, last: bool, words: str) -> Any:
    """Return the last key of a dict, or the first; one that has none raises KeyError with these words."""
    keys = steps(session, view(table, "keys"))
    count = keys.length()
    check(session, count > 0, KeyError, words)
    return keys.at(count - 1 if last else 0)


def length(session: Session, table: Any) -> Any:
    """Return how many keys a dict has."""
    return _count(session, [unions.presence(value) for value in dict.values(table)])


def _count(session: Session, present: list[Any]) -> Any:
    return functools.reduce(lambda total, one: total + _as_number(session, one), present, 0)


def _places(session: Session, ranks: list[Any], present: list[Any]) -> RuntimeList:
    """Return the numbers of the keys in order; those that are not there come last."""
    shown = [
        rank if there is True else session.number(scalars.where, (there, rank, _LAST), "int") for rank, there in zip(ranks, present)
    ]
    session.lists.own(shown)
    order = session.lists.new(value_types.NumberType("int"))
    session.builder.call(control.list_order, (session.lists.make(shown), False), {}, order)
    return order


def _as_number(session: Session, there: Any) -> Any:
    return int(there) if isinstance(there, bool) else session.number(scalars.to_int, (there,), "int")
