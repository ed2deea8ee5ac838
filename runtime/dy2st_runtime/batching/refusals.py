"""What a program does that cannot be done for several examples at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from dy2st_runtime.errors import BatchError
from dy2st_runtime.ir.program import Program
from dy2st_runtime.primitives import control, gradients, random_state

_SEEDS = (
    random_state.manual_seed, random_state.seed, random_state.initial_seed, random_state.get_rng_state, random_state.set_rng_state,
    random_state.seed_device, random_state.get_device_rng_state, random_state.set_device_rng_state,
)  # fmt: skip


def check(program: Program, existing: Mapping[int, Any]) -> None:
    """Check that a program can be run for several examples at once.

    Args:
        program: captured for one example.
        existing: containers among its results that come from outside.

    Raises:
        BatchError: it cannot, with the user's line.
    """
    for effect in program.effects:
        if effect.kind != "set" or effect.in_place or effect.target.startswith("arguments["):
            raise BatchError(
                f"{program.origin}: {program.name} changes {effect.target}, which the examples share; return what it writes instead"
            )
    for node in program.nodes():
        where = node.meta.get("location") or program.origin
        if node.target in _SEEDS:
            raise BatchError(
                f"{where}: {program.name} reads or sets the state of PyTorch's generator, which the examples share; draw from a "
                "torch.Generator of its own"
            )
        if node.target is torch.ops.aten.requires_grad_.default or _runs_autograd(node):
            raise BatchError(
                f"{where}: {program.name} runs the backward pass for an example, which autograd knows as a part of a batch only; "
                "use torch.func.grad in it, or take the gradients of the batch"
            )
    if not all(isinstance(value, tuple) for value in existing.values()):
        raise BatchError(
            f"{program.origin}: {program.name} gives back a list, dict or object from outside, which the examples share; return a "
            "new one instead"
        )


def _runs_autograd(node: fx.Node) -> bool:
    return node.target is control.call_ and getattr(node.args[0], "__module__", "") == gradients.__name__
