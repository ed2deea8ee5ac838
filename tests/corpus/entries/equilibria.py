"""Fixed points and least squares: solvers that stop when they have converged."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _equilibrium(name: str, iterations: int) -> Callable[[], Subject]:
    def make() -> Subject:
        from torchdeq.solver import get_solver

        solver = get_solver(name)

        def solve(weight, x):
            return solver(lambda z: torch.tanh(z @ weight + x), torch.zeros_like(x), max_iter=iterations)

        return Subject(solve, [(_noise(4, 4) * scale, _noise(2, 4, seed=1)) for scale in (0.1, 0.3, 1.0)])

    return make


for _name, _iterations in (("broyden", 12), ("anderson", 15), ("fixed_point_iter", 15)):
    named(f"equilibrium_{_name}", "torchdeq", _equilibrium(_name, _iterations))


@published("torchimize")
def levenberg_marquardt() -> Subject:
    from torchimize.functions.single.lma_fun_single import lsq_lma

    times = torch.linspace(0, 2, 8)

    def fit(p, t, y):
        return lsq_lma(
            p,
            lambda p: p[0] * torch.exp(-p[1] * t) - y,
            lambda p: torch.stack([torch.exp(-p[1] * t), -p[0] * t * torch.exp(-p[1] * t)], 1),
            max_iter=20,
        )

    measured = 2 * torch.exp(-1.5 * times) + 0.01 * _noise(8)
    return Subject(fit, [(torch.tensor(p), times, measured) for p in ([1.0, 1.0], [2.0, 1.5], [0.1, 5.0])])
