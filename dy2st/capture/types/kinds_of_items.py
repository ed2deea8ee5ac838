"""The types of items of lists and dicts from outside that a program takes as lists of any length."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

from dy2st.capture.types import fits, lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.compiled import COMPILED
from dy2st_runtime.ir.flattening import attributes, shallow
from dy2st_runtime.ir.structure import CellOf, DictOf, Leaf, ObjectOf, Structure, TupleOf
from dy2st_runtime.primitives.cells import Cell

Kinds = tuple[value_types.Type | None, value_types.Type | None]
"""The types of the keys, and of what is under them; ``None`` where there is nothing."""

_CONSTANTS = (type(None), enum.Enum, torch.dtype, torch.device)
_KEYS = (str, int, float, bool, type(None), enum.Enum)
"""Of dicts that are items: they are part of the type."""
IsPlain = Callable[[type], bool]
"""Tells whether the objects of a class are no more than what is in them."""


def of(table: Any, is_plain: IsPlain) -> Kinds | None:
    """Return the types of what is in a dict or set; ``None`` where a program cannot be given that in a list."""
    held = storage.plain(table)
    try:
        return of_items(list(held), is_plain), of_items(list(held.values()) if isinstance(table, dict) else [], is_plain)
    except TypeError:
        return None


def of_items(items: Sequence[Any], is_plain: IsPlain) -> value_types.Type | None:
    """Return the type of the items of a list; ``None`` where there is none.

    Args:
        items: of the list.
        is_plain: tells which objects may be among them.

    Raises:
        TypeError: a program cannot be given them in a list.
    """
    try:
        result = lasting(_joined(items, is_plain, ()))
    except mismatches.Mismatch as error:
        raise TypeError(error.told("an item", "another one")) from None
    if not fit(result, list(items), is_mixed=True):
        raise TypeError("tensors as forward-mode differentiation has them")
    return result


def _joined(items: Sequence[Any], is_plain: IsPlain, around: tuple[Any, ...]) -> value_types.Type | None:
    return functools.reduce(lattice.join_elements, (_kind_of(item, is_plain, around) for item in items), None)


def condition(kind: value_types.Type | None, items: list[Any]) -> Callable[[Any], bool]:
    """Return what tells whether the items of a list are of a type; ints are among floats only where there are some now."""
    is_mixed = not fit(kind, items)
    if is_mixed:
        lattice.mix_numbers({"int", "float"})
    return fits.condition(kind, is_mixed)


def fit(kind: value_types.Type | None, items: Any, is_mixed: bool = False) -> bool:
    """Tell whether all items of a list are of a type.

    Args:
        kind: the type.
        items: the list, or anything else.
        is_mixed: whether an int may stand where there are floats.
    """
    return fits.condition(kind, is_mixed)(items)


def _kind_of(value: Any, is_plain: IsPlain, around: tuple[Any, ...]) -> value_types.Type:
    if type(value) in fits.NUMBERS.values():
        return value_types.NumberType(type(value).__name__)
    if type(value) is str:
        return value_types.StringType()
    if isinstance(value, _CONSTANTS):
        return value_types.SameType(value)
    if fits.is_plain_tensor(value):
        return value_types.TensorType.of(value)
    if any(value is other for other in around):
        raise TypeError(f"a {type(value).__qualname__} that holds itself")
    if type(value) is list:
        return value_types.ListType(_joined(value, is_plain, (*around, value)))
    parts = _parts(value, is_plain)
    if parts is None:
        raise TypeError(f"a {type(value).__qualname__}{' that is a leaf with a gradient' if type(value) is torch.Tensor else ''}")
    structure, held = parts
    return value_types.ContainerType(structure, tuple(_kind_of(item, is_plain, (*around, value)) for item in held))


def _parts(value: Any, is_plain: IsPlain) -> tuple[Structure, Sequence[Any]] | None:
    """Return what a container is made of; ``None`` for what is none, or not only that."""
    kind = type(value)
    if kind is tuple or (kind is dict and all(isinstance(key, _KEYS) for key in value)):
        parts, structure = shallow(value)
        return structure, parts
    if isinstance(value, (type, dict, list)) or not is_plain(kind):
        return None
    if dataclasses.is_dataclass(kind) or isinstance(value, tuple):
        parts, structure = shallow(value)
        return structure, parts
    held = attributes(value)
    return ObjectOf(kind, tuple(held), tuple(map(Leaf, range(len(held))))), list(held.values())


def held_in(items: Iterable[Any], is_plain: IsPlain, seen: dict[int, Any] | None = None) -> dict[int, Any]:
    """Return the objects, lists and dicts in a list that is an input of a program, by identity."""
    seen = {} if seen is None else seen
    for item in items:
        if type(item) is Cell:
            held_in(item.items, is_plain, seen)
            continue
        inside = _inside(item, is_plain)
        if inside is not None and id(item) not in seen:
            if not isinstance(item, tuple):
                seen[id(item)] = item
            held_in(inside, is_plain, seen)
    return seen


_VALUES = (torch.Tensor, str, type, *fits.NUMBERS.values(), *_CONSTANTS, *SYMBOLIC_NUMBERS)
"""The classes of what holds no objects."""


def _inside(value: Any, is_plain: IsPlain) -> Iterable[Any] | None:
    """Return what is in a container; ``None`` for anything else."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return dict.values(value)
    return None if isinstance(value, _VALUES) or not is_plain(type(value)) else attributes(value).values()


def holds(is_plain: IsPlain, items: Any, *others: Any) -> bool:
    """Tell whether one of some objects is in such a list."""
    if COMPILED.library is not None:
        return bool(COMPILED.library.holds(items, _VALUES, is_plain, others))
    held = held_in(items, is_plain)
    return any(id(other) in held for other in others)


def is_or_holds(is_plain: IsPlain, value: Any, *others: Any) -> bool:
    """Tell whether an object that is an input is one of some objects, or holds one."""
    return holds(is_plain, [value], *others)


def classes_in(kind: value_types.Type | None) -> Iterator[type]:
    """Yield the classes of the objects, dicts and lists in the items of a list of a type."""
    match kind:
        case value_types.ListType(element):
            yield list
            yield from classes_in(element)
        case value_types.TaggedUnionType(options):
            for option in options:
                yield from classes_in(option)
        case value_types.ContainerType(structure, items):
            if isinstance(structure, (ObjectOf, DictOf)):
                yield structure.factory
            for item in items:
                yield from classes_in(item)


def with_cells(kind: value_types.Type | None, classes: Collection[type]) -> Any:
    """Return a type in which the attributes of objects of some classes, and the items of dicts, are in cells."""
    match kind:
        case value_types.ListType(element, is_tuple):
            return value_types.ListType(with_cells(element, classes), is_tuple)
        case value_types.TaggedUnionType(options):
            return value_types.TaggedUnionType(tuple(with_cells(option, classes) for option in options))
        case value_types.ContainerType(structure, items):
            inside = tuple(with_cells(item, classes) for item in items)
            if isinstance(structure, (ObjectOf, DictOf)) and structure.factory in classes:
                inside = tuple(map(_in_cell, inside))
            return value_types.ContainerType(structure, inside)
    return kind


def _in_cell(kind: value_types.Type) -> value_types.Type:
    return value_types.ContainerType(CellOf((Leaf(0),)), (value_types.ListType(kind),))


def lasting(kind: value_types.Type | None) -> value_types.Type | None:
    """Return a type as the next call can check it, without sizes of this call's inputs.

    Raises:
        TypeError: the next call cannot be given that in a list.
    """
    match kind:
        case None | value_types.NumberType() | value_types.StringType():
            return kind
        case value_types.SameType(value) if isinstance(value, _CONSTANTS) or type(value) in (*fits.NUMBERS.values(), str):
            return kind
        case value_types.TaggedUnionType(options):
            return value_types.TaggedUnionType(tuple(map(lasting, options)))
        case value_types.ContainerType(CellOf(), (value_types.ListType(inside),)):
            return lasting(inside)
        case value_types.ContainerType(TupleOf() | ObjectOf() | DictOf() as structure, items):
            return value_types.ContainerType(structure, tuple(map(lasting, items)))
        case value_types.ListType(element, False):
            return value_types.ListType(lasting(element))
        case value_types.TensorType() if kind.kind is torch.Tensor:
            sizes = tuple(size if isinstance(size, int) else value_types.DYNAMIC for size in kind.sizes)
            known = kind.strides is not None and all(isinstance(stride, int) for stride in kind.strides)
            strides = kind.strides if known and value_types.DYNAMIC not in sizes else None
            return dataclasses.replace(kind, sizes=sizes, strides=strides, is_leaf=False)
    raise TypeError(mismatches.text(kind))
