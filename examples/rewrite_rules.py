"""A rewrite rule of one's own: RMSNorm as models spell it out becomes one operator.

    python examples/rewrite_rules.py

The rule is two Python functions. It is applied to every program that is captured, also inside of the loop
that the model is, and the model stays as it is written. The gradients go through the replacement.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

import dy2st


def composed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return what to look for."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def fused(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return what to do instead."""
    return torch.rms_norm(x, weight.shape, weight, eps)


# Tensors of two dimensions, of any size; any eps.
RULE = dy2st.rewrite(composed, fused, torch.randn(4, 8), torch.randn(8), 1e-6)


class Refiner(nn.Module):
    """Normalises and transforms until the change is small or it has done it `limit` times."""

    def __init__(self, width: int = 32, limit: int = 20) -> None:
        super().__init__()
        self.limit = limit
        self.gain = nn.Parameter(torch.ones(width))
        self.transform = nn.Linear(width, width)

    def forward(self, x: Tensor, tolerance: Tensor) -> tuple[Tensor, int]:
        """Return the refined input, and how many steps it took."""
        steps = 0
        change = tolerance + 1
        while change > tolerance and steps < self.limit:
            normal = self.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
            new = 0.5 * x + 0.3 * torch.tanh(self.transform(normal))
            change = (new - x).abs().max()
            x = new
            steps += 1
        return x, steps


def median_times(functions: dict[str, object], rounds: int, calls: int) -> dict[str, float]:
    """Microseconds of a call, each function in its turn."""
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls):
                function()  # type: ignore[operator]
            samples[name].append(1e6 * (time.perf_counter() - start) / calls)
    return {name: sorted(found)[len(found) // 2] for name, found in samples.items()}


def main(rounds: int = 15, calls: int = 20) -> dict[str, object]:
    torch.manual_seed(0)
    eager = Refiner()
    plain = dy2st.to_static(Refiner())
    ruled = dy2st.to_static(Refiner(), passes=[RULE])
    plain.load_state_dict(eager.state_dict())
    ruled.load_state_dict(eager.state_dict())

    x, tolerance = torch.randn(8, 32), torch.tensor(1e-3)
    expected, steps = eager(x, tolerance)
    found, steps_found = ruled(x, tolerance)
    difference = (found - expected).abs().max().item()
    assert steps == steps_found
    expected.sum().backward()
    found.sum().backward()
    gradients = max((a.grad - b.grad).abs().max().item() for a, b in zip(eager.parameters(), ruled.parameters(), strict=True))

    before = plain.forward.program(x, tolerance)
    after = ruled.forward.program(x, tolerance)
    operations = [sum(node.op == "call_function" for node in program.nodes()) for program in (before, after)]
    with torch.no_grad():
        times = median_times(
            {"eager": lambda: eager(x, tolerance), "static": lambda: plain(x, tolerance), "rule": lambda: ruled(x, tolerance)},
            rounds,
            calls,
        )

    print(f"{RULE} at {RULE.count(before)} place: {operations[0]} operations before, {operations[1]} after")
    print(f"{steps} steps; difference to eager {difference:.1e} in values, {gradients:.1e} in gradients")
    print(f"eager {times['eager']:.0f} µs, static {times['static']:.0f} µs, with the rule {times['rule']:.0f} µs")
    return {
        "places": RULE.count(before),
        "operations": operations,
        "steps": steps,
        "difference": difference,
        "gradients": gradients,
        "times": times,
    }


if __name__ == "__main__":
    main()
