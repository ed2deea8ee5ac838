"""Conditions that tell whether the items of a list from outside are of a type: they are checked at each call, of each item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from dy2st.capture.types import tensor_traits, value_types
from dy2st.capture.values.kinds import refused_kind
from dy2st_runtime.compiled import COMPILED
from dy2st_runtime.ir.flattening import attributes, has_slots
from dy2st_runtime.ir.structure import DictOf, ObjectOf, Structure, TupleOf, exact
from dy2st_runtime.primitives.cells import Cell, slots_of

_Check = Callable[[Any], bool]
NUMBERS = {"bool": bool, "int": int, "float": float}
"""The classes of numbers, by the names of their types."""


def condition(kind: value_types.Type | None, is_mixed: bool) -> _Check:
    """Return what tells of a list whether all its items are of a type, and of anything else that it is no such list.

    Args:
        kind: the type.
        is_mixed: whether an int may stand where there are floats.
    """
    numbers = _kinds(kind, is_mixed) if isinstance(kind, value_types.NumberType) else None
    check = _check(kind, is_mixed)
    in_library: list[Any] = []

    def are_all(items: Any) -> bool:
        if not isinstance(items, list) or forward_ad._current_level >= 0:
            return False
        if numbers is not None:
            return set(map(type, items)) <= numbers
        if COMPILED.library is not None:
            if not in_library:
                in_library.append(COMPILED.library.Fits(_described(kind, is_mixed)).are_all)
            return bool(in_library[0](items))
        with torch._C.DisableTorchFunction():
            return all(map(check, items))

    return are_all


def _described(kind: value_types.Type | None, is_mixed: bool) -> tuple[Any, ...]:
    """Return the condition on an item as ``csrc/python/fits.cpp`` takes it: what that does not know, it asks Python."""
    match kind:
        case value_types.NumberType():
            return "class", tuple(_kinds(kind, is_mixed))
        case value_types.StringType():
            return "class", (str,)
        case value_types.SameType(known):
            return "same", known, _check(kind, is_mixed)
        case value_types.TaggedUnionType(options):
            return "any", tuple(_described(option, is_mixed) for option in options)
        case value_types.ListType(element):
            return "list", _described(element, is_mixed)
        case value_types.ContainerType(structure, items):
            inside = tuple(_described(item, is_mixed) for item in items)
            return _described_container(structure, inside) or ("python", _check(kind, is_mixed))
        case value_types.TensorType(dtype, device, sizes):
            known = tuple(None if size is value_types.DYNAMIC else size for size in sizes)
            gradient = None if tensor_traits.AUTOGRAD in kind.mixed else kind.requires_grad
            return "tensor", dtype, device, known, kind.strides, gradient, _check(kind, is_mixed)
    return "python", _check(kind, is_mixed)


def _described_container(structure: Structure, inside: tuple[Any, ...]) -> tuple[Any, ...] | None:
    match structure:
        case TupleOf(_, factory):
            return "tuple", factory or tuple, inside
        case DictOf(keys) if all(type(key) is str for key in keys):
            return "dict", keys, inside
        case ObjectOf(factory, fields):
            slots = slots_of(factory)
            by_name = dict(slots)
            return ("object", factory, fields, tuple(map(by_name.get, fields)), inside) if len(by_name) == len(slots) else None
    return None


def is_plain_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor of no special kind, and no weight."""
    if type(value) is not torch.Tensor or value.layout != torch.strided or refused_kind(value) is not None:
        return False
    requires_grad, is_leaf = tensor_traits.autograd_of(value)
    return not (requires_grad and is_leaf)


def _kinds(kind: value_types.NumberType, is_mixed: bool) -> set[type]:
    own = NUMBERS[kind.kind]
    return {own, int} if is_mixed and own is float else {own}


def _check(kind: value_types.Type | None, is_mixed: bool) -> _Check:
    match kind:
        case value_types.NumberType():
            kinds = _kinds(kind, is_mixed)
            return lambda value: type(value) in kinds
        case value_types.StringType():
            return lambda value: type(value) is str
        case value_types.SameType(known):
            return lambda value: value_types.same_constant(value, known)
        case value_types.TaggedUnionType(options):
            checks = [_check(option, is_mixed) for option in options]
            return lambda value: any(check(value) for check in checks)
        case value_types.ListType(element):
            check = _check(element, is_mixed)
            return lambda value: type(value) is list and all(map(check, value))
        case value_types.ContainerType(structure, items):
            return _container(structure, [_check(item, is_mixed) for item in items])
        case value_types.TensorType():
            return _tensor(kind)
    return lambda value: False


def _container(structure: Structure, checks: Sequence[_Check]) -> _Check:
    match structure:
        case TupleOf(items, factory):
            kind, count = factory or tuple, len(items)
            return lambda value: type(value) is kind and len(value) == count and _all(checks, value)  # type: ignore[arg-type]
        case DictOf(keys):
            kept = exact(keys)
            return lambda value: type(value) is dict and exact((*value,)) == kept and _all(checks, value.values())
        case ObjectOf(factory, fields):
            return _object(factory, fields, checks)
    return lambda value: False


def _all(checks: Sequence[_Check], parts: Collection[Any]) -> bool:
    """Tell whether what is in a container is right; in cells, where another thread runs a program that changes it."""
    return all(check(part.items[0] if type(part) is Cell else part) for check, part in zip(checks, parts))


def _object(factory: type, fields: Sequence[str], checks: Sequence[_Check]) -> _Check:
    names, count, is_simple = set(fields), len(fields), not has_slots(factory)

    def check(value: Any) -> bool:
        if type(value) is not factory:
            return False
        held = object.__getattribute__(value, "__dict__") if is_simple else attributes(value)
        if len(held) != count:
            held = attributes(value)  # this library has put something there
        return held.keys() == names and _all(checks, [held[name] for name in fields])

    return check


def _tensor(kind: value_types.TensorType) -> _Check:
    dtype, device, sizes, strides, rank = kind.dtype, kind.device, kind.sizes, kind.strides, len(kind.sizes)
    fixed = [(dim, size) for dim, size in enumerate(sizes) if size is not value_types.DYNAMIC]
    requires_grad, is_any = kind.requires_grad, tensor_traits.AUTOGRAD in kind.mixed

    def check(value: Any) -> bool:
        if type(value) is not torch.Tensor or value.dtype is not dtype or value.device != device or value.dim() != rank:
            return False
        shape = value.shape
        if value.layout is not torch.strided or value.is_nested:
            return False
        if not all(shape[dim] == size for dim, size in fixed) or not (strides is None or value.stride() == strides):
            return False
        own = value.requires_grad
        return (is_any or own is requires_grad) and not (own and tensor_traits.autograd_of(value)[1])

    return check
