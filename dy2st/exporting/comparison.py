"""Whether an exported model does what the program does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from dy2st.lowering.values import as_tensor
from dy2st_runtime.ir.flattening import flatten

_TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float16: (3e-3, 3e-3),
}
"""Relative and absolute, by dtype; everything else must be equal."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far two results are apart.

    Attributes:
        largest: the largest absolute difference of two numbers.
        problem: why they are not the same; ``None`` if they are.
    """

    largest: float
    problem: str | None = None


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Return the tensors and numbers of a result, in order, all as tensors."""
    leaves, _ = flatten(result, lambda part: isinstance(part, (torch.Tensor, bool, int, float)))
    return [leaf if isinstance(leaf, torch.Tensor) else as_tensor(leaf) for leaf in leaves]


def compare(
    results: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    rtol: float | None,
    atol: float | None,
    names: Sequence[str] | None = None,
) -> Difference:
    """Compare tensors one by one.

    Args:
        results: what the exported model gives.
        expected: what the program gives.
        rtol, atol: tolerances; by dtype if left out.
        names: of the tensors, for the message.
    """
    if len(results) != len(expected):
        return Difference(math.inf, f"{len(results)} results instead of {len(expected)}")
    largest = 0.0
    for number, (mine, theirs) in enumerate(zip(results, expected)):
        name = f"result {number}" if names is None else names[number]
        mine, theirs = mine.detach(), theirs.detach()
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return Difference(math.inf, f"{name} is {_kind(mine)} instead of {_kind(theirs)}")
        distance = _distance(mine, theirs)
        largest = max(largest, distance)
        relative, absolute = _TOLERANCES.get(theirs.dtype, (0.0, 0.0))
        close = torch.allclose(
            mine, theirs, rtol=relative if rtol is None else rtol, atol=absolute if atol is None else atol, equal_nan=True
        )
        if not close:
            return Difference(largest, f"{name} differs by {distance:.3g}")
    return Difference(largest)


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _distance(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    if not mine.numel():
        return 0.0
    wide = torch.complex128 if mine.is_complex() else torch.float64
    same = (mine == theirs) | ((mine != mine) & (theirs != theirs))
    apart = torch.where(same, 0.0, (mine.to(wide) - theirs.to(wide)).abs())
    return float(apart.max())
