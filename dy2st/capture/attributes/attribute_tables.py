"""The dicts of objects' attributes: ``vars(obj)`` and ``obj.__dict__``, and those in which a module keeps what it registers.

An attribute and its item in the dict are one place: what is done to the item is done to the attribute.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes.class_attributes import read_classes, source_of
from dy2st.capture.branching import unions
from dy2st.capture.environment.sources import Source
from dy2st.capture.objects import cells
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.writes.places import AttributePlace, ItemPlace


def has(value: Any) -> bool:
    """Tell whether an object has its attributes in a dict of its own."""
    return type(storage.table_of(value)) is dict and not isinstance(value, types.ModuleType)


def know(session: Session, owner: Any, table: Any) -> None:
    """Note that a dict with attributes of an object is used by the code."""
    session.places.tables.setdefault(id(table), (table, owner))


def read(session: Session, owner: Any, source: Source | None) -> dict[str, Any]:
    """Return ``vars(obj)``: the code may look at all of it."""
    table = storage.table_of(owner)
    assert table is not None
    know(session, owner, table)
    allocated = session.allocations.allocated_at(owner)
    if allocated is not None:  # the dict is as old, so that blocks pass it on as the object that it is
        session.allocations.own(table, allocated)
    if source is not None:
        session.tracker.know(table, session.tracker.table.attribute(source, "__dict__"))
        for name in _keep_names(session, owner, source):
            session.outside.read(AttributePlace(owner, name))
    return table


def of_class(session: Session, kind: type, source: Source) -> Any:
    """Return ``vars(kind)``: the code may ask which names there are; values are guarded once they are read."""
    _keep_names(session, kind, source)
    table: Any = vars(kind)
    if any(map(may_be_undefined, table.values())):
        table = read_all(session, kind)
        session.allocations.own(table)
    else:
        session.places.class_tables[id(table)] = table, kind
    return table


def of_module(session: Session, table: dict[str, Any], source: Source) -> dict[str, Any]:
    """Return ``globals()`` or ``vars(module)``: the code may ask which names there are; values are guarded once they are read."""
    session.tracker.know(table, source)
    before = dict(table)
    for entry in session.blocks.entries():
        place = entry.place
        if isinstance(place, ItemPlace) and place.owner is table and entry.raw is MISSING:
            before.pop(place.item, None)
    session.tracker.guards.same_keys(source, before)
    session.places.class_tables[id(table)] = table, None
    return table


def _keep_names(session: Session, owner: Any, source: Source) -> dict[str, Any]:
    """Return the code asks which attributes an object or class has itself; gives them as they were when the program was called."""
    before = _as_it_was(session, owner, dict(storage.table_of(owner) or vars(owner)))
    kept: Any = types.MappingProxyType(before) if isinstance(owner, type) else before
    session.tracker.guards.same_keys(session.tracker.table.attribute(source, "__dict__"), kept)
    return before


def names(session: Session, value: Any) -> list[str]:
    """Return ``dir(value)``.

    Raises:
        CaptureError: an attribute is there on some ways only.
    """
    if isinstance(value, Represents):
        return dir(value.example)
    for owner in (value, *(value.__mro__ if isinstance(value, type) else type(value).__mro__)):
        source = source_of(session, owner) if storage.table_of(owner) is not None or isinstance(owner, type) else None
        if source is None:
            continue
        if any(map(may_be_undefined, vars(owner).values())):
            raise errors.CaptureError(
                "dir() of an object of which a tensor decides what attributes it has",
                session.here(),
                fix="ask for an attribute: hasattr(obj, name)",
            )
        _keep_names(session, owner, source)
    return dir(value)


def read_all(session: Session, kind: type) -> dict[str, Any]:
    """Return what is in a class."""
    for name in list(vars(kind)):
        read_classes(session, (kind,), name)
    return dict(vars(kind))


def item_of_class(session: Session, table: Any, key: Any, get: Callable[[Any, Any], Any]) -> Any:
    """Return ``vars(kind)[key]``, or what another way of reading an item gives."""
    kind = session.places.class_tables[id(table)][1]
    if isinstance(key, str) and key in table:
        if kind is None:
            session.outside.read(ItemPlace(table, key))
        else:
            read_classes(session, (kind,), key)
    return get(table, key)


def look_into(session: Session, values: Iterable[Any]) -> None:
    """Note that code may look at all of some values: what is in a class is guarded then."""
    for value in values:
        if id(value) in session.places.class_tables:
            table, kind = session.places.class_tables[id(value)]
            if kind is not None:
                read_all(session, kind)
                continue
            for name in [name for name in table if not (name[:2] == name[-2:] == "__")]:
                session.outside.read(ItemPlace(table, name))


def call_of_class(session: Session, table: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Return a method of ``vars(kind)``."""
    if name == "get" and not kwargs:
        return item_of_class(session, table, args[0], lambda table, key: table.get(key, *args[1:]))
    if name != "keys":
        look_into(session, (table,))
    return session.call(getattr(dict(table), name), *args, **kwargs)


def _as_it_was(session: Session, owner: Any, table: dict[str, Any]) -> dict[str, Any]:
    """Return what the dict held when the program was called."""
    results = dict(table)
    for entry in session.blocks.entries():
        place = entry.place
        if not isinstance(place, AttributePlace) or place.owner is not owner:
            continue
        names = entry.names[0] if entry.names else ()
        if entry.raw is MISSING or (names and place.name not in names):
            results.pop(place.name, None)
        else:
            results[place.name] = entry.raw
            kept = {name: results.pop(name) for name in names if name in results}
            results = {**kept, **results}
    return results


def holder(session: Session, value: Any) -> Any:
    """Return the object whose attributes an object has: itself, or the first that was met of those that share a dict."""
    table = storage.table_of(value)
    if table is None or table is value or isinstance(value, (torch.Tensor, types.ModuleType)):
        return value
    first = session.places.tables.setdefault(id(table), (table, value))[1]
    if first is value:
        return value
    one, other = session.tracker.source_of(first), session.tracker.source_of(value)
    if one is not None and other is not None:
        step = session.tracker.table.attribute
        session.tracker.guards.same_object(step(other, "__dict__"), step(one, "__dict__"))
    return first


def item(session: Session, table: dict[str, Any], key: Any) -> Any:
    """Return ``vars(obj)[key]``."""
    result = table[key]
    if cells.are(result):
        return cells.read(session, result)
    return unions.certain(_as_key(result, key)) if may_be_undefined(result) else result


def put(session: Session, table: dict[str, Any], key: Any, value: Any) -> None:
    """Do ``vars(obj)[key] = value``."""
    owner = session.places.tables[id(table)][1]
    if isinstance(owner, torch.nn.Module) and key not in table and storage.own(owner, key) is not MISSING:
        raise errors.CaptureError(
            f"{key!r} is put into a dict of a module that has a parameter, buffer or submodule of that name in another one",
            session.here(),
            fix=f"delete the attribute first, or assign to it: module.{key} = ...",
        )
    if cells.are(table.get(key)):
        cells.write(session, table[key], value)
        return
    session.places.write(AttributePlace(owner, key))
    session.blocks.key_orders.write(table, key, unions.presence, unions.where_there)
    table[key] = value


def remove(session: Session, table: dict[str, Any], key: Any) -> None:
    """Do ``del vars(obj)[key]``."""
    item(session, table, key)
    session.places.write(AttributePlace(session.places.tables[id(table)][1], key))
    del table[key]
    session.blocks.key_orders.taken_out(table, key)


def call(session: Session, table: dict[str, Any], name: str, args: Any, kwargs: Any) -> Any:
    """Return a method that changes the dict: each attribute is written by itself."""
    before, after = dict(table), session.blocks.key_orders.follow(dict(table), table)
    session.allocations.own(after)
    result = session.call(getattr(after, name), *args, **kwargs)
    for key in [key for key in before if key not in after]:
        session.places.write(AttributePlace(session.places.tables[id(table)][1], key))
        del table[key]
        session.blocks.key_orders.taken_out(table, key)
    for key, value in after.items():
        if key not in before or before[key] is not value:
            put(session, table, key, value)
    return result


def replace(session: Session, owner: Any, table: Any) -> None:
    """Do ``obj.__dict__ = table``.

    Raises:
        CaptureError: others may hold the dict, or a tensor decides whether it gets there.
    """
    place = AttributePlace(owner, "__dict__")
    if session.tracker.source_of(table) is not None or (
        session.blocks.nesting > 1 and not session.allocations.is_inside(place, session.blocks.region)
    ):
        raise errors.CaptureError(
            "the __dict__ of an object is replaced by a dict from outside, or where a tensor decides",
            session.here(),
            fix="change what is in it: vars(obj).clear(), then vars(obj).update(...)",
        )
    for name in {**(storage.table_of(owner) or {}), **table}:
        session.places.write(AttributePlace(owner, name))
    session.places.write(place)
    owner.__dict__ = table
    session.places.tables[id(table)] = table, owner


def _as_key(value: Any, key: Any) -> Any:
    """Return an attribute that may not be there, in the words of an item that may not."""
    missing = Undefined("key", KeyError, (key,))
    if isinstance(value, Undefined):
        return missing
    assert isinstance(value, TaggedUnion)
    options = {tag: missing if isinstance(option, Undefined) else option for tag, option in value.options.items()}
    return TaggedUnion(value.session, value.tag, options)
