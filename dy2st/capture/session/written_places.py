"""What the captured code writes: variables, attributes and items, and what their writing makes of other places."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.recording.position import Position
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.blocks import Blocks
from dy2st.capture.session.key_order import OrderPlace, RankPlace
from dy2st.capture.session.outside import Outside
from dy2st.capture.session.regions import Region
from dy2st.capture.types import tensor_traits
from dy2st.capture.types.traits import Traits
from dy2st.capture.values import storage
from dy2st.capture.values.dict_views import Views
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import CAPTURE_VALUES, Stale, Undefined, may_be_undefined, options_of
from dy2st.capture.writes.copies import Copies
from dy2st.capture.writes.places import AttributePlace, CellPlace, ContentsPlace, ItemPlace, Place
from dy2st.capture.writes.undo_log import Entry, UndoLog, Write
from dy2st.errors import CaptureError
from dy2st_runtime.ir.flattening import attributes
from dy2st_runtime.ir.program import Location

ACTS_FOR_USER = False


class WrittenPlaces:
    """The writes of one capture.

    Args:
        position: where the capture is in the user's code.
        blocks: those that are open; each notes what it writes.
        allocations: when objects were made.
        outside: the state from outside.
        traits: what is told apart.

    Attributes:
        copies: copies that Python has made of containers, which must not be changed.
        views: views of dicts that are in use.
        written_at: the user's line that first wrote a place, by its key.
        tables: the dicts of objects' attributes that the code has asked for, by their identity, with the objects.
        class_tables: the same of classes: the views of their dicts, which Python makes anew each time; and the dicts of modules.
        tagged: the tensors to which the code has given attributes, by their identity, with the names.
        changes: how often something was written, or put back, by now; variables are written without it.
    """

    def __init__(self, position: Position, blocks: Blocks, allocations: Allocations, outside: Outside, traits: Traits) -> None:
        self._position, self._blocks, self._allocations, self._outside = position, blocks, allocations, outside
        self._traits, self._may_alias, self._key_orders = traits, blocks.may_alias, blocks.key_orders
        self.copies = Copies(lambda: blocks.builder)
        self.views = Views()
        self.written_at: dict[tuple[Any, ...], Location | None] = {}
        self.tables: dict[int, tuple[dict[str, Any], Any]] = {}
        self.class_tables: dict[int, tuple[Any, type | None]] = {}
        self.tagged: dict[int, tuple[torch.Tensor, list[str]]] = {}
        self.changes = 0
        blocks.on_undo.append(self._count)

    def is_local(self, place: Place) -> bool:
        """Tell whether a place is a variable that exists during the capture only."""
        return isinstance(place, CellPlace) and id(place.cell) not in self._outside.cells

    def _count(self, region: Region) -> None:
        self.changes += 1

    def _is_outside(self, place: Place) -> bool:
        """Tell whether other threads may see what is written to a place."""
        if isinstance(place, CellPlace):
            return id(place.cell) in self._outside.cells
        return id(place.owner) not in self._allocations.created and self._allocations.allocated_at(place.owner) is None

    def write(self, place: Place) -> None:
        """Note a place that is about to be written."""
        self.changes += 1
        if not isinstance(place, (CellPlace, AttributePlace)) and id(place.owner) in self.tables:
            owner = self.tables[id(place.owner)][1]
            for name in [place.item] if isinstance(place, ItemPlace) else list(place.owner):
                self.write(AttributePlace(owner, name))
            return
        if isinstance(place, AttributePlace) and isinstance(place.owner, torch.Tensor):
            since = self._blocks.made_at(place.owner)
            if since is not None:
                self._allocations.own(place.owner, since)
        if self._is_outside(place):
            CAPTURE_LOCK.go_alone()
        if not isinstance(place, CellPlace):
            self._write_object(place)
        if self._blocks.nesting > 1 or not isinstance(place, AttributePlace) or self._outside.is_carried(place):
            self._outside.read(place)  # at the root, an attribute is overwritten in any case
        if place.key not in self.written_at:
            self.written_at[place.key] = self._position.locate()
        if not self._allocations.is_inside(place, self._blocks.region):
            self._blocks.region.undo_log.note(place)

    def write_at_root(self, place: ContentsPlace) -> None:
        """Note that something stands for what is in a list from outside, which no block has looked at before."""
        self.changes += 1
        CAPTURE_LOCK.go_alone()
        self.written_at.setdefault(place.key, self._position.locate())
        self._blocks.root.undo_log.note(place)

    def _write_object(self, place: Any) -> None:
        """Note that an object is about to change, which others may stand for."""
        sites = self._allocations.sites.get(id(place.owner), (None, ()))[1]
        self.copies.check(place, place.owner, self._position.here(), self._traits.apart, sites)
        if self._blocks.nesting > 1:
            self._outside.check_changed(place.owner)
        for other in self._may_alias.take(place.owner):
            self._outdate(other)
        self._key_orders.begin(place)

    def _outdate(self, other: Any) -> None:
        """Note that nobody may use what is in an object any more: it may be one that is changed now."""
        stale = Stale(
            None,
            f"a {type(other).__name__} that may be the same object as one that is changed here is used afterwards",
            "make a copy before the loop: list(items), dict(table)",
            None if tensor_traits.IDENTITY in self._traits.apart else NeedsApart(tensor_traits.IDENTITY),
        )
        if isinstance(other, (list, dict)):
            self.write(ContentsPlace(other))
            base = storage.base_of(other)
            for key in [*storage.keys_of(other)] if isinstance(other, dict) else range(base.__len__(other)):
                base.__setitem__(other, key, stale)
            return
        for name in attributes(other):
            self.write(AttributePlace(other, name))
            storage.keep(other, name, stale)

    def tell_apart(self, value: Any, others: Iterable[Any]) -> None:
        """Somebody asks whether a value is one of others.

        Raises:
            NeedsApart: a loop carries it, and it may be that one where there was no iteration, or where some iteration made it so.
            CaptureError: the loop does not tell that in any case.
        """
        if not self._may_alias.are_any:
            return
        known = {id(other) for other in others if other is not value}
        is_apart = tensor_traits.IDENTITY in self._traits.apart
        if not any(id(other) in known for option in options_of(value) for other in self._may_alias.may_be(option, is_apart)):
            return
        if not is_apart:
            raise NeedsApart(tensor_traits.IDENTITY)
        raise CaptureError(
            f"whether a {type(next(iter(options_of(value)))).__name__} that a loop leaves in two places is one object depends on "
            "what its iterations did",
            self._position.here(),
            fix="keep a copy in one of the places: best = list(items), best = dict(table)",
        )

    def rely_on_unchanged(self, undo_log: UndoLog) -> None:
        """Do what is written where it was already is no effect, as long as it is there when the program is called."""
        for entry in undo_log.unchanged():
            source = self._outside.source_of(entry.place)
            if source is not None and not isinstance(entry.seen, CAPTURE_VALUES) and entry.seen is not MISSING:
                self._outside.tracker.read(self._outside.real(entry.seen), source)

    def of(self, region: Region) -> dict[tuple[Any, ...], Write]:
        """Return what a block has written by now."""
        writes = region.undo_log.writes(ordered=False)
        for key, write in writes.items():
            if key in region.undo_log.entries:
                self._check_same_table(region, region.undo_log.entries[key], write)
        is_new = functools.partial(self._allocations.is_since, region.start)
        return self._key_orders.writes(region.orders, writes, region.undo_log, is_new)

    def _check_same_table(self, region: Region, entry: Entry, write: Write) -> None:
        """Refuse a block that has a module keep an attribute in another table than where it was."""
        place, now = entry.place, write.place
        if not isinstance(place, AttributePlace) or not isinstance(now, AttributePlace):
            return
        stays = region.repeats and entry.has_moved and not storage.may_register(write.new)
        if (place.table == "__dict__") is (now.table == "__dict__") and not stays:
            return
        if write.old is not MISSING and write.new is not MISSING:
            raise CaptureError(
                f"a tensor decides whether a module registers {now.name!r}, or keeps it in its __dict__",
                self._position.here(),
                fix="register it in __init__, or write to module.__dict__ in both cases",
            )

    def put(self, place: Place, value: Any) -> None:
        """Write what a control-flow statement leaves in a place; what is not bound does not exist there, save for a variable."""
        if isinstance(place, (OrderPlace, RankPlace)):
            self.views.check(place.owner, self._position.here())
            place.write(value)
            return
        if isinstance(place, ItemPlace) and may_be_undefined(value):
            self.views.check(place.owner, self._position.here())
        self.write(place)
        if isinstance(value, Undefined) and not isinstance(place, CellPlace):
            self.take_out(place, value)
        else:
            self._keep(place, value)

    def _keep(self, place: Place, value: Any) -> None:
        """Write what stands for one of several values.

        Raises:
            CaptureError: Python looks at what is written there.
        """
        try:
            place.write(value)
        except (TypeError, errors.DataDependentError):
            raise CaptureError(
                f"{place} is one of several values where a tensor decides, which Python does not keep there",
                self._position.here(),
                fix="write it in the branch that uses it, or make the whole object there",
            ) from None

    def take_out(self, place: Place, mark: Undefined) -> None:
        """Take out what a place holds. In a branch, a marker keeps the place of an item in the order of the keys."""
        in_order = isinstance(place, ItemPlace) and isinstance(place.owner, dict) and not storage.is_namespace(place.owner)
        stays = in_order and self._blocks.nesting > 1 and not self._allocations.is_inside(place, self._blocks.region)
        if stays and not isinstance(place, CellPlace):
            self.views.check(place.owner, self._position.here())
        place.write(mark if stays else MISSING)
