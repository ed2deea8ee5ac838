"""Shapes of torch's recurrent layers when the length of the sequence is known only at run time.

torch computes them by running the layer step by step, which needs the number of steps. The shapes do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dy2st_runtime.ir.operators import present


def _lstm(x: Any, states: Any, parameters: Any, biases: bool, layers: int, *rest: Any) -> tuple[torch.Tensor, ...]:
    hidden, cell = states
    return (_output(x, hidden, layers), torch.empty_like(hidden), torch.empty_like(cell))


def _plain(x: Any, hidden: Any, parameters: Any, biases: bool, layers: int, *rest: Any) -> tuple[torch.Tensor, ...]:
    return (_output(x, hidden, layers), torch.empty_like(hidden))


def _output(x: torch.Tensor, hidden: torch.Tensor, layers: int) -> torch.Tensor:
    directions = hidden.shape[0] // layers
    return hidden.new_empty([*x.shape[:-1], directions * hidden.shape[-1]])


_FUNCTIONS: dict[Any, Callable[..., tuple[torch.Tensor, ...]]] = {
    **dict.fromkeys(present("lstm.input"), _lstm),
    **dict.fromkeys(present("gru.input", "rnn_tanh.input", "rnn_relu.input"), _plain),
}


def shapes_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
    """Return the results of a recurrent layer on a sequence of unknown sizes; ``None`` for any other operation."""
    function = _FUNCTIONS.get(func)
    if function is None or kwargs or all(type(size) is int for size in args[0].shape):
        return None
    result = function(*args)
    tensors = [args[0], *args[2], *(args[1] if isinstance(args[1], (tuple, list)) else (args[1],))]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return result
    return tuple(tensor.requires_grad_().clone() for tensor in result)
