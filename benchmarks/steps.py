"""Whole steps of training: forward, backward, and the optimizer. They change the weights too little to change the work."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.case import WORKLOADS, Case, workload

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


class Epoch:
    """Many steps of an MLP in one call: as many as a tensor says."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, xs: Tensor, count: Tensor) -> Tensor:
        """Train; returns the sum of the losses."""
        total = torch.zeros(())
        for i in range(int(count)):
            optimizer.zero_grad()
            loss = model(xs[i % xs.shape[0]]).mean()
            loss.backward()
            optimizer.step()
            total = total + loss.detach()
        return total


def _step_of(name: str, optimizer: Callable[[list[Tensor]], torch.optim.Optimizer]) -> None:
    """Register the whole step of a workload that trains."""
    make = WORKLOADS[name]

    @workload(name.removesuffix("-train") + "-step")
    def _step() -> Case:
        case = make()
        return Case(case.function, case.calls, train=True, tolerance=case.tolerance, optimizer=optimizer)


for _name, _optimizer in {"lenet-train": _sgd, "tiny-loop-train": _sgd, "dopri5-train": _adamw, "lstm-train": _adamw}.items():
    if _name in WORKLOADS:
        _step_of(_name, _optimizer)
