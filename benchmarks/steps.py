"""Whole steps of training: forward, backward, and the optimizer. They change the weights too little to change the work."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks import loops, models, ode, recurrent
from benchmarks.case import WORKLOADS, Case, workload

assert loops and models and ode and recurrent, "importing them registers what is trained here"

_LITTLE = 1e-6


def _adamw(leaves: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(leaves, lr=_LITTLE)


def _sgd(leaves: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(leaves, lr=_LITTLE, momentum=0.9)


@workload("mlp-step")
def _mlp() -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return Case(model, [(torch.randn(32, 64),)], train=True, optimizer=_adamw)


def _step_of(name: str, optimizer: Callable[[list[Tensor]], torch.optim.Optimizer]) -> None:
    """Register the whole step of a workload that trains."""
    make = WORKLOADS[name]

    @workload(name.removesuffix("-train") + "-step")
    def _step() -> Case:
        case = make()
        return Case(case.function, case.calls, train=True, tolerance=case.tolerance, optimizer=optimizer)


for _name, _optimizer in {"lenet-train": _sgd, "tiny-loop-train": _sgd, "dopri5-train": _adamw, "lstm-train": _adamw}.items():
    _step_of(_name, _optimizer)
