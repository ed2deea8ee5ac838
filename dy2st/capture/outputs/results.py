"""What a program leaves: its result, and what it writes outside.

A container that the results hold more than once, or that comes from outside, is one object at each call, as in Python.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

import torch

from dy2st import errors
from dy2st.capture.attributes import tensor_attributes
from dy2st.capture.attributes.tensor_attributes import Marks
from dy2st.capture.containers import originals
from dy2st.capture.objects import cells, made_functions
from dy2st.capture.outputs.description import Describer
from dy2st.capture.outputs.effects import Writer, effects_of
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.signals import NeedsRanks
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import may_be_undefined
from dy2st.capture.writes import orders
from dy2st.capture.writes.gradient_slots import GradientSlot
from dy2st.capture.writes.places import AttributePlace, CellPlace, ContentsPlace, ItemPlace, Place, RankedOrder
from dy2st.capture.writes.undo_log import UndoLog, Write
from dy2st_runtime.ir.program import Effect
from dy2st_runtime.ir.structure import Leaf, Structure
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.primitives.cells import open_

_MOST_OPTIONAL = 3
"""Keys that a dict may have or not, of which it is written once for each set."""


@dataclasses.dataclass(frozen=True)
class Written:
    """What is written outside.

    Attributes:
        effects: how what is written is made of the outputs.
        writers: one for each effect.
        existing: for the numbers of containers that come from outside, the index of the source.
        with_cells: the positions of lists in the outputs whose objects have cells still; a program opens them at its end.
    """

    effects: Sequence[Effect]
    writers: Sequence[Writer]
    existing: Mapping[int, int]
    with_cells: Sequence[int] = ()

    def known(self, values: Sequence[Any]) -> dict[int, Any]:
        """Return the containers that are there already, from the values of the sources."""
        return {number: values[index] for number, index in self.existing.items()}

    @functools.cached_property
    def _items(self) -> list[tuple[int, Writer]]:
        """The writers of lists that may be items of lists of the program, with the position of what they write."""
        pairs = zip(self.effects, self.writers)
        return [(effect.value.index, writer) for effect, writer in pairs if writer.is_item and isinstance(effect.value, Leaf)]

    def write(self, values: Sequence[Any], outputs: Sequence[Any], results: dict[int, Any]) -> Sequence[Any]:
        """Write it, given the values of the sources and the containers that are there; gives the outputs as they are outside."""
        for position in self.with_cells:
            open_(outputs[position])
        if self._items:
            outputs = originals.restored(outputs, {position: writer.owner(values) for position, writer in self._items})
        for effect, writer in zip(self.effects, self.writers):
            place = writer.place(writer.owner(values))
            new = unflatten(effect.value, outputs, results)
            if effect.kind == "delete":
                place.write(MISSING)
            elif effect.kind == "extend":
                place.owner.extend(new)  # type: ignore[union-attr]
            else:
                place.write(new)
        return outputs


@dataclasses.dataclass(frozen=True)
class Results:
    """What a program leaves.

    Attributes:
        structure: how the result is made of the outputs.
        outputs: of the root block.
        effects: what it writes outside.
        writers: one for each effect.
        written: names of the sources that it writes.
        existing: for the numbers of containers that come from outside, the index of the source.
        marks: what Python knows of outputs that the program makes, by position.
    """

    structure: Structure
    outputs: tuple[Any, ...]
    effects: tuple[Effect, ...]
    writers: list[Writer]
    written: frozenset[str]
    existing: dict[int, int]
    marks: dict[int, Marks]


def of(session: Session, result: Any) -> Results:
    """Return everything that the captured function leaves, given what it returns."""
    describer = Describer(session)
    structure = describer.describe(result, "returns")
    session.places.rely_on_unchanged(session.blocks.region.undo_log)
    effects, writers, written = effects_of(session, outside(session, session.blocks.region.undo_log), describer)
    for position in describer.with_cells:
        cells.leave(session, describer.outputs[position])
    plain = describer.simplified
    return Results(
        plain(structure),
        tuple(describer.outputs),
        tuple(dataclasses.replace(effect, value=plain(effect.value)) for effect in effects),
        writers,
        frozenset(written),
        describer.existing,
        tensor_attributes.marks_of(session, describer.outputs),
    )


def until_now(session: Session) -> tuple[Written, tuple[Any, ...], list[Write]]:
    """Return what has been written outside, by the blocks around too, the outputs that it is made of, and what cannot be
    described.
    """
    describer = Describer(session, is_record=True)
    effects: list[Effect] = []
    writers: list[Writer] = []
    lost: list[Write] = []
    known = session.blocks.key_orders.mark()
    for write in outside(session, session.blocks.undo_log_until_now()):
        try:
            told = dataclasses.replace(write, new=session.carried.told(write.new))
            effect, writer, _ = effects_of(session, [told], describer)
        except (errors.CaptureError, NeedsRanks):
            lost.append(write)
        else:
            effects += effect
            writers += writer
    session.blocks.key_orders.undo(known, lambda table: False)  # of copies that nobody but the describer has: no block writes them
    plain = [dataclasses.replace(effect, value=describer.simplified(effect.value)) for effect in effects]
    return Written(plain, writers, describer.existing, describer.with_cells), tuple(describer.outputs), lost


def outside(session: Session, undo_log: UndoLog) -> list[Write]:
    """Return the writes to places that exist before and after the call."""
    results: dict[tuple[Any, ...], Write] = {}
    writes = undo_log.writes()
    keys = _keys_of(writes.values())
    for write in writes.values():
        if _is_inside(session, write.place) or _is_of_abstract(session, write.place) or _is_in_new_table(writes, write.place):
            continue
        if not isinstance(write.place, CellPlace) and isinstance(write.place.owner, GradientSlot):
            continue  # the program writes the tensor itself
        members = None if isinstance(write.place, CellPlace) else session.outside.set_of(write.place.owner)
        if members is not None:
            write = Write(ContentsPlace(members), None, members)
        if isinstance(write.place, (ItemPlace, ContentsPlace)) and session.blocks.key_orders.is_reordered(
            write.place.owner, keys.get(id(write.place.owner), ())
        ):
            order = _ranked(session, write.place)
            if order is not None:
                results[order.place.key] = order
            else:
                write = Write(ContentsPlace(write.place.owner), None, write.place.owner)  # its keys have to come in their order
        results[write.place.key] = write
    for _, met, _ in session.outside.tables_met:
        results[ContentsPlace(met).key] = Write(ContentsPlace(met), None, met)
    for table in session.blocks.key_orders.tables():  # of which the keys may have changed places only
        place = ContentsPlace(table)
        if session.tracker.source_of(table) is not None and not _is_inside(session, place):
            order = _ranked(session, place)
            written = Write(place, None, table) if order is None else order
            results.setdefault(written.place.key, written)
    orders_last = sorted(results.values(), key=lambda write: isinstance(write.place, RankedOrder))
    return [*orders_last, *_last(session, results.values())]


def _keys_of(writes: Iterable[Write]) -> dict[int, list[Any]]:
    """Return the keys that are written, in order, by the identity of the dict."""
    keys: dict[int, list[Any]] = {}
    for write in writes:
        if isinstance(write.place, ItemPlace):
            keys.setdefault(id(write.place.owner), []).append(write.place.item)
    return keys


def _ranked(session: Session, place: ItemPlace | ContentsPlace) -> Write | None:
    """Return what puts the keys of a dict from outside in order once its items are written, if that is better than to write it for
    each order and each set of keys that it may have.

    Raises:
        NeedsRanks: the capture has to know the ranks of the keys.
    """
    table, key_orders = place.owner, session.blocks.key_orders
    if not isinstance(table, dict) or session.tracker.source_of(table) is None:
        return None
    is_open = sum(map(may_be_undefined, storage.plain(table).values())) > _MOST_OPTIONAL
    if not is_open and not orders.is_unknown(key_orders.of(table)):
        return None
    if not key_orders.are_ranked:
        raise NeedsRanks
    return Write(cast(Place, RankedOrder(table)), None, dict(key_orders.ranks_now(table).of))


def _last(session: Session, writes: Iterable[Write]) -> Iterator[Write]:
    """Yield the attributes of objects from outside that come last, where writing them does not give their order."""
    for owner, order in session.blocks.key_orders.last(writes):
        place: Any = orders.LastPlace(owner)
        if session.tracker.source_of(owner) is not None and not _is_inside(session, place):
            session.blocks.key_orders.check_order(order, session.here(), orders.is_unknown)
            yield Write(place, None, orders.moved(order))


def _is_in_new_table(writes: Mapping[tuple[Any, ...], Write], place: Place) -> bool:
    """Tell whether a place is an attribute of an object whose attributes are replaced as a whole."""
    return isinstance(place, AttributePlace) and place.name != "__dict__" and AttributePlace(place.owner, "__dict__").key in writes


def _is_of_abstract(session: Session, place: Place) -> bool:
    """Tell whether a place is an attribute of a tensor that the program makes."""
    return isinstance(place, AttributePlace) and isinstance(place.owner, torch.Tensor) and session.fakes.is_abstract(place.owner)


def _is_inside(session: Session, place: Place) -> bool:
    owner = place.cell if isinstance(place, CellPlace) else place.owner
    if isinstance(owner, FunctionType) and made_functions.is_recreated(session, owner):
        return True
    return (
        session.places.is_local(place)
        or id(owner) in session.allocations.created
        or (isinstance(place, ItemPlace) and isinstance(owner, list))
    )
