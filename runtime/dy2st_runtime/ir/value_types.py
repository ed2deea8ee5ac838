"""What a capture wrote down about values: ``f32[u0, 4]``, ``int``, ``(f32[2], i64[])``."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.printing import short_dtype

NUMBERS = frozenset({"int", "float", "bool"})
_TENSOR = re.compile(r"([a-z]\w*)\[([^\[\]]*)\]")
_INEXACT = frozenset(
    short_dtype(dtype)
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex)
)


def type_of(value: Any) -> str:
    """Return the type of a node or constant as a capture writes it; empty when unknown."""
    if isinstance(value, fx.Node):
        return str(value.meta.get("type", ""))
    return type(value).__name__ if type(value).__name__ in NUMBERS else ""


def tensor_type(value: Any) -> tuple[str, tuple[str, ...]] | None:
    """Return the short dtype and the sizes of one tensor; a size is a number or the name of a symbol."""
    result = _TENSOR.fullmatch(type_of(value))
    if result is None:
        return None
    dtype, sizes = result.groups()
    return dtype, tuple(sizes.split(", ")) if sizes else ()


def static_sizes(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of a tensor when none of them differs from call to call."""
    result = tensor_type(value)
    if result is None or not all(size.isdecimal() for size in result[1]):
        return None
    return tuple(map(int, result[1]))


def is_number(value: Any, kinds: frozenset[str] = NUMBERS) -> bool:
    """Tell whether it is a Python number, of one of some kinds."""
    return type_of(value) in kinds


def may_have_gradient(value: Any) -> bool:
    """Tell whether autograd may look at a value: all but integers, booleans and numbers, in tuples too."""
    text = type_of(value)
    if text in NUMBERS:
        return False
    result = _TENSOR.findall(text)
    whole = _TENSOR.fullmatch(text) or (text.startswith("(") and "?" not in text)
    return not (whole and result) or any(dtype in _INEXACT for dtype, _ in result)
