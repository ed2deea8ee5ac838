"""The blocks that one capture has open: branches, loop bodies, attempts and rests, each of which can be undone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st import errors
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.in_flight import InFlight
from dy2st.capture.recording.position import Position
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.iterators import Iterators
from dy2st.capture.session.key_order import KeyOrders
from dy2st.capture.session.regions import Region, RegionT, Rest
from dy2st.capture.values.signals import NeedsMade, NeedsRuntimeList, Refused
from dy2st.capture.writes.may_alias import MayAlias
from dy2st.capture.writes.places import CellPlace, ItemPlace, Place
from dy2st.capture.writes.settings import ChangedSettings
from dy2st.capture.writes.undo_log import Entry, UndoLog
from dy2st.errors import CaptureError
from dy2st_runtime.analyses.purity import may_fail

ACTS_FOR_USER = False


class Blocks:
    """The regions of one capture that are open, the root first.

    Args:
        position: where the capture is in the user's code.
        shapes: what is known of sizes, which a block may learn and its end forgets.
        allocations: when objects were made.
        in_flight: what an exception passes that leaves a block.
        iterators: those that a block which is taken back may have taken from.
        adopt: gives the abstract value of a real tensor.

    Attributes:
        may_alias: which objects may be one.
        key_orders: in which order the keys of dicts are.
        written_globals: global variables that the captured functions assign; each block may.
        on_begin: called with the variables that a new block may write.
        on_undo: called with each region that is undone.
        needed_lists: lists of blocks around the innermost one that had to be lists of the program in it.
    """

    def __init__(
        self,
        position: Position,
        shapes: CaptureShapes,
        allocations: Allocations,
        in_flight: InFlight,
        iterators: Iterators,
        settings: ChangedSettings,
        adopt: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self._position, self._shapes, self._allocations = position, shapes, allocations
        self._in_flight, self._iterators, self._settings, self._adopt = in_flight, iterators, settings, adopt
        self.may_alias = MayAlias()
        self.key_orders = KeyOrders()
        self.written_globals: dict[tuple[Any, ...], ItemPlace] = {}
        self.on_begin: list[Callable[[Sequence[Place]], None]] = []
        self.on_undo: list[Callable[[Region], None]] = []
        self.needed_lists: list[list[Any]] = []
        self._regions: list[Region] = []

    # -- which are open ------------------------------------------------------------------------------------------------------

    @property
    def region(self) -> Region:
        """The innermost region."""
        return self._regions[-1]

    @property
    def root(self) -> Region:
        """The region of the root block."""
        return self._regions[0]

    @property
    def builder(self) -> BlockBuilder:
        """The block that is recorded now."""
        return self._regions[-1].builder

    @property
    def nesting(self) -> int:
        """How many blocks and attempts are open."""
        return len(self._regions)

    @property
    def at_root(self) -> bool:
        """Whether the code that runs now runs at every call."""
        return self.builder.parent is None

    @property
    def is_in_loop(self) -> bool:
        """Whether the body of a loop is being recorded."""
        return any(region.repeats for region in self._regions)

    def is_open(self, region: Region) -> bool:
        """Tell whether a region is being recorded."""
        return region in self._regions

    def is_at(self, builder: BlockBuilder) -> bool:
        """Tell whether the code that runs now stands in a block, or in a rest of what is in it."""
        rests = [region.builder for region in self._regions if isinstance(region, Rest)]
        here = next((region.builder for region in reversed(self._regions) if region.builder not in rests), None)
        around = next((at for at, region in enumerate(self._regions) if region.builder is here), 0)
        return any(region.builder is builder for region in self._regions[around:])

    def has_rest(self, depth: int) -> bool:
        """Tell whether a rest is open that was not when so many blocks were."""
        return any(isinstance(region, Rest) for region in self._regions[depth:])

    def repeats_since(self, time: int) -> bool:
        """Tell whether the body of a loop has been begun since a time."""
        return any(region.repeats and region.start > time for region in self._regions)

    def is_of_block(self, time: int) -> bool:
        """Tell whether the block that is recorded now had been begun at a time."""
        return next(region.start for region in self._regions if region.builder is self.builder) <= time

    def is_older(self, value: Any, depth: int) -> bool:
        """Tell whether an object is seen to have been made before the blocks and attempts above a depth began."""
        allocated = self._allocations.allocated_at(value)
        return allocated is not None and len(self._regions) > depth and allocated < self._regions[depth].start

    def made_at(self, tensor: torch.Tensor) -> int | None:
        """Tell when a tensor that an operation of an open block gives was made: before what that block holds; else ``None``."""
        later: int | None = None
        for region in reversed(self._regions):
            if region.builder.knows(tensor) and not region.builder.is_operand(tensor):
                return self._allocations.now() if later is None else later
            later = region.start
        return None

    def outer_of(self, node: Any) -> Any:
        """Return the node of an outer block that an input stands for; ``None`` for a loop, whose iterations may write to it."""
        for region in self._regions:
            outer = next((outer for outer, inner in region.builder.operands.items() if inner is node), None)
            if outer is not None:
                return None if any(other.repeats and other.builder is region.builder for other in self._regions) else outer
        return None

    # -- what they have written ----------------------------------------------------------------------------------------------

    def undo_log_until_now(self) -> UndoLog:
        """Return what has been written by now, by all blocks that are open."""
        undo_log = UndoLog()
        for region in self._regions:
            undo_log.absorb(region.undo_log)
        return undo_log

    def places_written(self) -> Iterator[Place]:
        """Yield the places that have been written by now, by all blocks that are open."""
        seen = set()
        for region in self._regions:
            for key, entry in region.undo_log.entries.items():
                if key not in seen:
                    seen.add(key)
                    yield entry.place

    def was_written(self, key: tuple[Any, ...]) -> bool:
        """Tell whether the captured code has written a place, so that what it holds now is no value from outside."""
        keys = (key, ("contents", key[1])) if key[0] == "item" else (key,)  # a method of the container may have put it there
        return any(key in region.undo_log.entries for region in self._regions for key in keys)

    def is_only_noted(self, cell: CellPlace) -> bool:
        """Tell whether blocks have noted a variable, as a function that they hold may write it, but nobody has."""
        held = cell.read()
        entries = [region.undo_log.entries[cell.key] for region in self._regions if cell.key in region.undo_log.entries]
        return all(entry.raw is held and entry.seen is held for entry in entries)

    def stand_at(self, place: Place, value: Any) -> None:
        """Have what stands for the content of a place from outside stand there from now on, when open blocks are undone too."""
        held = place.read()
        self.root.undo_log.abstract(place, value)
        for region in self._regions[1:]:
            region.undo_log.renew(place, held, value)

    def entries(self) -> Iterator[Entry]:
        """Yield what has been noted by the blocks that are open, the latest first."""
        for region in reversed(self._regions):
            yield from reversed(region.undo_log.entries.values())

    # -- beginning and ending ------------------------------------------------------------------------------------------------

    def begin_root(self) -> BlockBuilder:
        """Begin the block of the whole program."""
        root = self._new_builder(None)
        self._begin(Region, root)
        return root

    def undo_all(self) -> None:
        """Note that the capture is over.

        Undo what it wrote; an object that it has made, such as an exception, keeps what it was given.
        """
        while self._regions:  # attempts that an exception of the program has left open come before the root
            undo_log = self._regions.pop().undo_log
            undo_log.forget_if(self._is_own)
            undo_log.undo()
        self.key_orders.restore()

    def _is_own(self, place: Place) -> bool:
        return not isinstance(place, CellPlace) and id(place.owner) in self._allocations.created

    @contextlib.contextmanager
    def nested(self, cells: Sequence[Place], repeats: bool = False) -> Iterator[Region]:
        """Record a nested block; all it writes is undone at the end, all it learned forgotten."""
        for begin in self.on_begin:
            begin(cells)
        region = self._begin(Region, self._new_builder(self.builder), repeats, cells)
        self._note_variables(region)
        try:
            with self._finding_needed_lists(), self._same_modes(region):
                yield region
        except errors.Dy2stError:
            raise
        except Exception as error:
            self._check_not_caught(error)
            raise
        finally:
            self.close(region)

    @contextlib.contextmanager
    def _finding_needed_lists(self) -> Iterator[None]:
        """Begin again at the end of a block where lists of blocks around it had to be lists of the program.

        An exception in between may come of what these were not; it comes again if not.
        """
        before, self.needed_lists = self.needed_lists, []
        try:
            yield
            self.begin_again_if_needed()
        except NeedsMade:
            raise
        except NeedsRuntimeList as needed:
            found = [*self.needed_lists, *needed.lists]
            raise NeedsRuntimeList(*{id(items): items for items in found}.values()) from None
        except Exception:
            self.begin_again_if_needed()
            raise
        finally:
            self.needed_lists = before

    def begin_again_if_needed(self) -> None:
        """Begin again with more lists of the program where what has been captured had to have some.

        Raises:
            NeedsRuntimeList: it had.
        """
        if self.needed_lists:
            raise NeedsRuntimeList(*self.needed_lists)

    @contextlib.contextmanager
    def recording_into(self, builder: BlockBuilder) -> Iterator[None]:
        """Go on recording into a block that has been left."""
        around = self.region  # nothing is undone that was known when this began
        region = Region(
            self._allocations.now(), builder, UndoLog(), around.facts, self.may_alias.mark(), around.orders, repeats=False
        )
        self._regions.append(region)
        try:
            yield
        finally:
            self._regions.remove(region)

    def close(self, region: Region) -> None:
        """Undo a block; a second call does nothing."""
        if region not in self._regions:
            return
        while True:  # attempts inside that an exception has left open come first
            inner = self._regions.pop()
            inner.undo_log.undo()
            for undo in self.on_undo:
                undo(inner)
            self.may_alias.undo(inner.may_alias)
            self.key_orders.undo(inner.orders, functools.partial(self._allocations.is_since, inner.start))
            if inner is region:
                break
        self._shapes.forget_since(region.facts)

    def begin_attempt(self, cells: Sequence[Place]) -> tuple[Region, Any]:
        """Go on recording into the same block, with the possibility to take it back."""
        mark = self.builder.mark()
        region = self._begin(Region, self.builder, cells=cells)
        self._note_variables(region)
        return region, mark

    def commit(self, attempt: tuple[Region, Any]) -> None:
        """Keep what was done since :meth:`begin_attempt`."""
        region = attempt[0]
        position = self._regions.index(region)
        del self._regions[position]
        outer = self._regions[position - 1]
        region.undo_log.forget_if(lambda place: self._allocations.is_inside(place, outer))
        outer.undo_log.absorb(region.undo_log)
        outer.lists += region.lists
        outer.iterators += region.iterators

    def commit_above(self, depth: int) -> None:
        """Keep what was done in attempts that an exception has left open."""
        while self.nesting > depth:
            self.commit((self.region, None))

    def roll_back(self, attempt: tuple[Region, Any]) -> None:
        """Take back what was done since :meth:`begin_attempt`."""
        region, mark = attempt
        for iterator in region.iterators:
            self._iterators.spend(iterator)
        self.close(region)
        region.builder.rollback(mark)

    def open_rest(self, test: Any, cells: Sequence[Place]) -> None:
        """Go on in a block for the way on which no exception is on its way to a handler."""
        builder = self._new_builder(self.builder)
        places = [place for region in self._regions for place in region.cells]
        places += [place for step in self._in_flight.pending for place in getattr(step, "cells", ())]
        once = {place.key: place for place in (*places, *cells)}  # the rests around this one have those of the regions around them
        rest = self._begin(Rest, builder, False, [*once.values()])
        rest.test = test
        self._note_variables(rest)
        if isinstance(test, torch.SymBool):
            self._shapes.learn(test.node.expr)

    def _begin(self, kind: type[RegionT], builder: BlockBuilder, repeats: bool = False, cells: Sequence[Place] = ()) -> RegionT:
        orders, facts = self.key_orders.mark(), self._shapes.facts()
        region = kind(self._allocations.now(), builder, UndoLog(), facts, self.may_alias.mark(), orders, repeats, cells=cells)
        self._regions.append(region)
        return region

    def _note_variables(self, region: Region) -> None:
        for place in (*region.cells, *self.written_globals.values()):
            region.undo_log.note(place)

    def _new_builder(self, parent: BlockBuilder | None) -> BlockBuilder:
        return BlockBuilder(parent, self._position.locate, self._adopt, self._recorded)

    def _recorded(self, builder: BlockBuilder, node: fx.Node) -> None:
        before = self._in_flight.before_failing
        if before is None or builder is not self.builder or not may_fail(node):
            return
        self._in_flight.before_failing = None  # what it records fails no other way
        try:
            with builder.graph.inserting_before(node):
                before()
        finally:
            self._in_flight.before_failing = before

    @contextlib.contextmanager
    def _same_modes(self, region: Region) -> Iterator[None]:
        """Switch back what a block has switched; it must not stay so where only some ways go through the block."""
        before, settings = torch.is_grad_enabled(), self._settings.values()
        try:
            yield
            if region.is_dead:
                return
            if any(settings.get(name, self._settings.before[name]) != values for name, values in self._settings.values().items()):
                raise CaptureError(
                    "a setting of torch is changed where a tensor decides, and stays so after the branch or loop",
                    self._position.here(),
                    fix="change it before the branch or loop, or put it back at its end, as a context manager does",
                )
            if torch.is_grad_enabled() is not before:
                raise CaptureError(
                    "gradients are switched on or off where a tensor decides, and stay so after the branch or loop",
                    self._position.here(),
                    fix="write `with torch.no_grad():` around what is in one of the branches",
                )
        finally:
            set_grad_mode(before)
            self._settings.put_back(settings)

    def _check_not_caught(self, error: Exception) -> None:
        """Check an error that leaves a block which may not be entered at run time.

        No handler outside of it may take it for granted.
        """
        if any(step.catches(error) for step in self._in_flight.pending):
            raise Refused(
                CaptureError(
                    f"a {type(error).__name__} in a branch or loop would have to be caught by an except clause outside: {error}",
                    self._position.here(),
                    fix="put the try statement into the branch, or test the condition instead of catching",
                )
            ) from error


def set_grad_mode(on: bool) -> None:
    """Switch the mode back, without a record."""
    if torch.is_grad_enabled() is not on:
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(on)
