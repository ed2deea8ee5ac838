"""Dicts of which only the program knows the keys, or their order, where there are too many ways to go through each.

c = Counter()                   which labels are there, and which came first, is one of many ways: a loop over ``c`` is one loop
for x in xs:                    of the program, over the positions of those that are there. What it finds at one of them is a
    c[label(x)] += 1            tagged union of the keys, and what there is under that key.
"""

from __future__ import annotations

import collections
from typing import Any

from dy2st import errors
from dy2st.capture.branching import optional, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractTable, in_any_order
from dy2st.capture.values.dict_views import is_changed
from dy2st.capture.values.symbolic import RuntimeList, Undefined, may_be_undefined
from dy2st_runtime.primitives import control, scalars

_LAST = 2**62
"""Stands for the rank of a key that is not there."""


def steps(session: Session, shown: optional.RuntimeView) -> RuntimeIterable:
    """Return what a loop over a view goes through."""
    table, name = shown.table, shown.name
    if isinstance(table, AbstractTable):
        return _steps_of_table(session, table, name)
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


def of_whole_numbers(session: Session, values: Any) -> Any:
    """Return the same for a sum, which rounds in the order of what it adds."""
    known = session.lists.of(values._dy2st_keys) if isinstance(values, AbstractKeys) else None
    kinds = (None, value_types.NumberType("int"), value_types.NumberType("bool"))
    return in_any_order(values) if known is not None and known.element in kinds else values


def _steps_of_table(session: Session, table: AbstractTable, name: str) -> RuntimeIterable:
    """Return what a loop over a dict of the program goes through."""
    if isinstance(table, AbstractKeys):
        raise errors.CaptureError(
            "a loop goes over a set of which only the program knows the members, and their order is one of Python's own",
            session.here(),
            fix="loop over sorted(s), or keep the members in a dict, which has an order: dict.fromkeys(items)",
        )
    known, values = (session.lists.required(items) for items in (table._dy2st_keys, table._dy2st_values))
    count, before = lists.length(session, known), session.lists.changes(known)

    def item(position: Any) -> Any:
        key = None if name == "values" else lists.iterable(session, known).at(position)
        if name == "keys":
            return key
        value = lists.iterable(session, values).at(position)
        return value if name == "values" else (key, value)

    def more(position: Any) -> Any:
        now = session.lists.changes(known)
        if all(new > old for new, old in zip(now, before)):
            raise errors.CaptureError(
                "a loop over a dict of which only the program knows the keys takes keys out and puts some in",
                session.here(),
                fix="loop over a copy of the keys: for key in list(table)",
            )
        if now != before:
            is_ordered = isinstance(table.example, collections.OrderedDict)
            words = "OrderedDict mutated during iteration" if is_ordered else "dictionary changed size during iteration"
            check(session, lists.length(session, known) == count, RuntimeError, words)
        return position < count

    return RuntimeIterable(lambda: count, item, "a dict", more=more)


def _places(session: Session, ranks: list[Any], present: list[Any]) -> RuntimeList:
    """Return the numbers of the keys in order; those that are not there come last."""
    shown = [
        rank if there is True else session.number(scalars.where, (there, rank, _LAST), "int") for rank, there in zip(ranks, present)
    ]
    session.lists.own(shown)
    order = session.lists.new(value_types.NumberType("int"))
    session.builder.call(control.list_order, (session.lists.make(shown), False), {}, order)
    return order
