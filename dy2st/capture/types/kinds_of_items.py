"""The types of items of lists and dicts from outside that a program takes as lists of any length."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from dy2st.capture.types import lattice, mismatches, tensor_traits, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import refused_kind
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.ir.structure import TupleOf

Kinds = tuple[value_types.Type | None, value_types.Type | None]
"""The types of the keys, and of what is under them; ``None`` where there is nothing."""

_CONSTANTS = (type(None), enum.Enum, torch.dtype, torch.device)
_NUMBERS = {"bool": bool, "int": int, "float": float}


def of(table: Any) -> Kinds | None:
    """Return the types of what is in a dict or set; ``None`` where a program cannot be given that in a list."""
    held = storage.plain(table)
    try:
        return of_items(list(held)), of_items(list(held.values()) if isinstance(table, dict) else [])
    except TypeError:
        return None


def of_items(items: Sequence[Any]) -> value_types.Type | None:
    """Return the type of the items of a list; ``None`` where there is none.

    Raises:
        TypeError: a program cannot be given them in a list.
    """
    try:
        result = lasting(functools.reduce(lattice.join_elements, map(_kind_of, items), None))
    except mismatches.Mismatch as error:
        raise TypeError(error.told("an item", "another one")) from None
    if not fit(result, list(items), is_mixed=True):
        raise TypeError("tensors as forward-mode differentiation has them")
    return result


def condition(kind: value_types.Type | None, items: list[Any]) -> Callable[[Any], bool]:
    """Return what tells whether the items of a list are of a type; ints are among floats only where there are some now."""
    is_mixed = not fit(kind, items)
    if is_mixed:
        lattice.mix_numbers({"int", "float"})
    return functools.partial(fit, kind, is_mixed=is_mixed)


def _kind_of(value: Any) -> value_types.Type:
    if type(value) in _NUMBERS.values():
        return value_types.NumberType(type(value).__name__)
    if type(value) is str:
        return value_types.StringType()
    if isinstance(value, _CONSTANTS):
        return value_types.SameType(value)
    if type(value) is tuple:
        structure: Any = shallow(value)[1]
        return value_types.ContainerType(structure, tuple(map(_kind_of, value)))
    if _is_plain(value):
        return value_types.TensorType.of(value)
    raise TypeError(f"a {type(value).__qualname__}{' that is a leaf with a gradient' if type(value) is torch.Tensor else ''}")


def _is_plain(value: Any) -> bool:
    """Tell whether a value is a tensor of no special kind, and no weight."""
    if type(value) is not torch.Tensor or value.layout != torch.strided or refused_kind(value) is not None:
        return False
    requires_grad, is_leaf = tensor_traits.autograd_of(value)
    return not (requires_grad and is_leaf)


def lasting(kind: value_types.Type | None) -> value_types.Type | None:
    """Return a type as the next call can check it, without sizes of this call's inputs.

    Raises:
        TypeError: the next call cannot be given that in a list.
    """
    match kind:
        case None | value_types.NumberType() | value_types.StringType():
            return kind
        case value_types.SameType(value) if isinstance(value, _CONSTANTS) or type(value) in (*_NUMBERS.values(), str):
            return kind
        case value_types.TaggedUnionType(options):
            return value_types.TaggedUnionType(tuple(map(lasting, options)))
        case value_types.ContainerType(TupleOf(_, None) as structure, items):
            return value_types.ContainerType(structure, tuple(map(lasting, items)))
        case value_types.TensorType() if kind.kind is torch.Tensor:
            sizes = tuple(size if isinstance(size, int) else value_types.DYNAMIC for size in kind.sizes)
            known = kind.strides is not None and all(isinstance(stride, int) for stride in kind.strides)
            strides = kind.strides if known and value_types.DYNAMIC not in sizes else None
            return dataclasses.replace(kind, sizes=sizes, strides=strides, is_leaf=False)
    raise TypeError(mismatches.text(kind))


def fit(kind: value_types.Type | None, items: Any, is_mixed: bool = False) -> bool:
    """Tell whether all items of a list are of a type.

    Args:
        kind: the type.
        items: the list, or anything else.
        is_mixed: whether an int may stand where there are floats.
    """
    if not isinstance(items, list) or forward_ad._current_level >= 0:
        return False
    if isinstance(kind, value_types.NumberType):
        return set(map(type, items)) <= _kinds(kind, is_mixed)
    return all(_fits(kind, item, is_mixed) for item in items)


def _kinds(kind: value_types.NumberType, is_mixed: bool) -> set[type]:
    own = _NUMBERS[kind.kind]
    return {own, int} if is_mixed and own is float else {own}


def _fits(kind: value_types.Type | None, value: Any, is_mixed: bool) -> bool:
    match kind:
        case value_types.NumberType():
            return type(value) in _kinds(kind, is_mixed)
        case value_types.StringType():
            return type(value) is str
        case value_types.SameType(known):
            return value_types.same_constant(value, known)
        case value_types.TaggedUnionType(options):
            return any(_fits(option, value, is_mixed) for option in options)
        case value_types.ContainerType(TupleOf(_, None), items):
            is_alike = type(value) is tuple and len(value) == len(items)
            return is_alike and all(_fits(item, part, is_mixed) for item, part in zip(items, value))
        case value_types.TensorType():
            return _is_plain(value) and _fits_tensor(kind, value_types.TensorType.of(value))
    return False


def _fits_tensor(kind: value_types.TensorType, own: value_types.TensorType) -> bool:
    """Tell whether a tensor is one of a type, given its own: of any size, with or without a gradient, where that differs."""
    sizes = len(kind.sizes) == len(own.sizes) and all(
        size is value_types.DYNAMIC or size == mine for size, mine in zip(kind.sizes, own.sizes)
    )
    alike = (kind.dtype, kind.device, kind.kind) == (own.dtype, own.device, own.kind)
    as_known = kind.requires_grad == own.requires_grad or tensor_traits.AUTOGRAD in kind.mixed
    return sizes and alike and as_known and kind.strides in (None, own.strides)
