"""The effects of a program: what it writes to objects from outside, and how."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import CellType, ModuleType
from typing import Any

from dy2st.capture.environment.sources import Source
from dy2st.capture.operators import identities
from dy2st.capture.outputs.description import Describer, items_of
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractSet
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, Undefined
from dy2st.capture.writes import orders
from dy2st.capture.writes.places import AttributePlace, CellPlace, ContentsPlace, ItemPlace, Place, RankedOrder
from dy2st.capture.writes.undo_log import Write
from dy2st_runtime.ir.flattening import attributes, is_followed
from dy2st_runtime.ir.program import Effect, Location
from dy2st_runtime.ir.structure import Const

DEEP = 4
"""How deep containers are nested in which numbers may differ from call to call."""


@dataclasses.dataclass(frozen=True)
class Writer:
    """How one effect of a program reaches the object it changes.

    Attributes:
        owner: gives the object, from the values of the sources.
        place: makes the place to write from the object.
        written: the type of what is written; ``None`` for a deletion.
        source: where the object comes from, if it comes from outside.
        location: the user's line that first writes there.
        is_item: whether it writes what is in a list that may be an item of another list of the program.
    """

    owner: Callable[[Sequence[Any]], Any]
    place: Callable[[Any], Place]
    written: value_types.Type | None
    source: Source | None
    location: Location | None
    is_item: bool = False


def effects_of(session: Session, writes: Sequence[Write], describer: Describer) -> tuple[list[Effect], list[Writer], list[str]]:
    effects: list[Effect] = []
    writers: list[Writer] = []
    written: list[str] = []
    for write in writes:
        place = write.place
        owner = place.cell if isinstance(place, CellPlace) else place.owner
        if isinstance(place, ItemPlace):
            identities.check_left(session, (place.item,))
        source = session.tracker.source_of(owner)
        _stay_distinct(session, owner, source)
        name = _place_name(place, source)
        where = session.places.written_at.get(place.key)
        with session.position.located(where) if where is not None else contextlib.nullcontext():
            effects.append(_effect(session, write, name, describer))
        writers.append(_writer(session, write, owner, source))
        written.append(name)
        written += _names_within(name, write.new)
    return effects, writers, written


def _names_within(name: str, value: Any, depth: int = DEEP) -> Iterator[str]:
    """Yield the names of the sources that lead into a value that is written, as the next call finds them."""
    if isinstance(value, TaggedUnion):
        for option in value.options.values():
            yield from _names_within(name, option, depth)
        return
    if isinstance(value, dict):
        parts = {f"{name}[{storage.shown_key(key)}]": item for key, item in storage.plain(value).items()}
    elif isinstance(value, (list, tuple)):
        parts = {f"{name}[{key}]": item for key, item in enumerate(value)}
    elif is_followed(value):
        parts = {f"{name}.{key}": item for key, item in attributes(value).items()}
    else:
        return
    for step, item in parts.items():
        yield step
        if depth:
            yield from _names_within(step, item, depth - 1)


def _stay_distinct(session: Session, owner: Any, source: Source | None) -> None:
    """Note that the program is right as long as no other object from outside comes to be one that it writes to."""
    if source is None or isinstance(owner, (CellType, ModuleType)):
        return
    relatives = session.tracker.relatives(owner)
    if relatives:
        session.tracker.guards.distinct(source, relatives)


def _place_name(place: Place, source: Source | None) -> str:
    """Return the place as its source is named, if the program can read it back from there."""
    if source is None or (isinstance(place, ItemPlace) and source.name == "globals()"):
        return str(place.item) if isinstance(place, ItemPlace) and source is not None else str(place)
    match place:
        case AttributePlace(_, name):
            return f"{source.name}.{name}"
        case ItemPlace(_, key):
            return f"{source.name}[{storage.shown_key(key)}]"
        case _:
            return source.name


def _effect(session: Session, write: Write, name: str, describer: Describer) -> Effect:
    if write.new is MISSING or isinstance(write.new, Undefined):
        return Effect(name, "delete", Const(None))
    new, kind = write.new, "set"
    if isinstance(write.place, ItemPlace):
        describer.check_keys([write.place.item], f"writes to {name}")
    elif isinstance(write.place, ContentsPlace) and isinstance(write.place.owner, (set, AbstractSet)):
        members = new.table if isinstance(new, AbstractSet) else new
        describer.check_keys([item for item in members if id(item) in session.outside.arguments], f"writes to {name}")
    if isinstance(write.place, ContentsPlace):
        new = session.lists.of(write.place.owner) or new
        kind = "extend" if isinstance(new, RuntimeList) and new.is_appended else kind
    if isinstance(new, TaggedUnion):
        new = TaggedUnion(
            session, new.tag, {tag: MISSING if isinstance(option, Undefined) else option for tag, option in new.options.items()}
        )
    if isinstance(write.place, ContentsPlace) and (isinstance(new, AbstractSet) or new is write.place.owner):
        new = items_of(session, new) if isinstance(new, dict) else new
        return Effect(name, kind, describer.described(new, f"writes to {name}"))
    if isinstance(write.place, ContentsPlace) and isinstance(new, list):
        same = len(new) >= len(write.old) and all(a is b for a, b in zip(write.old, new))
        if same and session.tracker.source_of(write.place.owner) is None:
            new, kind = new[len(write.old) :], "extend"
    return Effect(name, kind, describer.describe(new, f"writes to {name}"))


def _writer(session: Session, write: Write, owner: Any, source: Source | None) -> Writer:
    if source is None:
        get: Callable[[Sequence[Any]], Any] = lambda values: owner  # noqa: E731
    else:
        index = source.index
        get = lambda values: values[index]  # noqa: E731
    place = write.place
    known = session.lists.of(place.owner if isinstance(place, ContentsPlace) else write.new)
    new = known or write.new
    written = None if new is MISSING or isinstance(new, Undefined) else _type_of(new)
    if isinstance(written, value_types.SameType) and session.tracker.source_of(written.value) is not None:
        written = value_types.held_weakly(written)
    is_item = isinstance(place, ContentsPlace) and known is not None and bool(known.places)
    return Writer(get, _place_in(place), written, source, session.places.written_at.get(place.key), is_item)


def _type_of(new: Any) -> value_types.Type:
    """Return the type of what is written; a container that holds itself is what it is."""
    try:
        return lattice.type_of(new)
    except mismatches.HoldsItselfMismatch:
        return value_types.SameType(new)


def _place_in(place: Place) -> Callable[[Any], Any]:
    match place:
        case AttributePlace(_, name, table):
            return lambda target: AttributePlace(target, name, table)
        case ItemPlace(_, item):
            return lambda target: ItemPlace(target, item)
        case ContentsPlace():
            return ContentsPlace
        case orders.LastPlace():
            return orders.LastPlace
        case RankedOrder():
            return RankedOrder
        case _:
            return lambda target: place
