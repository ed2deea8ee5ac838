"""Dicts of which only the program knows the keys, or their order, where there are too many ways to go through each.

c = Counter()                   which labels are there, and which came first, is one of many ways: a loop over ``c`` is one loop
for x in xs:                    of the program, over the positions of those that are there. What it finds at one of them is a
    c[label(x)] += 1            tagged union of the keys, and what there is under that key.
"""

from __future__ import annotations

from typing import Any

from dy2st.capture.branching import optional, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st.capture.values.dict_views import is_changed
from dy2st.capture.values.symbolic import RuntimeList, Undefined, may_be_undefined
from dy2st_runtime.primitives import control, scalars

_LAST = 2**62
"""Stands for the rank of a key that is not there."""


def steps(session: Session, shown: optional.RuntimeView) -> RuntimeIterable:
    """Return what a loop over a view goes through."""
    table, name = shown.table, shown.name
    keys = [key for key, value in dict.items(table) if not isinstance(value, Undefined)]
    before = [*dict.items(table)]
    present = [unions.presence(dict.__getitem__(table, key)) for key in keys]
    count = optional.count(session, present)
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
        if is_changed(table, before):
            check(session, optional.length(session, table) == count, RuntimeError, "dictionary changed size during iteration")
        return count

    return RuntimeIterable(number, item, "a dict")


def _places(session: Session, ranks: list[Any], present: list[Any]) -> RuntimeList:
    """Return the numbers of the keys in order; those that are not there come last."""
    shown = [
        rank if there is True else session.number(scalars.where, (there, rank, _LAST), "int") for rank, there in zip(ranks, present)
    ]
    session.lists.own(shown)
    order = session.lists.new(value_types.NumberType("int"))
    session.builder.call(control.list_order, (session.lists.make(shown), False), {}, order)
    return order
