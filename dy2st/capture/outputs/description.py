"""The structure of the results: which objects they are, what is in them, and what stands in several places."""

from __future__ import annotations

import collections
import dataclasses
import weakref
from collections.abc import Iterable, Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.branching import elements, unions
from dy2st.capture.branching.optional import RuntimeView
from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.sources import referent
from dy2st.capture.environment.users_code import is_heap_type, is_library
from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.objects import cells, made_callables, made_functions, made_modules
from dy2st.capture.operators import identities
from dy2st.capture.outputs import of_numpy
from dy2st.capture.session.session import Session
from dy2st.capture.texts import wording
from dy2st.capture.types import lattice
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import (
    AbstractDeque,
    AbstractKeys,
    AbstractObject,
    AbstractSet,
    AbstractTable,
    AbstractTuple,
)
from dy2st.capture.values.dict_views import is_view, name_of
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, RuntimeList, Stale, TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.values.texts import Text
from dy2st.capture.writes import orders
from dy2st.capture.writes.places import CellPlace, ContentsPlace
from dy2st.capture.writes.ranks import Ranks
from dy2st_runtime.ir.flattening import ANY_FACTORY, attributes, is_followed, kind_of_table, parts_of
from dy2st_runtime.ir.structure import (
    Absent,
    BoundOf,
    ClassOf,
    CollectionOf,
    Const,
    FunctionOf,
    HolderOf,
    InstanceOf,
    Leaf,
    ListOf,
    ObjectOf,
    SameAs,
    Shared,
    Structure,
    TaggedUnionOf,
    TupleOf,
    VariableOf,
)
from dy2st_runtime.ir.unflattening import HOLDERS
from dy2st_runtime.primitives.cells import Cell

_UNIQUE = (
    *CONSTANTS, torch.Tensor, torch.nn.Module, type, FunctionType, ModuleType,
    *SYMBOLIC_NUMBERS, frozenset, tuple,
)  # fmt: skip
"""What is there once, or is as good as another that is equal."""


class Describer:
    """Describes values.

    Args:
        session: the capture.
        is_record: whether what is written until now is described, in the middle of the program.

    Attributes:
        outputs: their tensors, numbers, lists and texts, which become outputs of the root block.
        with_cells: the positions of the outputs whose cells are opened before they are used outside.
        existing: for the numbers of containers that come from outside, the index of the source.
    """

    def __init__(self, session: Session, is_record: bool = False) -> None:
        self.session, self.is_record = session, is_record
        self.outputs: list[Any] = []
        self.with_cells: list[int] = []
        self.existing: dict[int, int] = {}
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._uses: collections.Counter[int] = collections.Counter()
        self._copies: dict[int, Any] = {}
        self._of_numpy = of_numpy.OfNumPy(session, self.describe)
        self._open: set[int] = set()
        """The numbers of what is being described."""

    def describe(self, value: Any, what: str) -> Structure:
        """Return the structure of a value; ``what`` the function does with it, for a message."""
        known = self.session.lists.of(value)
        if known is not None and known.is_appended:
            return cast(Structure, self._given(value))
        if type(value) is Cell:
            return self.describe(cells.read(self.session, value), what)
        is_recreated = isinstance(value, (FunctionType, type)) and made_functions.is_recreated(self.session, value)
        is_recreated = is_recreated or made_modules.is_part(self.session, value)
        is_recreated = is_recreated or (type(value) is np.ndarray and self.session.tracker.source_of(value) is None)
        is_plain = parts_of(value) is None and not isinstance(value, AbstractObject) and not is_recreated
        if made_callables.is_bound(self.session, value):
            return self._bound(value, what)
        if is_plain and not self._is_table(value) and not self._is_holder(value):
            return self._given(value) or self.described(value, what)
        told = self.session.tuples.told(value)
        if told is not value and isinstance(told, TaggedUnion) and not isinstance(value, TaggedUnion):
            return SameAs(self.describe(told.tag, what), tuple(told.options), tuple(self._each_tuple(value, told, what)))
        return self._container(value, what)

    def _each_tuple(self, value: Any, told: TaggedUnion, what: str) -> Iterator[Structure]:
        """Yield a tuple, and those from before that it may be."""
        is_known = self.session.tuples.is_known_here
        for option in told.options.values():
            other = option is not value and (self.session.tracker.source_of(option) is not None or is_known(option))
            yield self._container(option if other else value, what)

    def _container(self, value: Any, what: str) -> Structure:
        """Return the structure of a container, which is one object wherever it stands."""
        self.session.tuples.leave(value, (other for _, other in self._numbers.values()))
        number, _ = self._numbers.setdefault(id(value), (len(self._numbers), value))
        self._uses[number] += 1
        source = self.session.tracker.source_of(value)
        if source is not None:
            self.existing[number] = source.index
        self.session.places.tell_apart(value, (other for _, other in self._numbers.values()))
        if number in self._open:
            return Shared(number, ())
        if source is not None and (self.is_record or _lacks_attributes(value)):
            return Shared(number, (Const(type(value)),))  # it is there already; what it has is written to it
        self._open.add(number)
        try:
            return Shared(number, (self.described(value, what),))
        finally:
            self._open.discard(number)

    def _given(self, value: Any) -> Structure | None:
        """Return an object that comes from outside: it is fetched again at each call."""
        source = None if isinstance(value, _UNIQUE) else self.session.tracker.source_of(value)
        if source is None:
            return None
        number, _ = self._numbers.setdefault(id(value), (len(self._numbers), value))
        self.existing[number] = source.index
        return Shared(number, (Const(type(value)),))

    def _is_table(self, value: Any) -> bool:
        """Tell whether a value is a kind of dict that the function has made."""
        return kind_of_table(value) is not None and self.session.tracker.source_of(value) is None

    def _is_holder(self, value: Any) -> bool:
        """Tell whether a value is a container that the function has made, with attributes, or of a class of the user's."""
        kind = type(value)
        if not isinstance(value, HOLDERS) or isinstance(value, AbstractObject) or dataclasses.is_dataclass(kind):
            return False
        plain = kind in (list, dict, collections.OrderedDict, collections.deque) or kind_of_table(value) is not None
        if self.session.tracker.source_of(value) is not None or (plain and not storage.table_of(value)):
            return False
        users = is_heap_type(kind) and not is_library(kind.__module__)
        return plain or (users and id(value) in self.session.allocations.created)  # a library may have made a plain one

    def _holder(self, value: Any, what: str) -> Structure:
        known = self.session.lists.of(value)
        if known is None and isinstance(value, dict):
            self.check_keys(value, what)
        inside = known or (items_of(self.session, value) if isinstance(value, dict) else ContentsPlace(value).read())
        return self._holder_of(value, inside, attributes(value), what)

    def _holder_of(self, value: Any, inside: Any, results: dict[str, Any], what: str) -> Structure:
        """Return the same, given its attributes."""
        items = [self.described(inside, what), *(self._part(item, what) for item in results.values())]
        return HolderOf(type(value), tuple(results), tuple(items), getattr(value, "maxlen", None))

    def _part(self, value: Any, what: str) -> Structure:
        """Return an item of a dict or an attribute of an object, which may be there on some ways only."""
        if isinstance(value, Undefined):
            return Absent()
        if not may_be_undefined(value):
            return self.describe(value, what)
        tag, options = self.describe(value.tag, what), value.options
        ways = tuple(Absent() if isinstance(option, Undefined) else self.describe(option, what) for option in options.values())
        return TaggedUnionOf(tag, tuple(options), ways)

    def simplified(self, structure: Structure) -> Structure:
        """Without the numbers of containers that stand in one place only."""
        if isinstance(structure, (Leaf, Const)):
            return structure
        items = tuple(map(self.simplified, structure.items))
        if isinstance(structure, Shared) and structure.number not in self.existing and self._uses[structure.number] == 1:
            return items[0]
        return dataclasses.replace(structure, items=items)

    def described(self, value: Any, what: str) -> Structure:
        """Return the same of what is in a container, be the container there already or not."""
        if self._is_holder(value):
            return self._holder(value, what)
        value = self.session.lists.of(value) or value
        if value in self.session.places.copies and not isinstance(value, AbstractTable) and self._is_found(value):
            return self._owner(value, what)
        self._check_copy(value, what)
        return self._described(value, what)

    def _described(self, value: Any, what: str) -> Structure:
        if isinstance(value, (Undefined, Stale)):
            value.fail()
        if isinstance(value, of_numpy.KINDS):
            return self._of_numpy.described(value, what)
        if isinstance(value, AbstractTable):
            return self._table(value, what)
        if isinstance(value, AbstractObject) or self._is_table(value):
            return self._collection(value, what)
        if isinstance(value, TaggedUnion):
            return self._union(value, what)
        if isinstance(value, Text):
            value = wording.node_value(self.session, value)
        if isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS, RuntimeList, fx.Node)):
            if cells.are_in(value):
                self.with_cells.append(len(self.outputs))
            self.outputs.append(value)
            leaf = Leaf(len(self.outputs) - 1)
            return self._with_tables(leaf, value, what) if isinstance(value, RuntimeList) else leaf
        return self._known(value, what)

    def _union(self, value: TaggedUnion, what: str) -> Structure:
        bound = unions.bound(value)
        if not isinstance(bound, TaggedUnion):
            return self.described(bound, what)
        tag = self.describe(bound.tag, what)
        return TaggedUnionOf(tag, tuple(bound.options), tuple(self.describe(option, what) for option in bound.options.values()))

    def _collection(self, value: Any, what: str) -> Structure:
        if isinstance(value, AbstractSet):
            return self._set(value.table, what)
        if isinstance(value, AbstractDeque):
            return CollectionOf("deque", (self.describe(value.items, what),), value.maxlen)
        if isinstance(value, RuntimeComplex):
            return CollectionOf("complex", (self.describe((value.real, value.imag), what),))
        if isinstance(value, RuntimeRange):
            return CollectionOf("range", (self.describe((value.start, value.stop, value.step), what),))
        if isinstance(value, AbstractTuple):
            return CollectionOf("tuple", (self.describe(value.items, what),))
        kind, inside = str(kind_of_table(value)), self.described(items_of(self.session, value), what)
        has_factory = kind == ANY_FACTORY
        return CollectionOf(kind, (TupleOf((self.describe(value.default_factory, what), inside)) if has_factory else inside,))

    def _table(self, value: AbstractTable, what: str) -> Structure:
        """Return a dict or set of the program: it is made of the lists of its keys and of what is under them."""
        keys = self.described(self._unpacked(value._dy2st_keys), what)
        if isinstance(value, AbstractKeys):
            return CollectionOf("set", (keys,))
        parts = TupleOf((keys, self.described(self._unpacked(value._dy2st_values), what)))
        if not isinstance(value.example, collections.defaultdict):
            return CollectionOf(f"zipped {type(value.example).__name__}", (parts,))
        factory, inside = value.default_factory, CollectionOf("zipped dict", (parts,))  # type: ignore[attr-defined]
        kind = str(kind_of_table(collections.defaultdict(factory)))
        return CollectionOf(kind, (inside if kind != ANY_FACTORY else TupleOf((self.describe(factory, what), inside)),))

    def _unpacked(self, part: Any) -> Any:
        """Return a list of a table, which may be in a cell where the table is in a list of the program."""
        return cells.read(self.session, part) if cells.are(part) else part

    def _with_tables(self, leaf: Leaf, items: RuntimeList, what: str) -> Structure:
        """Return a list of the program with dicts and sets in the places of what stands for them in it."""
        kinds = set(lattice.tables_in(items.element))
        plain = kinds - {"set", "defaultdict"}
        if len(plain) > 1:
            raise errors.CaptureError(
                f"{self.session.name} {what} dicts of several kinds in a list or dict of which a tensor decides what is in there",
                self.session.here(),
                seen=", ".join(sorted(plain)),
                fix="make them of one kind",
            )
        return CollectionOf(f"resolved {next(iter(plain), 'dict')}", (leaf,)) if kinds else leaf

    def _is_found(self, value: Any) -> bool:
        """Tell whether the program knows which object a copy is of.

        Raises:
            NeedsApart: it has to, for the object may be one from outside.
        """
        if cells.is_known_by_them(self.session, value):
            return True
        if not self.session.outside.holds(type(value)):
            return False
        if self.session.builder.object_node(value) is None and not self.is_record:
            cells.require_owners(self.session, value)
        return True

    def _owner(self, value: Any, what: str) -> Structure:
        """Return an object that the program finds by its cells, or has at hand.

        Raises:
            CaptureError: it does neither, in a record of what is written until now, for which no capture begins again.
        """
        node = self.session.builder.object_node(value)
        if node is None and not cells.is_known_by_them(self.session, value):
            raise errors.CaptureError(
                f"{self.session.name} {what} a {type(value).__name__} that only the program knows",
                self.session.here(),
                fix="give the position in the list, or what is in the item",
            )
        if node is None or cells.is_known_by_them(self.session, value):
            node = elements.item_node(self.session, value, elements.normalized(self.session, value))
        self.with_cells.append(len(self.outputs))
        self.outputs.append(node)
        return Leaf(len(self.outputs) - 1)

    def _check_copy(self, value: Any, what: str) -> None:
        """Check that two that may be one object in Python, and are two in a program, must not be left both.

        Raises:
            NeedsApart: the program has to know which objects they are.
            CaptureError: they are left both.
        """
        holds = isinstance(value, RuntimeList) and lattice.holds_objects(value.element)
        if not holds and value not in self.session.places.copies:
            return
        if self._copies and id(value) not in self._copies and not (holds and all(map(_is_list, self._copies.values()))):
            for other in (value, *self._copies.values()):
                if not self.is_record and not _is_list(other):
                    cells.require_owners(self.session, other)
            kind = next(type(other).__name__ for other in (value, *self._copies.values()) if not _is_list(other))
            raise errors.CaptureError(
                f"{self.session.name} {what} a {kind} out of a list that changes length inside a captured block, "
                "next to the list or to another one of it",
                self.session.here(),
                fix="give the position in the list, or what is in the item",
            )
        self._copies[id(value)] = value

    def _known(self, value: Any, what: str) -> Structure:
        """Return what there is one of: a container of a fixed structure, or a constant."""
        if self.session.iterators.is_spent(value):
            self.session.iterators.fail_spent(value)
        if isinstance(value, (dict, frozenset, set)):
            self.check_keys(value, what)
        if self.session.blocks.key_orders.asks(value) is not None:
            return self._each_order(value, what)
        order = self.session.blocks.key_orders.of_object(value) if _is_record(value) else None
        if order is not None and self.session.tracker.source_of(value) is None:
            return self._each_order_of_attributes(value, order, what)
        is_of_module = made_modules.is_part(self.session, value)
        parts = made_modules.parts_of(value) if is_of_module else parts_of(value)
        if parts is not None:
            items, describe = parts
            part = self._part if isinstance(value, dict) or is_of_module or _is_record(value) else self.describe
            result = describe(tuple(part(item, what) for item in items))
            is_new = made_functions.is_recreated(self.session, type(value))
            return InstanceOf((self.describe(type(value), what), result)) if is_new else result
        if is_view(value) or isinstance(value, RuntimeView):
            table = value.table if isinstance(value, RuntimeView) else self.session.places.views.table(value)
            return CollectionOf(name_of(value), (self.describe(table, what),))
        if isinstance(value, (FunctionType, type)) and made_functions.is_recreated(self.session, value):
            return self._function(value, what) if isinstance(value, FunctionType) else self._class(value, what)
        if isinstance(value, (RuntimeIterable, Columns)) or (isinstance(value, slice) and _is_of_program(value)):
            raise errors.CaptureError(
                f"{self.session.name} {what} a {'slice' if isinstance(value, slice) else 'range'} that is known only at run time",
                self.session.here(),
                fix="give its bounds, or a list of what is in it",
            )
        made_here = id(value) in self.session.allocations.created or isinstance(value, (UserGenerator, Stream))
        made_here = made_here or self.session.tracker.is_fresh(value) or made_modules.holds_abstract(self.session, value)
        if (made_here or made_functions.is_of_call(self.session, value)) and not isinstance(value, (type, torch.Size, frozenset)):
            kind = "generator" if isinstance(value, (UserGenerator, Stream)) else type(value).__qualname__
            raise errors.CaptureError(
                f"{self.session.name} {what} a {kind} that it makes itself",
                self.session.here(),
                fix="use tuples, lists, dicts, named tuples or dataclasses of tensors and numbers",
            )
        identities.check_left(self.session, (value,))
        self.session.tracker.identity(value)
        return Const(value)

    def _function(self, value: FunctionType, what: str) -> Structure:
        """Return a function that the captured code has made: each call makes one. Cells with equal contents are equal."""
        own = {*map(id, made_functions.own_cells(self.session, value))}
        cells = [self._variable(cell, what) if id(cell) in own else Const(cell) for cell in value.__closure__ or ()]
        inside = (self.described(part, what) for part in (value.__defaults__, value.__kwdefaults__, vars(value)))
        return FunctionOf(made_functions.without_variables(value), (*inside, *cells))

    def _bound(self, value: made_callables.Bound, what: str) -> Structure:
        """Return a method or partial function of what the function makes."""
        number, _ = self._numbers.setdefault(id(value), (len(self._numbers), value))
        self._uses[number] += 1
        return Shared(number, (BoundOf(type(value), tuple(self.describe(p, what) for p in made_callables.parts_of(value))),))

    def _variable(self, cell: CellType, what: str) -> Structure:
        number, _ = self._numbers.setdefault(id(cell), (len(self._numbers), cell))
        self._uses[number] += 2  # the functions that share it need its number
        if number in self._open:
            return Shared(number, ())
        self._open.add(number)
        try:
            held = CellPlace(cell, "").read()
            return Shared(number, (VariableOf(() if held is MISSING else (self.describe(held, what),)),))
        finally:
            self._open.discard(number)

    def _class(self, value: type, what: str) -> Structure:
        held = dict(made_functions.namespace(value))
        return ClassOf(value, tuple(held), tuple(self.describe(item, what) for item in (value.__bases__, *held.values())))

    def _each_order(self, table: dict[Any, Any], what: str) -> Structure:
        """Return a dict whose keys are in one of several orders: one of as many dicts."""
        if not self.session.blocks.key_orders.are_ranked:
            self.session.blocks.key_orders.check(table, self.session.here(), orders.is_unknown)
        order = self.session.blocks.key_orders.of(table)
        if isinstance(order, Ranks):
            return self._by_ranks(table, what)
        if not isinstance(order, TaggedUnion):
            return self._known(orders.reordered(table, order), what)
        ways = tuple(self._known(orders.reordered(table, option), what) for option in order.options.values())
        return TaggedUnionOf(self.describe(order.tag, what), tuple(order.options), ways)

    def _by_ranks(self, table: dict[Any, Any], what: str) -> Structure:
        """Return a dict of which the program tells the ranks of the keys."""
        copy = storage.copy_of(table)
        keys = [key for key, value in storage.plain(table).items() if not isinstance(value, Undefined)]
        ranks = dict(zip(keys, self.session.blocks.key_orders.ranks(self.session, table, keys)))
        return CollectionOf("ordered", (TupleOf((self._known(copy, what), self._known(ranks, what))),))

    def _each_order_of_attributes(self, value: Any, order: Any, what: str) -> Structure:
        """Return an object whose attributes are in one of several orders: one of as many objects."""
        self.session.blocks.key_orders.check_order(order, self.session.here(), orders.is_unknown)
        if isinstance(order, TaggedUnion):
            ways = tuple(self._each_order_of_attributes(value, option, what) for option in order.options.values())
            return TaggedUnionOf(self.describe(order.tag, what), tuple(order.options), ways)
        result = attributes(value)
        names = tuple(orders.in_order(result, order))
        return ObjectOf(type(value), names, tuple(self._part(result[name], what) for name in names))

    def _set(self, table: dict[Any, Any], what: str) -> Structure:
        """Return the members of a set: the keys of a dict where there are some on some ways only."""
        if not any(map(may_be_undefined, table.values())):
            return CollectionOf("set", (ListOf(tuple(self.describe(member, what) for member in table)),))
        self.check_keys(table, what)
        return CollectionOf("set", (self.described(table, what),))

    def check_keys(self, table: Iterable[Any], what: str) -> None:
        """Check that a key is the same object at each call."""
        keys = list(storage.plain(table))
        identities.check_left(self.session, keys)
        parts = tree_leaves(keys)
        for part in parts:
            result = referent(part) if isinstance(part, weakref.ref) else part
            kind: Any = type(result)
            if id(result) in self.session.allocations.created and kind.__hash__ is object.__hash__:
                raise errors.CaptureError(
                    f"{self.session.name} {what} a collection that looks up a {kind.__qualname__} that it makes itself",
                    self.session.here(),
                    fix="keep the objects in a list, or under names in a dict",
                )
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        if any(self.session.fakes.is_abstract(tensor) or not any(tensor is key for key in keys) for tensor in tensors):
            raise errors.CaptureError(
                f"{self.session.name} {what} a collection that looks up tensors by their identity",
                self.session.here(),
                fix="keep the tensors in a list, or under names in a dict",
            )


def _is_record(value: Any) -> bool:
    """Tell whether an object is a container of its attributes."""
    return is_followed(value) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def items_of(session: Session, table: Any) -> dict[Any, Any]:
    """Return what is in a dict, in one of Python's own."""
    return session.blocks.key_orders.follow(ContentsPlace(table).read(), table)  # type: ignore[no-any-return]


def _lacks_attributes(value: Any) -> bool:
    """Tell whether an object is one of a dataclass, of which an attribute is there on some ways only."""
    return dataclasses.is_dataclass(value) and any(map(may_be_undefined, attributes(value).values()))


def _is_list(value: Any) -> bool:
    return isinstance(value, RuntimeList)


def _is_of_program(value: slice) -> bool:
    """Tell whether a bound of a slice is known only at run time."""
    return any(isinstance(bound, (torch.Tensor, *SYMBOLIC_NUMBERS)) for bound in (value.start, value.stop, value.step))
