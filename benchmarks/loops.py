"""Workloads made of many small operations: loops, a chain, a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.case import Case, workload

TRIPS = 100


def tiny_loop(x: Tensor, y: Tensor, trips: Tensor) -> Tensor:
    """Return a loop of small operations; a tensor decides its length."""
    i = torch.zeros((), dtype=torch.int64)
    while i < trips:
        x = torch.tanh(x * y + 0.1)
        x = x - 0.5 * y
        i = i + 1
    return x


def tiny_loop_hop(x: Tensor, y: Tensor, trips: Tensor) -> Tensor:
    """:func:`tiny_loop` by hand."""

    def going(i: Tensor, x: Tensor) -> Tensor:
        return i < trips

    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.tanh(x * y + 0.1) - 0.5 * y

    result: Any = torch._higher_order_ops.while_loop(going, body, (torch.zeros((), dtype=torch.int64), x))
    return result[1]  # type: ignore[no-any-return]


def _tiny_loop_calls(train: bool) -> list[tuple[Tensor, ...]]:
    torch.manual_seed(0)
    x, y = (torch.randn(8, 8, requires_grad=train) for _ in range(2))
    return [(x, y, torch.tensor(TRIPS))]


@workload("tiny-loop")
def _tiny_loop() -> Case:
    return Case(tiny_loop, _tiny_loop_calls(False), hop=tiny_loop_hop)


@workload("tiny-loop-train")
def _tiny_loop_train() -> Case:
    return Case(tiny_loop, _tiny_loop_calls(True), train=True, hop=tiny_loop_hop)


def chain(x: Tensor) -> Tensor:
    """200 small operations one after the other."""
    for _ in range(50):
        x = torch.relu(x * 1.01 + 0.01) - 0.005
    return x


@workload("chain-200")
def _chain() -> Case:
    torch.manual_seed(0)
    return Case(chain, [(torch.randn(8, 8),)])


def one_operation(x: Tensor, y: Tensor) -> Tensor:
    """Do as little as a function can do."""
    return x + y


@workload("call")
def _call() -> Case:
    return Case(one_operation, [(torch.ones(8, 8), torch.ones(8, 8))], overhead=True)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm as models spell it out."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@workload("rms-norm-4096")
def _rms_norm() -> Case:
    torch.manual_seed(0)
    return Case(rms_norm, [(torch.randn(4096, 4096), torch.randn(4096))])
