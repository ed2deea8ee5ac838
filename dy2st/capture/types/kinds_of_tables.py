"""The types of the keys of dicts from outside, and of what is under them: those that a program takes as lists of any length."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.ir.structure import TupleOf

Kinds = tuple[value_types.Type | None, value_types.Type | None]
"""The types of the keys, and of what is under them; ``None`` where there is nothing."""


def of(table: Any) -> Kinds | None:
    """Return the types of what is in a dict or set; ``None`` where a program cannot be given that in a list."""
    held = storage.plain(table)
    parts = (list(held), list(held.values()) if isinstance(table, dict) else [])
    try:
        keys, values = (lasting(functools.reduce(lattice.join_elements, map(_kind_of, part), None)) for part in parts)
    except (mismatches.Mismatch, TypeError):
        return None
    return keys, values


def _kind_of(value: Any) -> value_types.Type:
    if type(value) in (bool, int, float):
        return value_types.NumberType(type(value).__name__)
    if type(value) is str:
        return value_types.StringType()
    if value is None:
        return value_types.SameType(None)
    if type(value) is tuple:
        structure: Any = shallow(value)[1]
        return value_types.ContainerType(structure, tuple(map(_kind_of, value)))
    if type(value) is torch.Tensor and value.layout == torch.strided:
        return value_types.TensorType.of(value)
    raise TypeError(f"a program has no {type(value).__name__} in a list that differs from call to call")


def lasting(kind: value_types.Type | None) -> value_types.Type | None:
    """Return a type as the next call can check it, without sizes of this call's inputs.

    Raises:
        TypeError: the next call cannot be given that in a list.
    """
    match kind:
        case None | value_types.NumberType() | value_types.StringType():
            return kind
        case value_types.SameType(value) if value is None or type(value) in (bool, int, float, str):
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
    raise TypeError(f"a program is not given {mismatches.text(kind)} in a list that differs from call to call")


def fit(kind: value_types.Type | None, items: Any) -> bool:
    """Tell whether all items of a list are of a type."""
    return isinstance(items, list) and all(_fits(kind, item) for item in items)


def _fits(kind: value_types.Type | None, value: Any) -> bool:
    match kind:
        case value_types.NumberType(name):
            return type(value).__name__ == name
        case value_types.StringType():
            return type(value) is str
        case value_types.SameType(known):
            return value_types.same_constant(value, known)
        case value_types.TaggedUnionType(options):
            return any(_fits(option, value) for option in options)
        case value_types.ContainerType(TupleOf(_, None), items):
            return type(value) is tuple and len(value) == len(items) and all(map(_fits, items, value))
        case value_types.TensorType():
            is_plain = type(value) is torch.Tensor and value.layout == torch.strided
            return is_plain and _fits_tensor(kind, value_types.TensorType.of(value))
    return False


def _fits_tensor(kind: value_types.TensorType, own: value_types.TensorType) -> bool:
    """Tell whether a tensor is one of a type, given its own: of any size where that differs, and with or without a gradient."""
    sizes = len(kind.sizes) == len(own.sizes) and all(
        size is value_types.DYNAMIC or size == mine for size, mine in zip(kind.sizes, own.sizes)
    )
    alike = (kind.dtype, kind.device, kind.kind) == (own.dtype, own.device, own.kind)
    return sizes and alike and kind.strides in (None, own.strides) and (kind.requires_grad or not own.requires_grad)
