"""``torch.autograd.grad`` in a program, where it depends on the call which inputs have a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def gradients(unsure: Sequence[int], inputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return the gradients of the inputs, then for each unsure one whether it has any.

    Args:
        unsure: positions of inputs that may have none; zeros stand in the place of a gradient that does not exist.
        inputs: what to differentiate with respect to.
        *args, **kwargs: the other arguments of :func:`torch.autograd.grad`, outputs first.
    """
    outputs, *rest = args
    results: list[Any] = list(torch.autograd.grad(outputs, inputs, *rest, **kwargs))
    used = [int(results[position] is not None) for position in unsure]
    for position in unsure:
        if results[position] is None:
            results[position] = torch.zeros_like(inputs[position])
    return (*results, *used)
