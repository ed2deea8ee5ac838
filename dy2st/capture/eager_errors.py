"""What eager raises where an operation refuses its operands: stand-ins are checked by other code, which words it its own way."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

_MOST_BYTES = 2**24
"""Of operands that are made only to hear what eager says."""


def of_eager(func: Any, args: Any, kwargs: Any) -> Exception | None:
    """The exception that an operation raises for real operands of the same dtypes, sizes and strides.

    Args:
        func: the operator.
        args: its operands, stand-ins among them.
        kwargs: the same.

    Returns:
        ``None`` where it raises none, or where that cannot be tried: sizes are not known, or large; it draws random numbers; it
        belongs to a library.
    """
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
        return None
    if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves) or not all(map(_is_small, tensors)):
        return None
    with _disable_current_modes(), torch.no_grad():
        args, kwargs = tree_map_only(FakeTensor, _real, (args, kwargs))
        try:
            func(*args, **kwargs)
        except Exception as error:
            return error.with_traceback(None)
    return None


def _is_small(tensor: torch.Tensor) -> bool:
    """Whether a stand-in is for a plain tensor on the CPU that takes little memory."""
    if not isinstance(tensor, FakeTensor) or tensor.layout != torch.strided or tensor.fake_device.type != "cpu":
        return False
    sizes = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    return all(type(size) is int for size in sizes) and tensor.untyped_storage().nbytes() <= _MOST_BYTES


def _real(tensor: FakeTensor) -> torch.Tensor:
    made = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(made, tensor.storage_offset(), tensor.shape, tensor.stride())
