"""Results of collectives that nobody has waited for: torch has a class of tensors for them, which waits where it is first used."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

_WAITING = "torch.distributed._functional_collectives"


def is_awaited(value: Any) -> bool:
    """Tell whether a tensor is one that waits for a collective."""
    kind = getattr(sys.modules.get(_WAITING), "AsyncCollectiveTensor", None)
    return kind is not None and isinstance(value, kind)


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, waiting: Any) -> torch.Tensor:
        return waiting.trigger_wait()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def waited(values: Any) -> Any:
    """Return values with plain tensors in the place of those that wait."""
    if _WAITING not in sys.modules:
        return values
    return tree_map_only(torch.Tensor, _waited, values)


def _waited(value: torch.Tensor) -> Any:
    return _Wait.apply(value) if is_awaited(value) else value  # type: ignore[no-untyped-call]
