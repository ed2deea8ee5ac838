"""Dicts and sets from outside of which only the program knows the keys: lists of those, and of what is under them, are its inputs.

self.tracks[self.next_id] = box     each call passes the keys and what is under them, as lists of any length; they are written back
                                    into the dict that is there
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.containers import outside_inputs, outside_lists
from dy2st.capture.objects import construction
from dy2st.capture.session.session import Session
from dy2st.capture.types import kinds_of_items
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractTable
from dy2st.capture.values.signals import NeedsTable

_PARTS = ("_dy2st_keys", "_dy2st_values")


def take(session: Session, table: AbstractTable, value: Any) -> None:
    """Have the lists of a table be those of a dict or set from outside, as it is at each call.

    Raises:
        Exception: what it holds cannot be an input of the program.
    """
    source = session.tracker.source_of(value)
    assert source is not None
    known, error = session.outside.tables[source.name]
    outside_inputs.check_apart(session, source, storage.contents_of(value) if isinstance(value, dict) else list(value))
    kinds = kinds_of_items.of(value, construction.is_record) if known is None else known
    if kinds is None:
        raise error
    session.tracker.guards.same_type(source, value)
    steps: tuple[Callable[[Any], list[Any]], ...] = (list,) if isinstance(table, AbstractKeys) else (list, _values_of)
    for name, step, kind in zip(_PARTS, steps, kinds):
        part = session.tracker.table.part(source, step)
        items = outside_lists.take(session, part, now := step(value), kind, session.lists.of_outside)
        outside_lists.guard(session, part, now, kind)
        session.tracker.know(items.items, part)
        setattr(table, name, items.items)
    session.outside.tables_met.append((source, table, kinds))


def _values_of(table: Any) -> list[Any]:
    return list(dict.values(table))


def check_kinds(session: Session) -> None:
    """Check that the program leaves in dicts from outside what it can find there at the next call.

    Raises:
        NeedsTable: it has put in something else, and the capture begins again with that.
        Exception: that cannot be an input of the program.
    """
    for source, table, before in session.outside.tables_met:
        lists = [session.lists.of(getattr(table, name, None)) for name in _PARTS]
        error = session.outside.tables[source.name][1]
        try:
            after = tuple(kinds_of_items.lasting(None if items is None else items.element) for items in lists)
        except TypeError:
            raise error from None
        if after != before:
            raise NeedsTable(source.name, after, error)
