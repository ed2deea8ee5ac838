"""Operators that make tensors of no other tensor: eager's Python functions call them below autograd, so versions begin at 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def is_factory(target: torch._ops.OpOverload) -> bool:
    """Return whether an operator makes tensors of numbers alone, as ``aten.zeros`` does."""
    arguments = target._schema.arguments
    return any(argument.name == "pin_memory" for argument in arguments) and not any(
        isinstance(argument.type, torch.TensorType) for argument in arguments
    )


def below_autograd(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another as ``torch.zeros`` calls its operator: what it fills in place is no version."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return function(*args, **kwargs)

    return call
