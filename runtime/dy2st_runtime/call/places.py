"""Where the values of a loaded module are: those of its attributes, and gradients of its tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dy2st_runtime.call.effects import item
from dy2st_runtime.errors import LoadError
from dy2st_runtime.ir.paths import Path

GRADIENT = "grad"


def value_at(module: nn.Module, path: Path) -> Any:
    """Return what is at a place of a module."""
    if (tensor := holder_of_gradient(module, path)) is not None:
        return tensor.grad
    owner = module
    for name in path.owner:
        owner = owner._modules[name]  # type: ignore[assignment]  # the module was built with it
    for table in (owner._parameters, owner._buffers, owner.__dict__):
        if path.name in table:
            return item(table[path.name], path.items)
    return getattr(owner, path.name)  # what a parametrization computes


def holder_of_gradient(module: nn.Module, path: Path) -> torch.Tensor | None:
    """Return the tensor whose gradient is at a place; ``None`` where an attribute of a module is."""
    if path.name != GRADIENT or path.items or not path.owner:
        return None
    owner: nn.Module | None = module
    for name in path.owner[:-1]:
        owner = None if owner is None else owner._modules.get(name)
    if owner is None:
        return None
    tables = (owner._parameters, owner._buffers, owner.__dict__)
    held = next((table[path.owner[-1]] for table in tables if path.owner[-1] in table), None)
    return held if isinstance(held, torch.Tensor) else None


def give_gradient(tensor: torch.Tensor, name: str, value: Any) -> None:
    """Give a tensor the gradient that a file has for it.

    Raises:
        LoadError: it is none of such a tensor.
    """
    try:
        tensor.grad = value
    except (RuntimeError, TypeError) as error:
        raise LoadError(f"program.json: {name} is no gradient of the tensor that it is for: {error}") from None
