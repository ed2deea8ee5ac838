"""Quadrature, other solvers, tensor decompositions, Pareto fronts, tables of tensors, functions whose types are checked."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _quadrature(rule: str) -> Callable[[], Subject]:
    def make() -> Subject:
        import torchquad

        def run(a):
            function = lambda x: torch.sin(a * x[:, 0]) + x[:, 1]  # noqa: E731
            return getattr(torchquad, rule)().integrate(
                function, dim=2, N=400, integration_domain=[[0, 1], [-1, 1]], backend="torch"
            )

        return Subject(run, [(torch.tensor(1.0),), (torch.tensor(5.0),)])

    return make


for _rule in ("Trapezoid", "Simpson"):
    named(f"quadrature_{_rule}", "torchquad", _quadrature(_rule))


def _solver(method: str) -> Callable[[], Subject]:
    def make() -> Subject:
        from torchdyn.numerics import odeint

        calls = [(_normal(2, 3), torch.linspace(0, 1, 4)), (_normal(2, 3) * 5, torch.linspace(0, 3, 4))]
        return Subject(lambda x, t: odeint(lambda t, x: -x * (1 + torch.cos(t)), x, t, solver=method), calls)

    return make


for _method in ("rk4", "dopri5", "tsit5", "ieuler"):
    named(f"torchdyn_{_method}", "torchdyn", _solver(_method))


@published("tensorly")
def parallel_factors() -> Subject:
    import tensorly
    from tensorly.decomposition import parafac

    tensorly.set_backend("pytorch")
    calls = [(_normal(3, 4, 5, seed=n),) for n in (1, 4)]
    return Subject(lambda x: parafac(x, rank=2, n_iter_max=5, init="svd", tol=1e-3)[1][0], calls)


@published("botorch")
def pareto_front() -> Subject:
    from botorch.utils.multi_objective.pareto import is_non_dominated

    return Subject(is_non_dominated, [(_normal(6, 2),), (torch.zeros(6, 2),)])


@published("botorch")
def smooth_maximum() -> Subject:
    from botorch.utils.safe_math import fatmax, logmeanexp, smooth_amax

    return Subject(lambda x: (smooth_amax(x), fatmax(x, dim=-1), logmeanexp(x, dim=-1)), [(_normal(6),), (_normal(6) * 9,)])


@published("tensordict")
def table_of_tensors() -> Subject:
    from tensordict import TensorDict

    def run(x):
        table = TensorDict({"a": x}, batch_size=[2])
        if x.sum() > 0:
            table["b"] = x * 2
        else:
            table["b"] = x - 1
        return table["a"] + table["b"]

    return Subject(run, [(_normal(2, 3),), (-_normal(2, 3),)])


@published("tensordict")
def modules_on_tables() -> Subject:
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(torch.nn.Linear(3, 4), in_keys=["x"], out_keys=["h"])
    return Subject(
        TensorDictSequential(first, TensorDictModule(torch.relu, in_keys=["h"], out_keys=["y"])),
        [(_normal(2, 3),), (-_normal(2, 3),)],
    )


@published("jaxtyping")
def shapes_are_checked() -> Subject:
    from beartype import beartype
    from jaxtyping import Float, jaxtyped

    @jaxtyped(typechecker=beartype)
    def run(x: Float[torch.Tensor, "b d"], w: Float[torch.Tensor, "d e"]) -> Float[torch.Tensor, "b e"]:  # noqa: F722
        y = x @ w
        return y if y.sum() > 0 else -y

    return Subject(run, [(_normal(2, 3), _normal(3, 4)), (-_normal(2, 3), _normal(3, 4))])


@published("beartype", saves=True)
def types_are_checked() -> Subject:
    from beartype import beartype

    @beartype
    def scaled(x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by if x.sum() > 0 else x / by

    return Subject(lambda x: scaled(x) + scaled(x, 3), [(_normal(3),), (-_normal(3),)])


@published("einx")
def named_axes() -> Subject:
    import einx

    def run(x):
        y = einx.sum("a [b]", x)
        return einx.rearrange("(a b) -> a b", y, a=2) if y.sum() > 0 else -y

    return Subject(run, [(_normal(4, 3),), (-_normal(4, 3),)])
