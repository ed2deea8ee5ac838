"""Which calls an executor may run without PyTorch: those of plain tensors that nobody observes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

GRADIENTS = "gradients are wanted"
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors whose operations are PyTorch's own."""


def unusual(values: Sequence[Any]) -> str | None:
    """Return why values or modes need PyTorch's own dispatch; ``None`` for plain tensors on the CPU without gradients.

    Args:
        values: what a program, or a part of it, is called with.

    Returns:
        The reason in words, for the reports of executors that run without PyTorch's operators.
    """
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return "a dispatch mode is on"
    if torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return "a transform of functions is on"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    grad = torch.is_grad_enabled()
    for value in values:
        if isinstance(value, torch.Tensor):
            if grad and value.requires_grad:
                return GRADIENTS
            if type(value) not in PLAIN or not value.is_cpu or value.layout is not torch.strided or value.is_neg():
                return "a tensor that is not a plain one on the CPU is given"
    return None
