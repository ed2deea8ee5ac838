"""Operators whose fake kernel asks which number a symbolic float is, as ``sub(a, b, alpha=x)`` does.

The kernel runs for two floats that are made up. Where it gives tensors of the same kinds and sizes for both, these are the results
for every float; the program calls the operator with the number that it has then.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves, tree_map, tree_structure

ACTS_FOR_USER = False

_MADE_UP = (0.375, 2.625)
"""Neither is what kernels ask for: 0, 1, 2 or a whole number."""
_ODD = (0.0, -1.5, float("inf"), float("nan"))
"""What a kernel may refuse, which handlers of the user's code would have to see."""


def of_any_float(func: Any, args: Any, kwargs: Any, error: Exception, is_caught: bool) -> Any:
    """Return what an operator gives whatever its symbolic floats are; ``NotImplemented`` where that is not known.

    Args:
        func: the operator.
        args, kwargs: its operands, abstract values among them.
        error: what it raises for them.
        is_caught: whether code of the user's may see what the operator raises for some floats.
    """
    leaves = tree_leaves((args, kwargs))
    if not isinstance(error, GuardOnDataDependentSymNode) or not any(isinstance(leaf, torch.SymFloat) for leaf in leaves):
        return NotImplemented
    if any(argument.alias_info is not None for argument in func._schema.arguments):
        return NotImplemented  # it would write twice
    results = []
    for number in (*_MADE_UP, *_ODD) if is_caught else _MADE_UP:
        try:
            given = tree_map(functools.partial(_with, number), (args, kwargs))
            results.append(func(*given[0], **given[1]))
        except (RuntimeError, ValueError):  # it takes some floats only
            return NotImplemented
    return results[0] if all(_are_alike(results[0], other) for other in results[1:]) else NotImplemented


def _with(number: float, leaf: Any) -> Any:
    return number if isinstance(leaf, torch.SymFloat) else leaf


def _are_alike(first: Any, second: Any) -> bool:
    pairs = zip(tree_leaves(first), tree_leaves(second))
    return tree_structure(first) == tree_structure(second) and all(
        isinstance(a, FakeTensor) and isinstance(b, FakeTensor) and _kind(a) == _kind(b) for a, b in pairs
    )


def _kind(tensor: torch.Tensor) -> Any:
    sizes = [size.node.expr if isinstance(size, torch.SymInt) else size for size in (*tensor.shape, *tensor.stride())]
    return tensor.dtype, tensor.device, tensor.dim(), tensor.requires_grad, sizes
