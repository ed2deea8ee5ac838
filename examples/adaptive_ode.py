"""An adaptive-step ODE solver, trained through its loop.

    python examples/adaptive_ode.py

How many steps an interval takes, and which of them are rejected, is decided by tensors: a `while` with
an `if` in it, inside a `for`. The vector field is a small network that learns a damped spiral from a few
observations of it, and its gradient flows through every step the solver took.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dy2st

ANY_TIMES = [dy2st.InputSpec([2], "float64", "start"), dy2st.InputSpec([None], "float64", "times")]


class NeuralODE(nn.Module):
    """dy/dt = field(y), solved by Bogacki and Shampine's 3(2) pair; each step's error sets the next one."""

    def __init__(self, width: int = 16, tolerance: float = 1e-3) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.field = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2)).double()

    def attempt(self, y: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return one step of third order, and its estimated error as a share of what is tolerated."""
        k1 = self.field(y)
        k2 = self.field(y + step * k1 / 2)
        k3 = self.field(y + step * k2 * 3 / 4)
        proposal = y + step * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = self.field(proposal)
        error = step * (-5 * k1 + 6 * k2 + 8 * k3 - 9 * k4) / 72
        share = error / (self.tolerance * (1 + y.abs()))
        return proposal, share.square().mean().sqrt()

    def forward(self, start: Tensor, times: Tensor) -> tuple[Tensor, int, int]:
        """Return the solution at `times`, and how many steps were accepted and rejected on the way."""
        accepted = 0
        rejected = 0
        y = start
        t = times[0]
        step = (times[1] - times[0]) / 2
        path = [y]
        for end in times[1:]:
            while t < end:
                step = torch.minimum(step, end - t)
                proposal, share = self.attempt(y, step)
                if share <= 1:
                    y = proposal
                    t = t + step
                    accepted += 1
                else:
                    rejected += 1
                step = step * (0.9 * (share + 1e-12) ** (-1 / 3)).clamp(0.2, 5.0)
            path.append(y)
        return torch.stack(path), accepted, rejected


def spiral(times: Tensor) -> Tensor:
    """Return where a damped spiral from (2, 0) is at the given times."""
    radius = 2 * torch.exp(-0.15 * times)
    return torch.stack([radius * torch.cos(2 * times), radius * torch.sin(2 * times)], dim=1)


def train(model: nn.Module, epochs: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    losses = []
    for epoch in range(epochs):
        times = torch.linspace(0, 2, 5 + epoch % 3, dtype=torch.float64)
        truth = spiral(times)
        path, _, _ = model(truth[0], times)
        loss = (path - truth).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(epochs: int = 60) -> dict[str, object]:
    torch.manual_seed(0)
    eager = NeuralODE()
    torch.manual_seed(0)
    static = dy2st.to_static(NeuralODE(), input_spec=ANY_TIMES)

    eager_losses = train(eager, epochs)
    static_losses = train(static, epochs)
    assert static_losses == eager_losses, "the two trainings must agree bit for bit"
    programs = len(static.forward.program_cache)

    steps = {}
    with torch.no_grad():
        for points in (2, 9, 33):
            times = torch.linspace(0, 2, points, dtype=torch.float64)
            start = spiral(times)[0]
            expected, *counts = eager(start, times)
            path, accepted, rejected = static(start, times)
            assert torch.equal(path, expected) and [accepted, rejected] == counts
            steps[points] = (int(accepted), int(rejected))

    print(f"loss {static_losses[0]:.4f} -> {static_losses[-1]:.4f}, the same as eager at all {epochs} epochs")
    for points, (accepted, rejected) in steps.items():
        print(f"{points:>2} points: {accepted} steps accepted, {rejected} rejected, equal to eager")
    print(f"programs for training: {programs}")
    return {
        "first_loss": static_losses[0],
        "last_loss": static_losses[-1],
        "identical_losses": static_losses == eager_losses,
        "steps": steps,
        "programs": programs,
    }


if __name__ == "__main__":
    main()
