"""Operands that are made up: real tensors of the kinds of abstract ones, on which a real kernel shows what it gives."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from dy2st_runtime.primitives import random_state

ACTS_FOR_USER = False

_MOST_BYTES = 1 << 24
"""Of the operands that are made up; where they would be larger, sizes above :data:`_LARGE` are taken to be smaller."""
_LARGE = 32
_SIZES: tuple[Callable[[int, int], int], ...] = (
    lambda position, run: 8 * (position + 1 + run),  # kernels often ask for aligned rows
    lambda position, run: 2 + position + run,
    lambda position, run: 8 * (1 + run),
    lambda position, run: 1 + run,
)
"""What the symbols of sizes are taken to be, from their position, in two runs; all equal where different ones do not fit."""
Values = dict[Any, int]
"""What symbols, and large sizes, are taken to be."""
Fill = Callable[[torch.Tensor], Any]


def positive(tensor: torch.Tensor) -> None:
    """Fill a tensor with positive numbers, or zeros where it has whole ones."""
    if tensor.is_floating_point():
        tensor.uniform_(0.5, 1.5)
    else:
        tensor.zero_()


def any_sign(tensor: torch.Tensor) -> None:
    """Fill a tensor with numbers of both signs, or zeros and ones."""
    if tensor.is_floating_point():
        tensor.normal_()
    else:
        tensor.random_(0, 2)


_zero: Fill = torch.Tensor.zero_
_CONTENTS: tuple[tuple[Fill, Fill], ...] = (
    (positive, any_sign),
    (positive, positive),
    (torch.Tensor.zero_, torch.Tensor.zero_),
)
"""What the operands hold in the two runs: a size that follows from that is no constant."""


def symbols_of(tensors: Sequence[torch.Tensor], told: Sequence[torch.SymInt] = ()) -> list[Any]:
    """Return the symbols in the sizes of tensors, and the large sizes of those that would take much memory.

    Args:
        tensors: the operands.
        told: numbers among the arguments that sizes of the result follow from.
    """
    given = [*_sizes_of(tensors), *(number.node.expr for number in told)]
    results: list[Any] = sorted({symbol for expr in given for symbol in expr.free_symbols}, key=str)
    if _bytes(tensors, dict.fromkeys(results, 1)) > _MOST_BYTES:
        results += sorted({size for tensor in tensors for size in tensor.shape if type(size) is int and size > _LARGE})
    return results


def choices(symbols: Sequence[Any]) -> Iterator[list[tuple[Values, Fill]]]:
    """Yield what symbols may be taken to be and what operands hold, in two runs, the most telling first."""
    for values in sizes(symbols, 2):
        for fills in _CONTENTS:
            yield list(zip(values, fills))


def sizes(symbols: Sequence[Any], runs: int) -> Iterator[list[Values]]:
    """Yield what symbols may be taken to be in so many runs, the most telling first."""
    for size in _SIZES if symbols else _SIZES[:1]:
        yield [{symbol: size(position, run) for position, symbol in enumerate(symbols)} for run in range(runs)]


def run(func: Any, args: Any, kwargs: Any, values: Values, fill: Fill) -> Any:
    """Return what the real kernel gives for made-up operands.

    Raises:
        Exception: what it raises for them, or they would be too large.
    """

    def real(value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return taken(value, values)
        return like(value, values, fill) if isinstance(value, torch.Tensor) else value

    if _bytes([leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)], values) > _MOST_BYTES:
        raise MemoryError("the operands would be too large")
    with _disable_current_modes(), random_state.kept(), quietly():
        operands = tree_map(real, (args, kwargs))
        return func(*operands[0], **operands[1])


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Open a scope in which kernels do not warn of what they get."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def like(tensor: torch.Tensor, values: Values, fill: Fill, most_bytes: int = _MOST_BYTES) -> torch.Tensor:
    """Return a real tensor of the kind of an abstract one.

    Raises:
        MemoryError: it would have more bytes.
    """
    if _bytes([tensor], values) > most_bytes:
        raise MemoryError("the operands would be too large")
    strides = sorted(range(tensor.dim()), key=lambda dim: _order(tensor, dim))
    shape = [taken(size, values) for size in tensor.shape]
    result = torch.empty([shape[dim] for dim in strides], dtype=tensor.dtype, device=tensor.device)
    fill(result)
    return result.permute([strides.index(dim) for dim in range(tensor.dim())]).requires_grad_(tensor.requires_grad)


def taken(size: Any, values: Values) -> int:
    """Return what a size is taken to be: symbolic, or large."""
    if not isinstance(size, torch.SymInt):
        return int(values.get(size, size))
    return int(size.node.expr.xreplace({symbol: value for symbol, value in values.items() if isinstance(symbol, sympy.Symbol)}))


def _bytes(tensors: Sequence[torch.Tensor], values: Values) -> int:
    return sum(tensor.itemsize * math.prod(taken(size, values) for size in tensor.shape) for tensor in tensors)


def _order(tensor: torch.Tensor, dim: int) -> tuple[int, int]:
    """Return a key that sorts dimensions by falling stride, where strides are known, and else as they come."""
    stride = tensor.stride(dim)
    return (-stride if type(stride) is int and all(type(s) is int for s in tensor.stride()) else 0, dim)


def _sizes_of(tensors: Sequence[torch.Tensor]) -> Iterator[sympy.Expr]:
    for tensor in tensors:
        for size in tensor.shape:
            if isinstance(size, torch.SymInt):
                yield size.node.expr
