"""The dicts of objects' attributes: ``vars(obj)`` and ``obj.__dict__``.

An attribute and its item in the dict are one place: what is done to the item is done to the attribute.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from dy2st import errors
from dy2st.capture import choices, storage
from dy2st.capture.journal import MISSING, AttributePlace
from dy2st.capture.session import Session
from dy2st.capture.sources import Source
from dy2st.capture.values import Choice, Undefined, may_be_undefined


def has(value: Any) -> bool:
    """Whether an object has its attributes in a dict of its own."""
    return type(storage.table_of(value)) is dict and not isinstance(value, types.ModuleType)


def read(session: Session, owner: Any, source: Source | None) -> dict[str, Any]:
    """``vars(obj)``: the code may look at all of it."""
    table = storage.table_of(owner)
    assert table is not None
    session.tables.setdefault(id(table), (table, owner))
    born = session.births.born(owner)
    if born is not None:  # the dict is as old, so that blocks pass it on as the object that it is
        session.births.own(table, born)
    if source is not None:
        session.tracker.know(table, session.tracker.table.attribute(source, "__dict__"))
        before = _as_it_was(session, owner, table)
        session.tracker.guards.same_keys(session.tracker.table.attribute(source, "__dict__"), before)
        for name in before:
            session.outside.read(AttributePlace(owner, name))
    return table


def _as_it_was(session: Session, owner: Any, table: dict[str, Any]) -> dict[str, Any]:
    """What the dict held when the program was called."""
    found = dict(table)
    for entry in session.entries():
        place = entry.place
        if not isinstance(place, AttributePlace) or place.owner is not owner:
            continue
        if entry.raw is MISSING or (entry.names and place.name not in entry.names):
            found.pop(place.name, None)
        else:
            found[place.name] = entry.raw
            kept = {name: found.pop(name) for name in entry.names if name in found}
            found = {**kept, **found}
    return found


def holder(session: Session, value: Any) -> Any:
    """The object whose attributes an object has: itself, or the first that was met of those that share a dict."""
    table = storage.table_of(value)
    if table is None or table is value or isinstance(value, (torch.Tensor, types.ModuleType)):
        return value
    first = session.tables.setdefault(id(table), (table, value))[1]
    if first is value:
        return value
    one, other = session.tracker.source_of(first), session.tracker.source_of(value)
    if one is not None and other is not None:
        step = session.tracker.table.attribute
        session.tracker.guards.same_object(step(other, "__dict__"), step(one, "__dict__"))
    return first


def item(session: Session, table: dict[str, Any], key: Any) -> Any:
    """``vars(obj)[key]``."""
    found = table[key]
    return choices.certain(_as_key(found, key)) if may_be_undefined(found) else found


def put(session: Session, table: dict[str, Any], key: Any, value: Any) -> None:
    """``vars(obj)[key] = value``."""
    owner = session.tables[id(table)][1]
    if isinstance(owner, torch.nn.Module) and key not in table and storage.own(owner, key) is not MISSING:
        raise errors.CaptureError(
            f"{key!r} is put into the __dict__ of a module that has a parameter, buffer or submodule of that name",
            session.here(),
            fix=f"delete the attribute first, or assign to it: module.{key} = ...",
        )
    session.write(AttributePlace(owner, key))
    table[key] = value


def remove(session: Session, table: dict[str, Any], key: Any) -> None:
    """``del vars(obj)[key]``."""
    item(session, table, key)
    session.write(AttributePlace(session.tables[id(table)][1], key))
    del table[key]


def call(session: Session, table: dict[str, Any], name: str, args: Any, kwargs: Any) -> Any:
    """A method that changes the dict: each attribute is written by itself."""
    before, after = dict(table), dict(table)
    session.births.own(after)
    result = session.call(getattr(after, name), *args, **kwargs)
    for key in [key for key in before if key not in after]:
        session.write(AttributePlace(session.tables[id(table)][1], key))
        del table[key]
    for key, value in after.items():
        if key not in before or before[key] is not value:
            put(session, table, key, value)
    return result


def replace(session: Session, owner: Any, table: Any) -> None:
    """``obj.__dict__ = table``.

    Raises:
        CaptureError: others may hold the dict, or a tensor decides whether it gets there.
    """
    place = AttributePlace(owner, "__dict__")
    if session.tracker.source_of(table) is not None or (
        session.nesting > 1 and not session.births.is_inside(place, session.region)
    ):
        raise errors.CaptureError(
            "the __dict__ of an object is replaced by a dict from outside, or where a tensor decides",
            session.here(),
            fix="change what is in it: vars(obj).clear(), then vars(obj).update(...)",
        )
    for name in {**(storage.table_of(owner) or {}), **table}:
        session.write(AttributePlace(owner, name))
    session.write(place)
    owner.__dict__ = table
    session.tables[id(table)] = table, owner


def _as_key(found: Any, key: Any) -> Any:
    """An attribute that may not be there, in the words of an item that may not."""
    missing = Undefined("key", KeyError, (key,))
    if isinstance(found, Undefined):
        return missing
    assert isinstance(found, Choice)
    options = {tag: missing if isinstance(option, Undefined) else option for tag, option in found.options.items()}
    return Choice(found.session, found.tag, options)
