"""Differential equations, roots and minima: loops that end when a tensor says so."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


class Field(torch.nn.Module):
    """A small vector field."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y) * torch.cos(t)


def _ode(method: str, options: Any = None) -> Any:
    def make() -> Subject:
        from torchdiffeq import odeint

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.field = Field()

            def forward(self, y, t):
                return odeint(self.field, y, t, method=method, options=options)

        y, t = torch.tensor([[0.3, -1.0], [2.0, 0.5]], requires_grad=True), torch.linspace(0, 2, 4)
        return Subject(Model(), [(y, t), (y * 10, t * 3), (y, torch.flip(t, [0]))])

    return make


for _method in ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun"):
    named(f"odeint_{_method}", "torchdiffeq", _ode(_method))
for _method in ("euler", "midpoint", "heun3", "rk4", "explicit_adams", "implicit_adams"):
    named(f"odeint_{_method}", "torchdiffeq", _ode(_method, {"step_size": 0.1}))


@published("torchdiffeq")
def odeint_adjoint() -> Subject:
    from torchdiffeq import odeint_adjoint

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = Field()

        def forward(self, y, t):
            return odeint_adjoint(self.field, y, t, rtol=1e-5, atol=1e-6)

    y = torch.tensor([[0.3, -1.0]], requires_grad=True)
    return Subject(Model(), [(y, torch.linspace(0, 1, 3)), (y * 4, torch.linspace(0, 3, 3))])


@published("torchdiffeq", saves=True)
def odeint_event() -> Subject:
    from torchdiffeq import odeint, odeint_event

    def fall(state, gravity):
        def field(t, y):
            return torch.stack([y[1], -gravity])

        def ground(t, y):
            return y[0]

        t, y = odeint_event(field, state, torch.tensor(0.0), event_fn=ground, reverse_time=False, odeint_interface=odeint)
        return t, y[-1]

    return Subject(fall, [(torch.tensor([10.0, 0.0]), torch.tensor(9.8)), (torch.tensor([3.0, 2.0]), torch.tensor(1.6))])


@published("torchdiffeq")
def odeint_of_tuples() -> Subject:
    from torchdiffeq import odeint

    def run(x, v, t):
        return odeint(lambda t, state: (state[1], -state[0] * 4), (x, v), t, rtol=1e-6, atol=1e-8)

    x, v, t = torch.ones(2), torch.zeros(2), torch.linspace(0, 3, 5)
    return Subject(run, [(x, v, t), (x * 3, v + 1, t * 2)])


@published("torchcde")
def cdeint_of_a_spline() -> Subject:
    import torchcde

    class CDE(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4 * 3)
            self.initial = torch.nn.Linear(3, 4)

        def forward(self, coefficients):
            path = torchcde.CubicSpline(coefficients)
            z0 = self.initial(path.evaluate(path.interval[0]))
            return torchcde.cdeint(X=path, func=self.field, z0=z0, t=path.interval, adjoint=False)

        def field(self, t, z):
            return self.linear(z).tanh().view(*z.shape[:-1], 4, 3)

    torch.manual_seed(1)
    x = torch.randn(2, 6, 3).cumsum(1)
    return Subject(CDE(), [(torchcde.hermite_cubic_coefficients_with_backward_differences(x * s),) for s in (1.0, 5.0)])


@published("torchcde", saves=True)
def interpolation_with_missing_values() -> Subject:
    import torchcde

    torch.manual_seed(1)
    x = torch.randn(2, 6, 3)
    gaps = x.clone()
    gaps[0, 2:4, 1] = float("nan")
    gaps[1, 0, 0] = float("nan")
    return Subject(torchcde.linear_interpolation_coeffs, [(x,), (gaps,)])


@published("torchode")
def torchode_dopri5() -> Subject:
    import torchode

    def run(y, t):
        term = torchode.ODETerm(lambda t, y: -y * (1 + t[:, None].cos()))
        step = torchode.Dopri5(term=term)
        controller = torchode.IntegralController(atol=1e-6, rtol=1e-4, term=term)
        solution = torchode.AutoDiffAdjoint(step, controller).solve(torchode.InitialValueProblem(y0=y, t_eval=t))
        return solution.ys, solution.status, solution.stats["n_steps"]

    y, t = torch.tensor([[1.0, 2.0], [3.0, -4.0]]), torch.linspace(0, 2, 4).repeat(2, 1)
    return Subject(run, [(y, t), (y * 5, t * 4)])


def _sde(method: str, kind: str, adaptive: bool) -> Any:
    def make() -> Subject:
        import torchsde

        class SDE(torch.nn.Module):
            noise_type = "diagonal"
            sde_type = kind

            def __init__(self) -> None:
                super().__init__()
                self.mu = torch.nn.Linear(2, 2)

            def f(self, t, y):
                return self.mu(y).tanh()

            def g(self, t, y):
                return 0.3 * torch.sigmoid(y)

            def forward(self, y, t):
                path = torchsde.BrownianInterval(t0=0.0, t1=4.0, size=(2, 2), entropy=7, levy_area_approximation="space-time")
                return torchsde.sdeint(self, y, t, bm=path, method=method, dt=0.1, adaptive=adaptive, rtol=1e-3, atol=1e-3)

        y = torch.tensor([[0.3, -1.0], [2.0, 0.5]], requires_grad=True)
        return Subject(SDE(), [(y, torch.linspace(0, 1, 3)), (y * 10, torch.linspace(0, 2, 3))])

    return make


for _method, _kind in (
    ("euler", "ito"),
    ("milstein", "ito"),
    ("srk", "ito"),
    ("midpoint", "stratonovich"),
    ("heun", "stratonovich"),
):
    named(f"sdeint_{_method}", "torchsde", _sde(_method, _kind, False))
named("sdeint_srk_adaptive", "torchsde", _sde("srk", "ito", True))


def _root(method: str) -> Any:
    def make() -> Subject:
        from xitorch.optimize import rootfinder

        def solve(a, y):
            return rootfinder(lambda y, a: torch.tanh(a @ y + 0.1) + y / 2.0, y, params=(a,), method=method)

        a = torch.tensor([[1.1, 0.4], [0.3, 0.8]], dtype=torch.float64)
        y = torch.zeros(2, 1, dtype=torch.float64)
        return Subject(solve, [(a, y), (a * 2, y + 1)])

    return make


for _method in ("broyden1", "broyden2", "linearmixing"):
    named(f"rootfinder_{_method}", "xitorch", _root(_method))


@published("xitorch")
def xitorch_quadrature() -> Subject:
    from xitorch.integrate import quad

    return Subject(
        lambda a, b: quad(lambda x, a: torch.exp(-a * x * x), 0.0, b, params=(a,)), [(torch.tensor(1.0), torch.tensor(2.0))]
    )


def _minimize(method: str) -> Any:
    def make() -> Subject:
        from torchmin import minimize

        def rosen(x):
            return torch.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2)

        def run(x):
            found = minimize(rosen, x, method=method, max_iter=20)
            return found.x, found.fun, found.nit

        return Subject(run, [(torch.tensor([1.0, 8.0]),), (torch.tensor([-1.0, 0.5]),)])

    return make


for _method in ("bfgs", "l-bfgs", "cg", "newton-exact"):
    named(f"minimize_{_method}", "torchmin", _minimize(_method))
