"""Operators that eager calls with numbers of any size: bounds of a slice beyond 64 bits are as good as the last that fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LEAST, _MOST = -(2**63), 2**63 - 1
_slice, _select = torch.ops.aten.slice.Tensor._op, torch.ops.aten.select.int._op


def _fits(value: Any) -> bool:
    return not isinstance(value, int) or _LEAST <= value <= _MOST


def _bounded(value: Any) -> Any:
    return value if _fits(value) else min(max(value, _LEAST), _MOST)


def slice_of(tensor: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Return ``aten.slice``, with bounds that may be of any size."""
    try:
        return _slice(tensor, dim, start, end, step)
    except RuntimeError:
        if all(map(_fits, (start, end, step))):
            raise
        return _slice(tensor, dim, *map(_bounded, (start, end, step)))


def select_of(tensor: torch.Tensor, dim: int, index: Any) -> Any:
    """Return ``aten.select``, with the error that indexing raises for an index of any size.

    Raises:
        ValueError: the index does not fit into 64 bits.
    """
    try:
        return _select(tensor, dim, index)
    except RuntimeError:
        if _fits(index):
            raise
        raise ValueError("Overflow when unpacking long long") from None


OF_ANY_SIZE: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.slice.Tensor: slice_of,
    torch.ops.aten.select.int: select_of,
}
"""What to call in the place of an operator."""
