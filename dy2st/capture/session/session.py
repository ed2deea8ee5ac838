"""One capture: converted code runs once, on fake tensors, and leaves a program behind."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol

import sympy
import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from dy2st import errors, names
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.tracking import Tracker
from dy2st.capture.recording import failing
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.position import Position
from dy2st.capture.recording.recorder import Recorder, fresh_number, record_number
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.carried import Carried
from dy2st.capture.session.chosen_tuples import ChosenTuples
from dy2st.capture.session.function_mode import TorchFunctions
from dy2st.capture.session.key_order import KeyOrders, OrderPlace
from dy2st.capture.session.list_table import ListTable
from dy2st.capture.session.made_functions import Codes
from dy2st.capture.session.outside import Outside
from dy2st.capture.session.regions import Frame, Region, RegionT, Rest, Site
from dy2st.capture.types import lattice, tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.dict_views import Views
from dy2st.capture.values.signals import NeedsApart, Refused
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import (
    CAPTURE_VALUES,
    RuntimeList,
    RuntimeString,
    Stale,
    TaggedUnion,
    Undefined,
    is_mutable,
    may_be_undefined,
    options_of,
    unpack_list,
)
from dy2st.capture.writes.copies import Copies
from dy2st.capture.writes.may_alias import MayAlias
from dy2st.capture.writes.places import AttributePlace, CellPlace, ContentsPlace, ItemPlace, Place, cells_of
from dy2st.capture.writes.undo_log import Entry, UndoLog, Write
from dy2st.errors import CaptureError
from dy2st_runtime.analyses.purity import may_fail
from dy2st_runtime.ir.program import Location
from dy2st_runtime.ir.structure import attributes, children, follow
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False

_local = threading.local()
_PACKAGE = os.path.dirname(errors.__file__)


class Pending(Protocol):
    """What an exception passes on its way out of the captured code."""

    def catches(self, error: BaseException) -> bool: ...

    def keeps(self, place: CellPlace) -> bool: ...

    def unwind(self, session: Session, error: BaseException) -> Any: ...


class Session:
    """The state of one capture.

    Args:
        convert: gives the converted form of a user function, or ``None`` for one that is called as it is.
        call: the call operator.
        over: the operator that does something with each option of a tagged union.
        list_: the operator that turns a Python list into a list of the program.
        operators: the operator namespace of converted functions.
        name: the captured function's name, for messages.

    Attributes:
        builder: the block that is being recorded.
        tracker: sources and guards.
        sites: what became of each control-flow statement.
    """

    def __init__(
        self,
        convert: Callable[[FunctionType], Any],
        call: Callable[..., Any],
        over: Callable[[TaggedUnion, Callable[[Any], Any]], Any],
        list_: Callable[[Session, list[Any]], RuntimeList],
        operators: Any,
        name: str,
    ) -> None:
        self.convert, self.call_operator, self.over_operator = convert, call, over
        self.operators, self.name = operators, name
        self.code: CodeType | None = None
        """Of the captured function."""
        self.shapes = CaptureShapes()
        self.fake = FakeTensorMode(shape_env=self.shapes, allow_non_fake_inputs=True)
        self.recorder = Recorder(self)
        self.functions = TorchFunctions(self)
        self.position = Position()
        self.allocations = Allocations()
        self.lists = ListTable(self, list_)
        self.outside = Outside(self)
        self.tracker = Tracker(self.outside)
        self.sites: dict[tuple[str, int, str], Site] = {}
        self.unroll = sys.maxsize
        """How many iterations of a loop over a ``range`` are written out."""
        self.graph_is_partial = False
        """Whether abstract values have been made that autograd does not connect with what they were made from."""
        self.apart: frozenset[str] = frozenset()
        """The traits of tensors that are told apart (see tensor_traits.py)."""
        self.is_aligned: list[bool] = []
        """For the branches of transformer encoders: whether the padding is at the end."""
        self.has_mixed = False
        """Whether some tensors differ from way to way in such a trait."""
        self.asked_traits: set[str] = set()
        """Those that the code asks for: then the program is for inputs that have the same."""
        self.asks_strides = False
        self.asked: dict[str, Location | None] = {}
        """What the user's code asked about the mode of the call, with the line that asked first."""
        """Whether the code asks how a tensor lies in memory: then the program is for inputs that lie as these do."""
        self.before_raise: Callable[[], None] = lambda: None
        """Called before an operation that raises is recorded."""
        self.before_failing: Callable[[], None] | None = None
        """Called before an operation that may fail when the program runs, if the program has to record what was written by then."""
        self.has_written: Callable[[], bool] = lambda: False
        """Whether the program has written something outside by now that can be seen when it raises."""
        self.may_alias = MayAlias()
        self.copies = Copies()
        self.carried = Carried(self)
        self.tuples = ChosenTuples(self)
        self.codes = Codes()
        self.key_orders = KeyOrders()
        self.views = Views()
        self.tables: dict[int, tuple[dict[str, Any], Any]] = {}
        """The dicts of objects' attributes that the code has asked for, by their identity, with the objects."""
        self.tagged: dict[int, tuple[torch.Tensor, list[str]]] = {}
        """The tensors to which the code has given attributes, by their identity, with the names."""
        self.class_tables: dict[int, tuple[Any, type]] = {}
        """The same of classes: the views of their dicts, which Python makes anew each time."""
        self.written_globals: dict[tuple[Any, ...], ItemPlace] = {}
        """Global variables that the captured functions assign; each block may."""
        self.written_at: dict[tuple[Any, ...], Location | None] = {}
        """The user's line that first wrote a place, by its key."""
        self.taken: dict[int, tuple[Any, BlockBuilder | None]] = {}
        """Iterators with the block that took items from them last; ``None`` once nobody may (see iterators.py)."""
        self.generators: weakref.WeakSet[Any] = weakref.WeakSet()
        """The generators of the user's that are alive."""
        self.unclosed: list[CaptureError] = []
        """Errors for those that nobody could close."""
        self.frames: list[Frame] = []
        self.created: dict[int, Any] = {}
        self.followed: dict[int, Any] = {}
        """The objects of plain classes that the capture has made: containers of their attributes."""
        self.depth = 0
        self.pending: list[Pending] = []
        """The handlers, `finally` clauses and context managers that the captured code is in, outside first."""
        self.left = CellPlace(CellType(None), names.LEFT)
        """The exception that is on its way to a handler (see departures.py); ``None`` in code that runs."""
        self.departures: dict[tuple[Any, ...], Any] = {}
        """What stands for these exceptions, by where they are raised."""
        self.raised: list[BaseException] = []
        """What `raise` statements of the user's have raised."""
        self.handled_around = set(map(id, _handled()))
        """What the caller is handling: the next call may be made where nothing is handled."""
        self.chains: list[tuple[BaseException, int, dict[str, Any]]] = []
        """These, with when that was, and what they were raised behind before."""
        self.failed: tuple[BaseException, Any, Any, Any] | None = None
        """The last operation of torch that failed on abstract values: its error, function and arguments."""
        self.shared_cells: set[int] = {id(self.left.cell)}
        """Variables that a nested function of the user's writes; whoever assigns them, they are always live."""
        self.input_sizes: dict[sympy.Basic, tuple[int, int]] = {}
        """For the symbols of dynamic sizes of the arguments: the leaf and the dimension."""
        self.size_conditions: list[sympy.Basic] = []
        self._checks: list[tuple[sympy.Basic, str]] = []
        self._regions: list[Region] = []
        self.shapes.on_assumption = self._assume

    def _recorded(self, builder: BlockBuilder, node: fx.Node) -> None:
        before = self.before_failing
        if before is None or builder is not self.builder or not may_fail(node):
            return
        self.before_failing = None  # what it records fails no other way
        try:
            with builder.graph.inserting_before(node):
                before()
        finally:
            self.before_failing = before

    # -- where we are ------------------------------------------------------------------------------------------------------

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
    def provenance(self) -> dict[int, Location]:
        """The user's lines that computed values, by the value's identity."""
        return self.builder.provenance

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as converted code does."""
        return self.call_operator(function, *args, **kwargs)

    def undo_log_until_now(self) -> UndoLog:
        """What has been written by now, by all blocks that are open."""
        undo_log = UndoLog()
        for region in self._regions:
            undo_log.absorb(region.undo_log)
        return undo_log

    def was_written(self, key: tuple[Any, ...]) -> bool:
        """Whether the captured code has written a place, so that what it holds now is no value from outside."""
        keys = (key, ("contents", key[1])) if key[0] == "item" else (key,)  # a method of the container may have put it there
        return any(key in region.undo_log.entries for region in self._regions for key in keys)

    def is_only_noted(self, cell: CellPlace) -> bool:
        """Whether blocks have noted a variable, as a function that they hold may write it, but nobody has."""
        held = cell.read()
        entries = [region.undo_log.entries[cell.key] for region in self._regions if cell.key in region.undo_log.entries]
        return all(entry.raw is held and entry.seen is held for entry in entries)

    def entries(self) -> Iterator[Entry]:
        """What has been noted by the blocks that are open, the latest first."""
        for region in reversed(self._regions):
            yield from reversed(region.undo_log.entries.values())

    def is_local(self, place: Place) -> bool:
        """Whether a place is a variable that exists during the capture only."""
        return isinstance(place, CellPlace) and id(place.cell) not in self.outside.cells

    def _is_own(self, place: Place) -> bool:
        """Whether a place is part of an object that the capture has made: an exception that leaves it keeps what it was given."""
        return not isinstance(place, CellPlace) and id(place.owner) in self.created

    def _is_outside(self, place: Place) -> bool:
        """Whether other threads may see what is written to a place."""
        if isinstance(place, CellPlace):
            return id(place.cell) in self.outside.cells
        return id(place.owner) not in self.created and self.allocations.born(place.owner) is None

    def is_abstract(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a fake one of this capture."""
        return getattr(tensor, "fake_mode", None) is self.fake

    @property
    def nesting(self) -> int:
        """How many blocks and attempts are open."""
        return len(self._regions)

    def is_older_than_blocks(self, value: Any, depth: int) -> bool:
        """Whether an object is seen to have been made before the blocks and attempts above a depth began."""
        born = self.allocations.born(value)
        return born is not None and len(self._regions) > depth and born < self._regions[depth].start

    @property
    def at_root(self) -> bool:
        """Whether the code that runs now runs at every call."""
        return self.builder.parent is None

    @contextlib.contextmanager
    def around(self, step: Pending) -> Iterator[None]:
        """An exception that leaves a block inside passes a step."""
        self.pending.append(step)
        try:
            yield
        finally:
            self.pending.pop()

    def here(self) -> errors.Location | None:
        """The user's line that runs now, for an error."""
        location = self.position.locate()
        return errors.Location(location.file, location.line, location.function) if location else None

    def site(self, construct: str, outcome: str, reason: str) -> None:
        """Report what became of the control-flow statement that runs now; "captured" once stays."""
        location = self.position.locate()
        if location is None:
            return
        key = (location.file, location.line, construct)
        known = self.sites.get(key)
        if known is None or known.outcome != "captured":
            self.sites[key] = Site(location, construct, outcome, reason)

    # -- modes and regions ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def active(self) -> Iterator[BlockBuilder]:
        """Everything inside is captured; gives the root block."""
        root = BlockBuilder(None, self.position.locate, self.outside.adopt, self._recorded)
        outer, _local.session = getattr(_local, "session", None), self
        grad = torch.is_grad_enabled()
        followed = follow(self.followed)
        try:
            with _no_saved_tensor_hooks(), self.fake, enable_python_dispatcher(), self.functions, self.recorder:
                self._push(root)
                try:
                    yield root
                finally:
                    for generator in [*self.generators]:
                        if generator.is_suspended:
                            generator.drop()
                    while self._regions:  # attempts that an exception of the program has left open come before the root
                        undo_log = self._regions.pop().undo_log
                        undo_log.forget_if(self._is_own)
                        undo_log.undo()
                    self.key_orders.restore()
        finally:
            _set_grad_mode(grad)  # what the function switches, its program switches when it runs
            _local.session = outer
            follow(followed)
            self.raised.clear()
            self.chains.clear()
            self.failed = None
            self.shapes.on_assumption = None  # torch's caches keep shape environments for a while, and must not keep the session

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Code inside runs as if there were no capture."""
        _local.session = None
        try:
            yield
        finally:
            _local.session = self

    def _push(self, builder: BlockBuilder, repeats: bool = False, cells: Sequence[Place] = ()) -> Region:
        return self._begun(Region, builder, repeats, cells)

    def _begun(self, kind: type[RegionT], builder: BlockBuilder, repeats: bool, cells: Sequence[Place]) -> RegionT:
        orders = self.key_orders.mark()
        region = kind(
            self.allocations.now(), builder, UndoLog(), self.shapes.facts(), self.may_alias.mark(), orders, repeats, cells=cells
        )
        self._regions.append(region)
        return region

    @contextlib.contextmanager
    def block(self, cells: Sequence[Place], repeats: bool = False) -> Iterator[Region]:
        """A nested block; all it writes is undone at the end, all it learned forgotten."""
        self.tuples.meet(cells)
        region = self._push(BlockBuilder(self.builder, self.position.locate, self.outside.adopt, self._recorded), repeats, cells)
        for place in (*cells, *self.written_globals.values()):
            region.undo_log.note(place)
        try:
            with self._same_grad_mode(self.here):
                yield region
        except errors.Dy2stError:
            raise
        except Exception as error:
            self._check_not_caught(error)
            raise
        finally:
            self.close_block(region)

    @contextlib.contextmanager
    def _same_grad_mode(self, here: Callable[[], errors.Location | None]) -> Iterator[None]:
        """What a block has switched is switched back, and must not stay so where only some ways go through the block."""
        before = torch.is_grad_enabled()
        try:
            yield
            if torch.is_grad_enabled() is not before:
                raise CaptureError(
                    "gradients are switched on or off where a tensor decides, and stay so after the branch or loop",
                    here(),
                    fix="write `with torch.no_grad():` around what is in one of the branches",
                )
        finally:
            _set_grad_mode(before)

    def _check_not_caught(self, error: Exception) -> None:
        """An error leaves a block that may not be entered at run time: no handler outside of it may take it for granted."""
        if any(step.catches(error) for step in self.pending):
            raise Refused(
                CaptureError(
                    f"a {type(error).__name__} in a branch or loop would have to be caught by an except clause outside: {error}",
                    self.here(),
                    fix="put the try statement into the branch, or test the condition instead of catching",
                )
            ) from error

    @contextlib.contextmanager
    def recording_into(self, builder: BlockBuilder) -> Iterator[None]:
        """Go on recording into a block that has been left."""
        region = self._push(builder)
        try:
            yield
        finally:
            self._regions.remove(region)

    def close_block(self, region: Region) -> None:
        """Undo a block; a second call does nothing."""
        if region not in self._regions:
            return
        while True:  # attempts inside that an exception has left open come first
            inner = self._regions.pop()
            inner.undo_log.undo()
            self.lists.forget(inner.lists)
            self.may_alias.undo(inner.may_alias)
            self.key_orders.undo(inner.orders, functools.partial(self._is_born_in, inner))
            if inner is region:
                break
        self.shapes.forget_since(region.facts)
        self._checks.clear()

    def begin_attempt(self, cells: Sequence[Place]) -> tuple[Region, Any]:
        """Go on recording into the same block, with the possibility to take it back."""
        mark = self.builder.mark()
        region = self._push(self.builder, cells=cells)
        for place in (*cells, *self.written_globals.values()):
            region.undo_log.note(place)
        return region, mark

    def commit(self, attempt: tuple[Region, Any]) -> None:
        """Keep what was done since :meth:`begin_attempt`."""
        region = attempt[0]
        position = self._regions.index(region)
        del self._regions[position]
        outer = self._regions[position - 1]
        region.undo_log.forget_if(lambda place: self.allocations.is_inside(place, outer))
        outer.undo_log.absorb(region.undo_log)
        outer.lists += region.lists
        outer.iterators += region.iterators

    def commit_above(self, depth: int) -> None:
        """Keep what was done in attempts that an exception has left open."""
        while self.nesting > depth:
            self.commit((self.region, None))

    def has_rest(self, depth: int) -> bool:
        """Whether a rest is open that was not when so many blocks were."""
        return any(isinstance(region, Rest) for region in self._regions[depth:])

    def open_rest(self, test: Any, cells: Sequence[Place]) -> None:
        """Go on in a block for the way on which no exception is on its way to a handler."""
        builder = BlockBuilder(self.builder, self.position.locate, self.outside.adopt, self._recorded)
        places = [place for region in self._regions for place in region.cells]
        places += [place for step in self.pending for place in getattr(step, "cells", ())]
        rest = self._begun(Rest, builder, False, [*places, *cells])
        rest.test = test
        for place in (*rest.cells, *self.written_globals.values()):
            rest.undo_log.note(place)
        if isinstance(test, torch.SymBool):
            self.shapes.learn(test.node.expr)

    def is_at(self, builder: BlockBuilder) -> bool:
        """Whether the code that runs now stands in a block, or in a rest of what is in it."""
        rests = [region.builder for region in self._regions if isinstance(region, Rest)]
        here = next((region.builder for region in reversed(self._regions) if region.builder not in rests), None)
        around = next((at for at, region in enumerate(self._regions) if region.builder is here), 0)
        return any(region.builder is builder for region in self._regions[around:])

    def roll_back(self, attempt: tuple[Region, Any]) -> None:
        """Take back what was done since :meth:`begin_attempt`."""
        region, mark = attempt
        for iterator in region.iterators:
            self.spend(iterator)
        self.close_block(region)
        region.builder.rollback(mark)

    def write(self, place: Place) -> None:
        """Note a place that is about to be written."""
        if not isinstance(place, (CellPlace, AttributePlace)) and id(place.owner) in self.tables:
            owner = self.tables[id(place.owner)][1]
            for name in [place.item] if isinstance(place, ItemPlace) else list(place.owner):
                self.write(AttributePlace(owner, name))
            return
        if self._is_outside(place):
            CAPTURE_LOCK.go_alone()
        if not isinstance(place, CellPlace):
            self.copies.check(place, place.owner, self.here(), self.apart)
            if len(self._regions) > 1:
                self.outside.check_changed(place.owner)
            for twin in self.may_alias.take(place.owner):
                self._outdate(twin)
            self.key_orders.begin(place)
        if len(self._regions) > 1 or not isinstance(place, AttributePlace) or self.outside.is_carried(place):
            self.outside.read(place)  # at the root, an attribute is overwritten in any case
        if place.key not in self.written_at:
            self.written_at[place.key] = self.position.locate()
        if not self.allocations.is_inside(place, self.region):
            self.region.undo_log.note(place)

    def note_question(self, what: str) -> None:
        """The user's code asks about the mode of the call."""
        if not self.position.asked_by_torch():
            self.asked.setdefault(what, self.position.locate())

    def rely_on_unchanged(self, undo_log: UndoLog) -> None:
        """What is written where it was already is no effect, as long as it is there when the program is called."""
        for entry in undo_log.unchanged():
            source = self.outside.source_of(entry.place)
            if source is not None and not isinstance(entry.seen, CAPTURE_VALUES) and entry.seen is not MISSING:
                self.tracker.read(self.outside.real(entry.seen), source)

    def _outdate(self, twin: Any) -> None:
        """Nobody may use what is in an object any more: it may be one that is changed now."""
        stale = Stale(
            None,
            f"a {type(twin).__name__} that may be the same object as one that is changed here is used afterwards",
            "make a copy before the loop: list(items), dict(table)",
            None if tensor_traits.IDENTITY in self.apart else NeedsApart(tensor_traits.IDENTITY),
        )
        if isinstance(twin, (list, dict)):
            self.write(ContentsPlace(twin))
            base = storage.base_of(twin)
            for key in [*storage.keys_of(twin)] if isinstance(twin, dict) else range(base.__len__(twin)):
                base.__setitem__(twin, key, stale)
            return
        for name in attributes(twin):
            self.write(AttributePlace(twin, name))
            storage.keep(twin, name, stale)

    def tell_apart(self, value: Any, others: Iterable[Any]) -> None:
        """Somebody asks whether a value is one of others.

        Raises:
            NeedsApart: a loop carries it, and it may be that one where there was no iteration, or where some iteration made it so.
            CaptureError: the loop does not tell that in any case.
        """
        if not self.may_alias.are_any:
            return
        known = {id(other) for other in others if other is not value}
        is_apart = tensor_traits.IDENTITY in self.apart
        if not any(id(twin) in known for option in options_of(value) for twin in self.may_alias.may_be(option, is_apart)):
            return
        if not is_apart:
            raise NeedsApart(tensor_traits.IDENTITY)
        raise CaptureError(
            f"whether a {type(next(iter(options_of(value)))).__name__} that a loop leaves in two places is one object depends on "
            "what its iterations did",
            self.here(),
            fix="keep a copy in one of the places: best = list(items), best = dict(table)",
        )

    def writes_of(self, region: Region) -> dict[tuple[Any, ...], Write]:
        """What a block has written by now."""
        writes = region.undo_log.writes(ordered=False)
        for key, write in writes.items():
            if key in region.undo_log.entries:
                self._check_same_table(region, region.undo_log.entries[key], write)
        return self.key_orders.writes(region.orders, writes, region.undo_log, functools.partial(self._is_born_in, region))

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
                self.here(),
                fix="register it in __init__, or write to module.__dict__ in both cases",
            )

    def _is_born_in(self, region: Region, table: Any) -> bool:
        born = self.allocations.born(table)
        return born is not None and born >= region.start

    def put(self, place: Place, value: Any) -> None:
        """Write what a control-flow statement leaves in a place; what is not bound does not exist there, save for a variable."""
        if isinstance(place, OrderPlace):
            self.views.check(place.owner, self.here())
            place.write(value)
            return
        if isinstance(place, ItemPlace) and may_be_undefined(value):
            self.views.check(place.owner, self.here())
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
            raise errors.CaptureError(
                f"{place} is one of several values where a tensor decides, which Python does not keep there",
                self.here(),
                fix="write it in the branch that uses it, or make the whole object there",
            ) from None

    def take_out(self, place: Place, mark: Undefined) -> None:
        """Take out what a place holds. In a branch, a marker keeps the place of an item in the order of the keys."""
        in_order = isinstance(place, ItemPlace) and isinstance(place.owner, dict) and not storage.is_namespace(place.owner)
        stays = in_order and len(self._regions) > 1 and not self.allocations.is_inside(place, self.region)
        if stays and not isinstance(place, CellPlace):
            self.views.check(place.owner, self.here())
        place.write(mark if stays else MISSING)

    def own_all(self, made: Any) -> None:
        """A value has been made now, with every container in it that does not come from outside."""
        if self.tracker.source_of(made) is not None:
            return
        parts = made.options.values() if isinstance(made, TaggedUnion) else (children(made) or ((),))[0]
        if isinstance(made, list):
            self.lists.own(made)
        elif parts or is_mutable(made):  # an empty one may be filled
            self.allocations.own(made)
        for part in parts:
            if self.allocations.born(part) is None:
                self.own_all(part)

    def is_new(self, value: Any) -> bool:
        """Whether a value is an object that the captured code has made."""
        return id(value) in self.created or (self.allocations.born(value) is not None and self.tracker.source_of(value) is None)

    def is_older(self, value: Any, time: int) -> bool:
        """Whether a value is a list, dict or dataclass that was there at a time: others may hold it; it is passed on as it is."""
        if not (is_mutable(value) or isinstance(value, list)):  # a list of a class of the user's has no parts
            return False
        born = self.allocations.born(value)
        return born <= time if born is not None else self.tracker.source_of(value) is not None

    def new_frame(self, function: FunctionType, written_globals: Sequence[Place]) -> Frame:
        """The frame of a converted function that is called now."""
        return Frame(self.allocations.now(), {id(cell) for cell in function.__closure__ or ()}, written_globals)

    def is_open(self, region: Region) -> bool:
        """Whether a region is being recorded."""
        return region in self._regions

    def repeats_since(self, time: int) -> bool:
        """Whether the body of a loop has been begun since a time."""
        return any(region.repeats and region.start > time for region in self._regions)

    @contextlib.contextmanager
    def frame(self, function: FunctionType, written_globals: Sequence[Place]) -> Iterator[None]:
        """A converted function runs inside; its own variables are made now."""
        self.codes.enter(function)
        self.frames.append(self.new_frame(function, written_globals))
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self.frames.pop()

    def cells_of(self, *functions: FunctionType) -> list[Place]:
        """The variables that block functions of the function that runs now share with the code around them."""
        frame = self.frames[-1]
        for function in functions:
            for cell in function.__closure__ or ():
                if id(cell) not in frame.outer_cells:
                    self.allocations.own(cell, since=frame.start)
        return [*cells_of(*functions), *frame.written_globals]

    def spend(self, iterator: Any) -> None:
        """A tensor decides what is left in an iterator: nobody may take from it any more."""
        held = _position(iterator)
        self.taken[id(held)] = (held, None)

    def is_spent(self, iterator: Any) -> bool:
        """Whether a tensor decides what is left in an iterator."""
        held = _position(iterator)
        return id(held) in self.taken and self.taken[id(held)][1] is None

    def is_dead(self, place: Place, live: Collection[str]) -> bool:
        """Whether a place is a local name that nobody reads afterwards."""
        if not isinstance(place, CellPlace) or place.name in live or id(place.cell) in self.shared_cells:
            return False
        return not any(step.keeps(place) for step in self.pending)

    # -- values --------------------------------------------------------------------------------------------------------------

    def quiet(self) -> contextlib.AbstractContextManager[Any]:
        """Torch calls inside are not recorded."""
        stack = contextlib.ExitStack()
        stack.enter_context(disable_proxy_modes_tracing())
        stack.enter_context(torch._C.DisableTorchFunction())
        return stack

    def new_value(self, kind: lattice.Type) -> Any:
        """A value of the capture that nothing has computed yet: what a block input or the result of a control node stands for."""
        if isinstance(kind, lattice.NumberType):
            return fresh_number(self.shapes, kind.kind)
        if isinstance(kind, lattice.ListType):
            return self.lists.new(kind.element)
        if isinstance(kind, lattice.StringType):
            return RuntimeString()
        assert isinstance(kind, lattice.TensorType)
        sizes = [self._new_size(size) for size in kind.sizes]
        with self.quiet(), torch.enable_grad():
            if kind.strides is None or not all(type(s) is int for s in sizes):
                made = torch.empty(sizes, dtype=kind.dtype, device=kind.device)
            else:
                strides = [self.symbolic_int(stride) for stride in kind.strides]
                made = torch.empty_strided(sizes, strides, dtype=kind.dtype, device=kind.device)
            self.graph_is_partial = self.graph_is_partial or kind.requires_grad
            if kind.requires_grad:
                made.requires_grad_()
                made = made if kind.is_leaf and tensor_traits.AUTOGRAD not in kind.mixed else made.clone()
        tensor_traits.give_class(made, kind.kind)
        tensor_traits.mark(made, kind.mixed)
        self.has_mixed = self.has_mixed or bool(kind.mixed)
        tensor_traits.made(made)
        return made

    def _new_size(self, size: Any) -> Any:
        return self.shapes.fresh_int(size=True) if size is lattice.DYNAMIC else self.symbolic_int(size)

    def new_union(self, tag: Any, options: dict[int, Any]) -> TaggedUnion:
        """A value that is one of several."""
        return TaggedUnion(self, tag, {key: unpack_list(option) for key, option in options.items()})

    def over(self, union: TaggedUnion, function: Callable[[Any], Any]) -> Any:
        """Do something with a tagged union: an ``if`` over its tag, with the thing done to each option."""
        return self.over_operator(union, function)

    def one_string(self, tag: Any, options: dict[int, Any]) -> RuntimeString:
        """The string of the program that is one of several."""
        made = RuntimeString()
        self.builder.call(control.item_choose, (tag, tuple(options), tuple(options.values())), {}, made)
        return made

    def symbolic_int(self, expr: Any) -> Any:
        """The symbolic int of an expression."""
        if isinstance(expr, int):
            return expr
        return int(expr) if expr.is_number else self.shapes.create_symintnode(expr, hint=None)

    def number(self, target: Callable[..., Any], args: Sequence[Any], kind: str) -> Any:
        """Record a function of numbers; see :func:`~dy2st.capture.recording.recorder.record_number`."""
        return record_number(self, target, tuple(args), kind)

    def to_number(self, value: Any) -> Any:
        """The number in a tensor with one element; numbers stay as they are."""
        return value.item() if isinstance(value, torch.Tensor) else value

    # -- checks ------------------------------------------------------------------------------------------------------------------

    def _assume(self, expr: sympy.Basic, message: str) -> None:
        self._checks.append((expr, message))

    def emit_checks(self) -> None:
        """Record the checks of what has been assumed since the last call."""
        while self._checks:
            expr, message = self._checks.pop(0)
            failing.check_assumption(self, str(expr))
            certain = self.at_root or isinstance(expr, sympy.Eq)  # a branch or loop that is not entered relies on nothing
            if certain and expr.free_symbols <= self.input_sizes.keys():
                self.size_conditions.append(expr)
            condition = self.builder.expression_node(expr)
            self.builder.call_raw(control.assert_, (condition, RuntimeError, f"the program relies on {expr}: {message}"))


def _handled() -> Iterator[BaseException]:
    """The exceptions that are being handled."""
    error = sys.exc_info()[1]
    while error is not None:
        yield error
        error = error.__context__


def _position(iterator: Any) -> Any:
    """What stands for where an iterator is; itself, for one of Python's own."""
    return (storage.table_of(iterator) or {}).get("__dy2st_position__", iterator)


def _no_saved_tensor_hooks() -> contextlib.AbstractContextManager[Any]:
    """The user's hooks on what autograd saves are for the tensors of the program, not for those of the capture."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return contextlib.nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def _set_grad_mode(on: bool) -> None:
    """Switch the mode back, without a record."""
    if torch.is_grad_enabled() is not on:
        with torch._C.DisableTorchFunction():
            torch._C._set_grad_enabled(on)


def current() -> Session | None:
    """The capture that this thread is in."""
    return getattr(_local, "session", None)


def need() -> Session:
    """The capture that this thread is in; converted code only runs inside one."""
    session = current()
    assert session is not None, "converted code runs only during a capture"
    return session


def report_site(construct: str, outcome: str, reason: str) -> None:
    """Report what became of the statement that runs now, if there is a capture."""
    session = current()
    if session is not None:
        session.site(construct, outcome, reason)
