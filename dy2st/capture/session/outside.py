"""What captured code meets that was there before: it becomes an input of the program, or is guarded."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from dy2st.capture.environment import plain_values
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.request import ITEMS, LENGTH, OBJECT
from dy2st.capture.environment.sources import Source
from dy2st.capture.environment.tracking import Tracker
from dy2st.capture.recording.fake_values import FakeValues
from dy2st.capture.recording.position import Position
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.blocks import Blocks
from dy2st.capture.types import tensor_classes, tensor_traits, value_types
from dy2st.capture.types.traits import Traits
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import memory_of
from dy2st.capture.values.abstract_objects import AbstractSet, AbstractTable, Represents, contents
from dy2st.capture.values.kinds import refused_kind
from dy2st.capture.values.signals import NeedsAbstract, NeedsObject
from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.places import CellPlace, ContentsPlace, ItemPlace, Place
from dy2st.errors import CaptureError
from dy2st_runtime.ir.program import StateSlot

_OF_MODULES = ("_parameters", "_buffers")
"""The steps to tensors of which the guard of their module knows whether they are there."""


_NO_OBJECTS = (torch.nn.Module, type, tuple, list, dict, set)
"""What has other ways to be an input, or none."""


@dataclasses.dataclass
class State:
    """A value from outside that the program takes as an input.

    Attributes:
        slot: of the program.
        source: where it comes from; ``None`` for a constant.
        value: what it is now.
        abstract: what stands for it.
        classes: of the objects, dicts and lists in a list.
        changed: those whose objects the program changes, see :mod:`dy2st.capture.objects.cells`.
    """

    slot: StateSlot
    source: Source | None
    value: Any
    abstract: Any
    classes: frozenset[type] = frozenset()
    changed: frozenset[type] = frozenset()

    @property
    def changes_objects(self) -> bool:
        """Whether what is in it may be changed as the program runs."""
        return bool(self.changed) or list in self.classes


@dataclasses.dataclass(frozen=True)
class GrowingList:
    """A list from outside whose length differs from call to call.

    Attributes:
        items: the list; something stands in it during the capture.
        before: what was in it.
        is_read: whether the code does more with it than append to it.
    """

    items: list[Any]
    before: list[Any]
    is_read: bool


class Outside:
    """The tensors, numbers and objects from outside that one capture has met.

    Args:
        position: where the capture is in the user's code.
        fakes: what makes abstract tensors.
        traits: what is known about traits of tensors.
        allocations: when objects were made.
        blocks: those that are open.
        makers: how an abstract value is made for a set, deque or array.
        changed: the names of those that need one, since blocks change them.
        dynamic_state: the names of tensors from outside whose sizes differ from call to call, with the dimensions.

    Attributes:
        states: the inputs of the program that are no arguments, in order.
        tracker: sources and guards.
        tables: the names of dicts and sets of which only the program knows the keys (see :class:`Request`).
        tables_met: those that the code has met, with what stands for each, and those types.
        cells: the variables of enclosing functions that existed before the capture and are written by it.
    """

    def __init__(
        self,
        position: Position,
        fakes: FakeValues,
        traits: Traits,
        allocations: Allocations,
        blocks: Blocks,
        makers: Mapping[type, Callable[[Any], Represents]],
        changed: Collection[str],
        tables: Mapping[str, Any],
        dynamic_state: Mapping[str, Collection[int] | None],
    ) -> None:
        self._position, self._fakes, self._traits, self._allocations = position, fakes, traits, allocations
        self._blocks = blocks
        self.makers, self.changed, self.dynamic_state = makers, changed, dynamic_state
        self.tables = tables
        self.tables_met: list[tuple[Source, AbstractTable, Any]] = []
        self.tracker = Tracker(self)
        self.tracker.dynamic.update(dynamic_state)
        self.states: list[State] = []
        self.growing_lists: dict[int, GrowingList] = {}
        """By identity."""
        self._seen: set[int] = set()
        """The identities of lists at which code that is not converted may look."""
        self.make_list: Callable[[list[Any]], object] = id
        """Turns one of them into a list of the program, if it is none yet, and guards what that relies on."""
        self.make_deque: Callable[[Any, Any, Source], object] = lambda shown, value, source: None
        """Makes a list of the program of what is in a deque, for what stands for it, and guards what that relies on."""
        self.make_object: Callable[[Any, Source], Any] = lambda value, source: value
        """Turns an object into an input of the program, and guards what that relies on; gives what stands for it."""
        self.cells: dict[int, Source] = {}
        self._state_by_id: dict[int, State] = {}
        self._state_by_abstract: dict[int, State] = {}
        self.arguments: dict[int, tuple[torch.Tensor, torch.Tensor, Source]] = {}
        """The abstract values of arguments by their identity, with the tensors and where they come from."""
        self.ids: dict[int, Any] = {}
        """The objects from outside whose ids the code has taken, by these."""
        self.hidden: set[int] = set()
        """The identities of those that are held where nothing can stand for them."""
        self._collections: dict[int, tuple[Any, Represents]] = {}
        self._tables: dict[int, AbstractSet] = {}

    def adopt(self, real: torch.Tensor) -> torch.Tensor:
        """Return the abstract value of a real tensor: it becomes an input of the program, fetched anew at each call."""
        if self._fakes.is_abstract(real):
            raise CaptureError(
                "a tensor computed in a branch or loop is used outside of it, through an object that is not followed",
                self._position.here(),
                fix="keep it in a variable, attribute or list of converted code, not in a generator or a library's object",
            )
        state, source = self._state_by_id.get(id(real)), self.tracker.source_of(real)
        if state is None:
            if source is None:
                self.check_memory(real)
            dims = self.dynamic_state.get(source.name) if source else None
            if dims or tensor_classes.is_users(type(real)) or torch._C._functorch.is_functorch_wrapped_tensor(real):
                abstract = self.abstract(real, dims or ())
            else:
                self.check_kind(real)
                abstract = self._fakes.of_real(real)
            name = source.name if source else f"constant_{len(self.states)}"
            kind = "constant" if source is None else "attribute"
            shape = tuple(size if isinstance(size, int) else str(size) for size in abstract.shape)
            slot = StateSlot(name, kind, real.dtype, shape, real.requires_grad)
            state = self.add_state(State(slot, source, real, abstract))
            self._state_by_id[id(real)] = state
            tensor_traits.mark_attributes(abstract, real)
            tensor_traits.give_class(abstract, tensor_traits.class_of(real))
            if source is not None:
                self.tracker.guards.tensor(source, real, dims or frozenset())
        elif state.source is None and source is not None:  # it was met before it was known where it comes from
            state.slot, state.source = dataclasses.replace(state.slot, name=source.name, kind="attribute"), source
            self.tracker.guards.tensor(source, real, frozenset())
        return state.abstract  # type: ignore[no-any-return]

    def check_memory(self, made: torch.Tensor) -> None:
        """Have the array be an input in whose memory a tensor lies that the code has made, as long as the capture can begin again.

        Raises:
            NeedsAbstract: it is a constant.
        """
        array, can_be = self.tracker.arrays.under(made) or (None, False)
        if can_be and not self.tracker.guards.once:
            self.check_changed(array)

    def constant_of(self, node: Any) -> torch.Tensor | None:
        """Return the tensor of an input of the program that torch has made of constants, as ``torch.tensor([1, 2])`` does."""
        if any(user.target is not torch.ops.aten.lift_fresh_copy.default for user in node.users):
            return None
        root = self._blocks.root.builder
        states = [state for state in self.states if state.slot.kind == "constant"]
        return next((state.value for state in states if root.node_of(state.abstract) is node), None)

    def abstracts_of(self, real: torch.Tensor) -> list[torch.Tensor]:
        """Return what stands for a tensor from outside by now."""
        state = self._state_by_id.get(id(real))
        given = [abstract for abstract, tensor, _ in self.arguments.values() if tensor is real]
        return given if state is None else [*given, state.abstract]

    def is_state(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor stands for one from outside that is no argument."""
        return any(state.abstract is tensor for state in self._state_by_id.values())

    def is_in_memory(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor is known to lie in the memory of an argument or of the state."""
        known = (*(given[0] for given in self.arguments.values()), *(state.abstract for state in self.states))
        strided = (one for one in known if isinstance(one, torch.Tensor) and one.layout == torch.strided)
        return any(one.untyped_storage()._cdata == tensor.untyped_storage()._cdata for one in strided)

    def adopted(self, value: Any) -> Any:
        """Return a value with an abstract value in the place of a real tensor."""
        return self.adopt(value) if isinstance(value, torch.Tensor) and not self._fakes.is_abstract(value) else value

    def asked(self, real: torch.Tensor) -> torch.Tensor:
        """Return a tensor that a function of torch gets, which may be one that computes nothing.

        What it says of the tensor is guarded.
        """
        source = self.tracker.source_of(real)
        if source is None or self._fakes.is_abstract(real) or refused_kind(real) is not None:
            return real
        if self.dynamic_state.get(source.name):
            return self.adopt(real)
        self.tracker.guards.tensor(source, real)
        return real

    def of_open_sizes(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what stands for a tensor from outside whose sizes differ from call to call; any other as it is."""
        if not self.dynamic_state or self._fakes.is_abstract(tensor):
            return tensor
        source = self.tracker.source_of(tensor)
        return self.adopt(tensor) if source is not None and self.dynamic_state.get(source.name) else tensor

    def guard_kinds(self) -> None:
        """Note what else the program relies on.

        Tensors that the code has met and no operation has used are tensors; arrays that are constants lie in no input's memory.
        """
        for source, inputs in self.tracker.arrays.apart():
            self.tracker.guards.apart_in_memory(source, inputs)
        for tensor, source in self.tracker.tensors():
            used = id(tensor) in self._state_by_id or self._fakes.is_abstract(tensor)
            if not used and source.key[0] not in _OF_MODULES:
                self.tracker.guards.same_type(source, tensor)

    def check_kind(self, tensor: torch.Tensor) -> None:
        """Refuse a tensor of a kind that programs do not have."""
        refused = refused_kind(tensor)
        if refused is not None:
            raise CaptureError(f"{refused[0]} cannot be captured", self._position.here(), fix=refused[1])

    def abstract(self, real: torch.Tensor, dynamic: Collection[int]) -> torch.Tensor:
        """Return a fake tensor like a real one, with unknown sizes in some dimensions."""
        self.check_kind(real)
        sizes = tuple(value_types.DYNAMIC if dim in dynamic else size for dim, size in enumerate(real.shape))
        strides = None if dynamic else tuple(real.stride())
        before = self._traits.graph_is_partial
        autograd = tensor_traits.autograd_of(real)
        kind = tensor_traits.class_of(real)
        if tensor_classes.is_users(kind):
            self.tracker.met(kind)
            self._traits.outer_class = kind
        result = self._fakes.tensor(value_types.TensorType(real.dtype, real.device, sizes, strides, *autograd, kind))
        self._traits.graph_is_partial = before  # it is a leaf, or stands for one
        return result

    def dynamic_number(self, source: Source, value: Any) -> Any:
        """Return what stands for a Python number that differs from call to call: it is an input of the program."""
        slot = StateSlot(source.name, "number")
        self.tracker.guards.same_type(source, value)
        return self.add_state(State(slot, source, value, fresh_number(self._fakes.shapes, type(value).__name__))).abstract

    def stand_at(self, place: Place, abstract: Any) -> None:
        """Do what stands for a number, or for a tuple with such numbers, stands in its place from now on."""
        CAPTURE_LOCK.go_alone()
        self._blocks.stand_at(place, abstract)

    def collection(self, value: Any, place: Place | None) -> None:
        """Put what stands for something during the capture, if something has to, into the place that holds it.

        Args:
            value: a set or deque, or a container that is among the arguments too.
        """
        if id(value) in self.tracker.given:
            self._put(self.tracker.given[id(value)][1], value, place)
            return
        if place is None and id(value) not in self._collections:
            self.hidden.add(id(value))
            return
        shown = self.shown(value, is_hidden=place is None)
        if shown is not None and place is not None:
            self._put(shown, value, place)

    def is_growing(self, items: Any, source: Source) -> bool:
        """Tell whether the length of a list or deque differs from call to call."""
        is_one = isinstance(items, (list, collections.deque))
        return is_one and (self.dynamic_state.get(source.name) in (LENGTH, ITEMS) or id(items) in self.growing_lists)

    def growing(self, items: list[Any], source: Source) -> None:
        """Make a list of the program of a list from outside that is longer at each call.

        Raises:
            CaptureError: code that is not converted may have looked at it.
        """
        if id(items) in self._seen:
            raise self._looked_at(items)
        if id(items) not in self.growing_lists:
            self.growing_lists[id(items)] = GrowingList(items, list(items), self.dynamic_state[source.name] == ITEMS)
        self.tracker.know(items, source)
        self.make_list(items)

    def is_object_input(self, value: Any, source: Source) -> bool:
        """Tell whether an object of a plain class differs from call to call."""
        return self.dynamic_state.get(source.name) == OBJECT and not isinstance(value, _NO_OBJECTS)

    def object_input(self, value: Any, source: Source, place: Place) -> None:
        """Make an input of the program of an object from outside, and put what stands for it into the place that holds it."""
        self.stand_at(place, self.make_object(value, source))

    def require_input(self, value: Any) -> None:
        """Have an object be an input, of which there are others of its class.

        Raises:
            NeedsObject: it is none yet.
        """
        source = self.tracker.source_of(value)
        is_input = source is None or self.dynamic_state.get(source.name) == OBJECT
        if source is not None and not is_input and not isinstance(value, _NO_OBJECTS) and self.holds(type(value)):
            raise NeedsObject(source.name)

    def holds(self, kind: type) -> bool:
        """Tell whether objects of a class, or dicts, are among the inputs of the program, or in them."""
        return any(kind in state.classes for state in self.states)

    def show(self, values: Iterable[Any]) -> None:
        """Note that code that is not converted may look at some objects: what is in them has to be there.

        Raises:
            CaptureError: one is a list that stands for one of the program.
        """
        if not any(what in (LENGTH, ITEMS) for what in self.dynamic_state.values()):
            return
        self._seen.update(id(value) for value in values if type(value) is list)
        for key, found in self.growing_lists.items():
            if key in self._seen:
                raise self._looked_at(found.items)

    def _looked_at(self, items: list[Any]) -> CaptureError:
        source = self.tracker.source_of(items)
        return CaptureError(
            f"{'a list' if source is None else source.name} is longer at each call, and code that is not converted may look at it",
            self._position.here(),
            fix="keep what it looks at in a list of its own",
        )

    def _put(self, shown: Any, value: Any, place: Place | None) -> None:
        if place is None:
            raise self._out_of_reach(value, "a tuple")
        CAPTURE_LOCK.go_alone()
        try:
            self._blocks.stand_at(place, shown)
        except (AttributeError, TypeError):
            raise self._out_of_reach(value, f"'{place}', which cannot be assigned") from None

    def behind(self, abstract: torch.Tensor) -> torch.Tensor:
        """Return the tensor from outside that an abstract value stands for, be it an argument or a state; any other as it is."""
        if id(abstract) not in self.arguments:
            return self.real(abstract)  # type: ignore[no-any-return]
        _, tensor, source = self.arguments[id(abstract)]
        self.tracker.know(tensor, source)
        return tensor

    def is_of_call(self, value: Any) -> bool:
        """Tell whether the captured code has made an object."""
        return id(value) in self._allocations.created

    def real(self, value: Any) -> Any:
        """Return the tensor that an abstract value stands for, if it is a state; any other value as it is."""
        state = self._state_by_abstract.get(id(value))
        return value if state is None else state.value

    def _out_of_reach(self, value: Any, where: str) -> CaptureError:
        kind = type(value).__name__
        if id(value) in self.tracker.given:
            what = f"a {kind} that is an argument, or in one,"
        else:
            what = f"a {kind} from outside that is changed where a tensor decides"
        return CaptureError(
            f"{what} is reached through {where}", self._position.here(), fix="keep it in an attribute, variable, list or dict"
        )

    def is_input(self, value: Any, source: Source) -> bool:
        """Tell whether something stands for a set, deque or array from outside."""
        if isinstance(value, np.ndarray):
            is_wanted = source.name in self.changed or source.name in self.dynamic_state
            return is_wanted and memory_of(value) is not None
        return source.name in self.changed or (type(value) is collections.deque and self.is_growing(value, source))

    def is_table(self, value: Any, source: Source) -> bool:
        """Tell whether a dict or set from outside is one of the program."""
        if not self.tables or not isinstance(value, (dict, set)) or id(value) in self.tracker.given:
            return False
        known = self._collections.get(id(value))
        return source.name in self.tables or (known is not None and isinstance(known[1], AbstractTable))

    def shown(self, value: Any, is_hidden: bool = False) -> Represents | None:
        """Return what stands for a set, deque or array that has been met, if something has to."""
        source = self.tracker.source_of(value)
        is_table = source is not None and self.is_table(value, source)
        if source is None or not (is_table or self.is_input(value, source)):
            return None
        if is_hidden or id(value) in self.hidden:
            raise self._out_of_reach(value, "a tuple")
        if id(value) not in self._collections:
            result = self.makers[AbstractTable if is_table else type(value)](value)
            inside = result.table if isinstance(result, AbstractSet) else contents(result)
            if isinstance(result, AbstractSet):
                self._tables[id(inside)] = result
            self._collections[id(value)] = value, result
            self.tracker.stand_for(result, value, source)
            if type(value) is collections.deque and self.is_growing(value, source):
                self.make_deque(result, value, source)
            elif not is_table:
                self.tracker.know(inside, source)
        return self._collections[id(value)][1]

    def given(self, value: Any) -> Any:
        """Return a set or deque that is an argument, or what stands for it."""
        self.hidden.discard(id(value))
        shown = self.shown(value)
        return value if shown is None else shown

    def check_changed(self, value: Any) -> None:
        """Check a set, deque or array that is about to be changed in a block.

        Raises:
            NeedsAbstract: it is one from outside.
        """
        source = self.tracker.source_of(value) if type(value) in self.makers else None
        if source is None or self.is_input(value, source):
            return
        if type(value) is not np.ndarray or memory_of(value) is not None:
            raise NeedsAbstract(source.name)

    def set_of(self, table: Any) -> AbstractSet | None:
        """Return what stands for a set from outside, given the table of its members."""
        return self._tables.get(id(table))

    def add_state(self, state: State) -> State:
        """Have the program take a value from outside as an input."""
        root = self._blocks.root.builder
        self.states.append(state)
        self._state_by_abstract[id(state.abstract)] = state
        root.bind(state.abstract, root.placeholder(state.slot.name.replace(".", "_"), state.abstract))
        return state

    def let_go(self) -> None:
        """Hold nothing from outside any longer."""
        by_id = (self._state_by_id, self._state_by_abstract, self.arguments, self.ids, self._collections, self._tables)
        for held in (self.states, self.cells, *by_id, self.growing_lists):
            held.clear()

    def source_of(self, place: Place) -> Source | None:
        """Return where a place came from, if it came from outside."""
        table = self.tracker.table
        if isinstance(place, CellPlace):
            return self.cells.get(id(place.cell))
        owner = self.tracker.source_of(place.owner)
        if owner is None or isinstance(place, ContentsPlace) or id(place.owner) in self._tables:
            return None  # what is in a set is guarded as a whole
        if isinstance(place, ItemPlace):
            return table.item(owner, place.item)
        if storage.is_shadowing(place.owner, place.name):
            kept_in = "__dict__"
        elif storage.is_hidden(place.owner, place.name) and storage.is_registered(place.owner, place.name):
            kept_in = storage.kept_in(place.owner, place.name)
        else:
            return table.attribute(owner, place.name)
        return table.item(table.attribute(owner, kept_in), place.name, f"{owner.name}.{place.name}")

    def read(self, place: Place, source: Source | None = None) -> None:
        """Note that code under capture is about to read a place, or to write it (what is written may depend on what it held
        before).
        """
        if self._blocks.was_written(place.key) and not (isinstance(place, CellPlace) and self._blocks.is_only_noted(place)):
            return
        source = source or self.source_of(place)
        if source is not None:
            self._note_read(place, source)

    def ask_presence(self, place: Place) -> None:
        """Note that the code under capture does something that depends on whether there is anything at a place."""
        source = None if self._blocks.was_written(place.key) else self.source_of(place)
        if source is not None:
            (self.tracker.guards.missing if place.read() is MISSING else self.tracker.guards.present)(source)

    def read_at(self, place: Place, value: Any, source: Source) -> None:
        """Do the same of a value that is found at a place, and is held somewhere else."""
        if not self._blocks.was_written(place.key):
            self._read(value, source, place)

    def _note_read(self, place: Place, source: Source) -> None:
        value = place.read()
        if value is MISSING:
            self.tracker.guards.missing(source)
        else:
            self._read(value, source, place)

    def _read(self, value: Any, source: Source, place: Place) -> None:
        if plain_values.is_decimal(value):
            self.tracker.answer(plain_values.decimal_context, (), "decimal.getcontext()")
        self.tracker.read(value, source, place)

    def writes_variable(self, place: CellPlace, source: Source) -> None:
        """Note that a function that is called now may write a variable from outside.

        Blocks around may have noted it, but nobody wrote it.
        """
        if id(place.cell) not in self.cells:
            self.cells[id(place.cell)] = source
            self._note_read(place, source)

    def is_carried(self, place: Place) -> bool:
        """Tell whether what a place holds is an input of the program: what it held at the capture says nothing then."""
        source = self.source_of(place)
        return source is not None and source.name in self.tracker.dynamic
