"""A solver of differential equations that accepts and rejects its steps: Dormand and Prince's 5(4) pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.case import Case, workload


def _step(y: Tensor, weight: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Return where a step leads, and its error as a share of what is allowed."""
    k1 = torch.tanh(y @ weight)
    k2 = torch.tanh((y + h * (0.2 * k1)) @ weight)
    k3 = torch.tanh((y + h * (0.075 * k1 + 0.225 * k2)) @ weight)
    k4 = torch.tanh((y + h * (44 / 45 * k1 - 56 / 15 * k2 + 32 / 9 * k3)) @ weight)
    k5 = torch.tanh((y + h * (19372 / 6561 * k1 - 25360 / 2187 * k2 + 64448 / 6561 * k3 - 212 / 729 * k4)) @ weight)
    k6 = torch.tanh((y + h * (9017 / 3168 * k1 - 355 / 33 * k2 + 46732 / 5247 * k3 + 49 / 176 * k4 - 5103 / 18656 * k5)) @ weight)
    proposal = y + h * (35 / 384 * k1 + 500 / 1113 * k3 + 125 / 192 * k4 - 2187 / 6784 * k5 + 11 / 84 * k6)
    k7 = torch.tanh(proposal @ weight)
    error = h * (
        71 / 57600 * k1 - 71 / 16695 * k3 + 71 / 1920 * k4 - 17253 / 339200 * k5 + 22 / 525 * k6 - 1 / 40 * k7
    )  # fmt: skip
    return proposal, (error / (1e-4 + 1e-4 * y.abs())).square().mean().sqrt()


def dopri5(y: Tensor, weight: Tensor, end: Tensor) -> Tensor:
    """Solve dy/dt = tanh(y w) up to a time; each step's error sets the next one."""
    t = torch.zeros_like(end)
    h = end * 0.5
    while t < end:
        h = torch.minimum(h, end - t)
        proposal, share = _step(y, weight, h)
        if share <= 1:
            y = proposal
            t = t + h
        h = h * (0.9 * (share + 1e-9) ** -0.2).clamp(0.2, 5.0)
    return y


def dopri5_hop(y: Tensor, weight: Tensor, end: Tensor) -> Tensor:
    """:func:`dopri5` by hand, with both sides of the branch computed: what carries a gradient later must from the start."""

    def going(t: Tensor, h: Tensor, y: Tensor) -> Tensor:
        return t < end

    def body(t: Tensor, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = torch.minimum(h, end - t)
        proposal, share = _step(y, weight, h)
        accepted = share <= 1
        y, t = torch.where(accepted, proposal, y), torch.where(accepted, t + h, t)
        return t, h * (0.9 * (share + 1e-9) ** -0.2).clamp(0.2, 5.0), y

    zero = 0 * weight.sum()
    result: Any = torch._higher_order_ops.while_loop(going, body, (torch.zeros_like(end) + zero, end * 0.5 + zero, y + zero))
    return result[2]  # type: ignore[no-any-return]


def _calls(train: bool) -> list[tuple[Tensor, ...]]:
    torch.manual_seed(0)
    weight = (torch.randn(16, 16) * 0.8).requires_grad_(train)
    return [(torch.randn(4, 16), weight, torch.tensor(6.0))]


@workload("dopri5")
def _dopri5() -> Case:
    return Case(dopri5, _calls(False), hop=dopri5_hop)


@workload("dopri5-train")
def _dopri5_train() -> Case:
    return Case(dopri5, _calls(True), train=True, hop=dopri5_hop, tolerance=1e-2)
