"""What two paths have in common: the join of the values that branches or loop iterations give.

Each value has a type, a small tree. Two types have a least upper bound: sizes that differ become unknown, numbers that
differ become symbolic, values that no single value stands for become a tagged union. What comes from a type is in
:mod:`dy2st.capture.types.abstract_values`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.types import tensor_traits
from dy2st.capture.types.mismatches import HoldsItselfMismatch, LengthMismatch, Mismatch, TraitMismatch, text
from dy2st.capture.types.value_types import (
    CONTAINERS,
    DYNAMIC,
    VALUES,
    ContainerType,
    ListType,
    NumberType,
    OrderType,
    SameType,
    StringType,
    TaggedUnionType,
    TensorType,
    Type,
    UnboundType,
)
from dy2st.capture.values.abstract_objects import AbstractTable, AbstractTuple
from dy2st.capture.values.kinds import is_mutable, is_number, number_kind
from dy2st.capture.values.symbolic import Order, RuntimeList, TaggedUnion, Undefined, is_out_of_date, runtime_list
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import AbstractOf, DictOf, ObjectOf, TupleOf

ACTS_FOR_USER = False


_APART: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("apart", default=frozenset())
_MIXED: contextvars.ContextVar[bool] = contextvars.ContextVar("mixed", default=False)
_STANDS_FOR: contextvars.ContextVar[Callable[[torch.Tensor], torch.Tensor]] = contextvars.ContextVar("stands_for")


@contextlib.contextmanager
def of_capture(apart: frozenset[str], stands_for: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Open a scope for the types of one capture.

    Args:
        apart: the traits in which two tensors that differ have no join.
        stands_for: gives what stands for a tensor from outside whose sizes differ from call to call, any other as it is.
    """
    token = _STANDS_FOR.set(stands_for)
    try:
        with telling_apart(apart):
            yield
    finally:
        _STANDS_FOR.reset(token)


@contextlib.contextmanager
def telling_apart(names: frozenset[str]) -> Iterator[None]:
    """Inside, two tensors that differ in one of these traits have no join."""
    token, mixed = _APART.set(names), _MIXED.set(False)
    try:
        yield
    finally:
        _APART.reset(token)
        _MIXED.reset(mixed)


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


_MAX_OPTIONS = 8
_MAX_KNOWN = 64
"""Of keys that a dict has, and of objects that are there already: their number does not grow with each look at a loop."""


def type_of(value: Any, is_kept: Callable[[Any], bool] = lambda container: False) -> Type:
    """Return the type of exactly this value.

    Args:
        is_kept: whether a container is passed on as the object that it is; the others are passed on by what is in them.

    Raises:
        HoldsItselfMismatch: one of those holds itself.
    """
    return _type_of(value, is_kept, ())


def _type_of(value: Any, is_kept: Callable[[Any], bool], around: tuple[Any, ...]) -> Type:
    if isinstance(value, Undefined):
        return UnboundType(value.name, value.kind, value.arguments)
    if isinstance(value, TaggedUnion):
        return TaggedUnionType(tuple(_type_of(option, is_kept, around) for option in value.options.values()))
    if isinstance(value, (Order, torch.Tensor)):
        return OrderType(value) if isinstance(value, Order) else TensorType.of(_STANDS_FOR.get(_itself)(value))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return NumberType(number_kind(value))
    if isinstance(value, (RuntimeString, Text)):
        return StringType()
    if is_kept(value):
        return SameType(value)
    value = runtime_list(value) or value
    if isinstance(value, RuntimeList):
        return ListType(value.element)
    if isinstance(value, AbstractTuple):
        known = runtime_list(value.items)
        return ListType(None if known is None else known.element, True)
    if children(value) is None or (type(value) is torch.Size and all(type(s) is int for s in value)):
        return SameType(value)
    return _type_of_container(value, is_kept, around)


def _type_of_container(value: Any, is_kept: Callable[[Any], bool], around: tuple[Any, ...]) -> Type:
    if any(value is other for other in around):
        raise HoldsItselfMismatch(f"a {type(value).__name__} that holds itself")
    leaves, structure = shallow(value)
    return ContainerType(structure, tuple(_type_of(leaf, is_kept, (*around, value)) for leaf in leaves))


def join(a: Type, b: Type, single: tuple[type, ...] = VALUES) -> Type:
    """Return the least upper bound.

    Args:
        single: kinds of which two that cannot be joined are a mismatch; of other kinds there may be a tagged union.

    Raises:
        Mismatch: there is none.
    """
    _require_strided(a, b)
    if a == b:
        return a
    for kind in (*options_of_type(a), *options_of_type(b)):
        if isinstance(kind, SameType) and is_out_of_date(kind.value):
            return kind  # nobody may use it afterwards
    options = options_of_type(a)
    for option in options_of_type(b):
        options = _with_option(options, option, single)
    return options[0] if len(options) == 1 else TaggedUnionType(options)


def of_one_way(kind: Type, is_size: Callable[[Any], bool]) -> Type:
    """Return the type of a value that not all ways give: what is computed of the numbers of the others may be no size.

    Args:
        kind: the type on the way that gives it, or those on several.
        is_size: tells whether a number is a size whatever the way.
    """
    if isinstance(kind, TaggedUnionType):
        return TaggedUnionType(tuple(of_one_way(option, is_size) for option in kind.options))
    if isinstance(kind, ContainerType):
        return dataclasses.replace(kind, items=tuple(of_one_way(item, is_size) for item in kind.items))
    if isinstance(kind, ListType) and kind.element is not None:
        return dataclasses.replace(kind, element=of_one_way(kind.element, is_size))
    if not isinstance(kind, TensorType):
        return kind
    _require_strided(kind)
    sizes = tuple(size if isinstance(size, int) or size is DYNAMIC or is_size(size) else DYNAMIC for size in kind.sizes)
    return kind if sizes == kind.sizes else dataclasses.replace(kind, sizes=sizes, strides=None)


def options_of_type(a: Type) -> tuple[Type, ...]:
    """Return the types of which a value has one."""
    return a.options if isinstance(a, TaggedUnionType) else (a,)


def _with_option(options: tuple[Type, ...], new: Type, single: tuple[type, ...]) -> tuple[Type, ...]:
    """Join a type with the first option it fits, or add it."""
    mismatch: Mismatch | None = None
    for index, option in enumerate(options):
        try:
            joined = join_alike(option, new, single)
        except Mismatch as error:
            if (
                isinstance(option, single)
                and isinstance(new, single)
                and not (isinstance(error, TraitMismatch) or _are_objects_apart(option, new))
            ):
                mismatch = mismatch or error
            continue
        return (*options[:index], joined, *options[index + 1 :])
    if mismatch is not None:
        raise mismatch
    if len(options) >= _MAX_OPTIONS and _is_string(new):
        rest = tuple(option for option in options if not _is_string(option))
        return (*rest, StringType())
    if len(options) >= _MAX_OPTIONS and isinstance(new, OrderType):
        return (OrderType(Order(None)),)
    known = sum(map(_is_known, (new, *options)))
    if len(options) - known >= _MAX_OPTIONS or len(options) >= (_MAX_KNOWN if known else _MAX_OPTIONS):
        kinds = ", ".join(map(text, options[:2]))
        raise Mismatch(f"more than {_MAX_OPTIONS} kinds of values on different paths: {kinds} and so on")
    return (*options, new)


def _are_objects_apart(a: Type, b: Type) -> bool:
    """Tell whether two types are those of objects of other classes or attributes, of which a program has only so many."""
    structures = [kind.structure for kind in (a, b) if isinstance(kind, ContainerType)]
    first, second = structures if len(structures) == 2 else (None, None)
    if not (isinstance(first, ObjectOf) and isinstance(second, ObjectOf)):
        return False
    return first.factory is not second.factory or set(first.fields) != set(second.fields)


def _is_known(a: Type) -> bool:
    """Tell whether a type is that of a key which a dict has, or of an object that is there already; or of nothing."""
    if isinstance(a, UnboundType):
        return True
    return isinstance(a, SameType) and (hasattr(type(a.value), "__dy2st_key__") or is_mutable(a.value))


def _is_string(a: Type) -> bool:
    return isinstance(a, StringType) or (isinstance(a, SameType) and type(a.value) is str)


def join_alike(a: Type, b: Type, single: tuple[type, ...]) -> Type:
    if a == b:
        return a
    if isinstance(a, StringType) and _is_string(b):  # b is a constant: one of many
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _join_tensors(a, b)
    if isinstance(a, OrderType) and isinstance(b, OrderType) and (merged := a.order.merged(b.order)) is not None:
        return OrderType(merged)
    kind, other = _kind(a), _kind(b)
    if kind is not None and other is not None:
        return _join_numbers(kind, other)
    if isinstance(a, ListType) and isinstance(b, ListType) and a.is_tuple == b.is_tuple:
        return ListType(join_elements(a.element, b.element), a.is_tuple)
    a, b = _equal_sizes(a, b) or (a, b)
    if isinstance(a, ContainerType) and isinstance(b, ContainerType):
        return _join_containers(a, b, single)
    raise Mismatch(a, b)


def _equal_sizes(a: Type, b: Type) -> tuple[ContainerType, ContainerType] | None:
    """Return two objects that are equal sizes of tensors as the tuples that they are: one of a program may be either."""
    pair = [_as_tuple(kind) for kind in (a, b)]
    first, second = pair
    if first is None or second is None or len(first.items) != len(second.items):
        return None
    parts = list(zip(first.items, second.items))
    return (first, second) if all(x == y for x, y in parts if isinstance(x, SameType) and isinstance(y, SameType)) else None


def _as_tuple(kind: Type) -> ContainerType | None:
    if isinstance(kind, SameType) and type(kind.value) is torch.Size:
        parts, structure = shallow(kind.value)
        return ContainerType(structure, tuple(map(SameType, parts)))
    is_size = isinstance(kind, ContainerType) and isinstance(kind.structure, TupleOf) and kind.structure.factory is torch.Size
    return kind if is_size else None  # type: ignore[return-value]  # a size is a container


def join_elements(a: Type | None, b: Type | None) -> Type | None:
    """Return the type of the items of a list; ``None`` while it has none."""
    _require_strided(*(kind for kind in (a, b) if kind is not None))
    token = _APART.set(frozenset())  # the program knows an item by its dtype and rank
    try:
        return a or b if a is None or b is None else join(a, b, ())
    finally:
        _APART.reset(token)


def tuple_of_any_length(a: Type, b: Type) -> Type | None:
    """Return the tuple of any length that two tuples of different lengths are; ``None`` for anything else."""
    results: list[Type | None] = []
    for kind in (a, b):
        if isinstance(kind, ListType) and kind.is_tuple:
            results.append(kind.element)
        elif isinstance(kind, ContainerType) and isinstance(kind.structure, TupleOf) and kind.structure.factory is None:
            results.append(functools.reduce(join_elements, map(_element, kind.items), None))
        else:
            return None
    if isinstance(a, ContainerType) and isinstance(b, ContainerType) and len(a.items) == len(b.items):
        return None
    return ListType(join_elements(*results), True)


def union_of_dicts(a: Type, b: Type) -> Type | None:
    """Return one of several dicts with other keys, of what is no container; ``None`` for anything else.

    Others that differ in structure have no end of kinds in a loop, or hold objects of which each option would have its own.
    """
    options = options_of_type(a)
    for new in options_of_type(b):
        options = _with_dict(options, new)
    parts: list[Type] = []
    for option in options:
        is_dict = isinstance(option, ContainerType) and isinstance(option.structure, DictOf)
        parts += option.items if isinstance(option, ContainerType) and is_dict else options_of_type(option)
    inner = [option for part in parts for option in options_of_type(part)]
    if len(options) > _MAX_OPTIONS or any(isinstance(option, CONTAINERS) for option in inner):
        return None
    return TaggedUnionType(options)


def _with_dict(options: tuple[Type, ...], new: Type) -> tuple[Type, ...]:
    for index, option in enumerate(options):
        try:
            joined = join_alike(option, new, CONTAINERS)
        except Mismatch:
            continue
        return (*options[:index], joined, *options[index + 1 :])
    return (*options, new)


def _element(kind: Type) -> Type:
    """Return the type of an item of a list of which one of this type is an item: a number is any number of its kind."""
    if isinstance(kind, ContainerType):
        return ContainerType(kind.structure, tuple(map(_element, kind.items)))
    return NumberType(number_kind(kind.value)) if isinstance(kind, SameType) and _is_plain_number(kind.value) else kind


def holds_objects(element: Type | None) -> bool:
    """Tell whether the items of a list are, or hold, dicts or dataclass instances."""
    match element:
        case TaggedUnionType(options):
            return any(map(holds_objects, options))
        case ContainerType(structure, items):
            return not isinstance(structure, TupleOf) or any(map(holds_objects, items))
    return False


def tables_in(element: Type | None) -> Iterator[str]:
    """Yield the kinds of the dicts and sets of which only the program knows the keys among the items of a list, or in them."""
    match element:
        case ListType(inside):
            yield from tables_in(inside)
        case TaggedUnionType(options):
            for option in options:
                yield from tables_in(option)
        case ContainerType(structure, items):
            factory: Any = structure.factory if isinstance(structure, ObjectOf) else None
            if factory is not None and issubclass(factory, AbstractTable):
                yield type(factory.example).__name__
            for item in items:
                yield from tables_in(item)


def _require_strided(*kinds: Type) -> None:
    """Raise that the program knows too little of a tensor to have it in one of two ways."""
    if any(isinstance(kind, TensorType) and kind.layout != torch.strided for kind in kinds):
        raise Mismatch("a sparse tensor, which no branch, loop or list passes on")


def _join_tensors(a: TensorType, b: TensorType) -> Type:
    if (a.dtype, a.device, len(a.sizes)) != (b.dtype, b.device, len(b.sizes)):
        raise Mismatch(a, b)
    sizes = tuple(x if x == y and x is not DYNAMIC else DYNAMIC for x, y in zip(a.sizes, b.sizes))
    strides = a.strides if a.strides == b.strides and DYNAMIC not in sizes else None
    mixed = a.mixed | b.mixed | _differing(a, b)
    if not mixed.isdisjoint(_APART.get() - a.mixed - b.mixed):
        raise TraitMismatch(f"{text(a)} that requires a gradient, is a leaf or a parameter on one path only")
    kind = a.kind if a.kind is b.kind else torch.Tensor
    requires_grad, is_leaf = a.requires_grad or b.requires_grad, a.is_leaf and b.is_leaf
    return TensorType(a.dtype, a.device, sizes, strides, requires_grad, is_leaf, kind, mixed)


def _differing(a: TensorType, b: TensorType) -> frozenset[str]:
    """Return the traits in which two types of tensors differ."""
    same = {
        tensor_traits.AUTOGRAD: (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf),
        tensor_traits.CLASS: a.kind is b.kind,
    }
    return frozenset(name for name, alike in same.items() if not alike)


def _kind(a: Type) -> str | None:
    if isinstance(a, NumberType):
        return a.kind
    return number_kind(a.value) if isinstance(a, SameType) and _is_plain_number(a.value) else None


def _is_plain_number(value: Any) -> bool:
    """Tell whether a value is a number and nothing more: a member of an enumeration has a name that must not be lost."""
    return is_number(value) and not isinstance(value, enum.Enum)


def _join_numbers(a: str, b: str) -> Type:
    if "bool" in (a, b) and a != b:
        raise Mismatch(f"a {a}", f"a {b}")
    if a != b and tensor_traits.NUMBER in _APART.get():
        raise TraitMismatch(f"a {a}", f"a {b}")
    mix_numbers({a, b})
    return NumberType("float" if "float" in (a, b) else a)


def mix_numbers(kinds: set[str]) -> None:
    """Note that a number is made that is of one of these kinds."""
    if len(kinds) > 1:
        _MIXED.set(True)


def has_mixed_numbers() -> bool:
    """Tell whether a number is an int on one path and a float on another: what is made of it may be either as well."""
    return _MIXED.get()


def _join_containers(a: ContainerType, b: ContainerType, single: tuple[type, ...]) -> Type:
    if isinstance(a.structure, DictOf) and isinstance(b.structure, DictOf) and set(a.structure.keys) == set(b.structure.keys):
        orders = [list(keys) for keys in (a.structure.keys, b.structure.keys)]
        if orders[0] != orders[1]:
            raise Mismatch(f"a dict with its keys in the order {orders[0]}", f"in the order {orders[1]}")
    if a.structure != b.structure:
        kind = LengthMismatch if type(a.structure) is type(b.structure) and len(a.items) != len(b.items) else Mismatch
        raise kind(a, b)
    if isinstance(a.structure, AbstractOf):
        single = VALUES  # it stands for an object in whose memory there is one tensor, or list
    return ContainerType(a.structure, tuple(_join_part(n, x, y, single) for n, (x, y) in enumerate(zip(a.items, b.items))))


def _join_part(number: int, a: Type, b: Type, single: tuple[type, ...]) -> Type:
    try:
        return join(a, b, single)
    except Mismatch as error:
        error.path = (number, *error.path)
        raise
