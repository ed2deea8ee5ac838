"""Arguments for program tests: the same program runs on values that send it down every path."""

from __future__ import annotations

from typing import Any

import torch

DTYPES = [torch.float64, torch.int64]


def vec(*items: float, dtype: torch.dtype = torch.float64, grad: bool = False) -> torch.Tensor:
    """A vector."""
    return torch.tensor(items, dtype=dtype).requires_grad_(grad)


def num(item: float, dtype: torch.dtype = torch.float64, grad: bool = False) -> torch.Tensor:
    """A tensor without dimensions."""
    return torch.tensor(item, dtype=dtype).requires_grad_(grad)


def signs(dtype: torch.dtype = torch.float64, grad: bool = False) -> list[Any]:
    """Vectors with a positive, a negative and a zero sum."""
    return [vec(*items, dtype=dtype, grad=grad) for items in ((1, 2, 3), (-1, -2, -3), (-1, 0, 1), (5, -1, 0))]


def counts(*items: int) -> list[Any]:
    """Integers as tensors, for the numbers of iterations."""
    return [torch.tensor(item) for item in items or (3, 0, 1, 7)]
