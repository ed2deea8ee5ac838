"""Invertible networks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _subnet(inputs: int, outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.ReLU(), torch.nn.Linear(8, outputs))


def _points() -> list[tuple[torch.Tensor]]:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    return [(x,), (x * 4,)]


def _there_and_back(block: str) -> Callable[[], Subject]:
    def make() -> Subject:
        from FrEIA import framework, modules

        network = framework.SequenceINN(4)
        for _ in range(2):
            network.append(getattr(modules, block), subnet_constructor=_subnet)

        class Flow(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, x):
                z, jacobian = self.network(x)
                if jacobian.mean() > 0:
                    z = z * 2
                return z, jacobian, self.network(z, rev=True)[0]

        return Subject(Flow(), _points())

    return make


for _block in ("GLOWCouplingBlock", "RNVPCouplingBlock"):
    named(f"freia_{_block}", "FrEIA", _there_and_back(_block))


@published("FrEIA")
def freia_graph() -> Subject:
    from FrEIA import framework, modules

    nodes = [framework.InputNode(4, name="input")]
    nodes.append(
        framework.Node(nodes[-1], modules.GLOWCouplingBlock, {"subnet_constructor": _subnet, "clamp": 2.0}, name="coupling")
    )
    nodes.append(framework.Node(nodes[-1], modules.PermuteRandom, {"seed": 0}, name="permutation"))
    nodes.append(framework.OutputNode(nodes[-1], name="output"))
    return Subject(framework.GraphINN(nodes, verbose=False), _points())


@published("flow_matching")
def flow_matching_ode() -> Subject:
    from flow_matching.solver import ODESolver
    from flow_matching.utils import ModelWrapper

    class Velocity(ModelWrapper):
        def forward(self, x, t, **extras):
            return self.model(torch.cat([x, t.expand(len(x), 1)], -1))

    solver = ODESolver(Velocity(torch.nn.Linear(5, 4)))
    times = torch.tensor([0.0, 0.5, 1.0])
    return Subject(lambda x: solver.sample(x_init=x, step_size=None, method="dopri5", time_grid=times), _points())


@published("flow_matching")
def flow_matching_of_tokens() -> Subject:
    from flow_matching.path import MixtureDiscreteProbPath
    from flow_matching.path.scheduler import PolynomialConvexScheduler
    from flow_matching.solver import MixtureDiscreteEulerSolver
    from flow_matching.utils import ModelWrapper

    class Tokens(ModelWrapper):
        def forward(self, x, t, **extras):
            return self.model(x).softmax(-1)

    path = MixtureDiscreteProbPath(PolynomialConvexScheduler(2.0))
    solver = MixtureDiscreteEulerSolver(Tokens(torch.nn.Embedding(4, 4)), path, 4)
    calls = [(torch.tensor([[0, 1, 2], [3, 3, 1]]),), (torch.tensor([[3, 1, 0], [3, 0, 1]]),)]
    return Subject(lambda x: solver.sample(x_init=x, step_size=0.25), calls)
