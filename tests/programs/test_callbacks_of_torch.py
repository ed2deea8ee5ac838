"""Functions that torch has written in Python and that call functions of the user's: what tensors decide in either is captured."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint_sequential

import dy2st
from tests.oracle import agree, same
from tests.programs.values import signs, vec

D = {"dtype": torch.float64}


def choose(v):
    return v * 2 if v.sum() > 0 else v**3


def chosen_sum(v):
    return (v**2).sum() if v.sum() > 0 else (v**3).sum()


def distance(a, b):
    return (a - b).norm(dim=-1) if a.sum() > 0 else (a - b).abs().sum(-1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: functional.jacobian(choose, x),
        lambda x: functional.hessian(chosen_sum, x),
        lambda x: functional.hvp(chosen_sum, x, x),
        lambda x: functional.vjp(choose, x, x + 1),
        lambda x: checkpoint_sequential([choose, choose], 2, x, use_reentrant=False),
        lambda x: F.triplet_margin_with_distance_loss(x[None], -x[None], 2 * x[None] + 1, distance_function=distance),
    ],
    ids=["jacobian", "hessian", "hvp", "vjp", "checkpoints", "distance"],
)
def test_tensors_decide_what_the_users_function_does(call):
    agree(call, signs())


def test_a_layer_of_torchs_with_an_activation_of_the_users():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 1, 8, activation=choose, batch_first=True, **D).eval()
    agree(lambda x: layer(torch.ones(1, 2, 4, **D) * x.sum()), signs())


def test_an_exception_of_the_users_function_is_caught():
    def f(x):
        try:
            return functional.jacobian(lambda v: v * 2 if v.sum() > 0 else v * (1 / int(v.numel() - 3)), x)
        except ZeroDivisionError:
            return x

    agree(f, signs())


class Counting(nn.Module):
    """Counts its calls, which its Jacobian needs."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen: list[int] = []

    def objective(self, v):
        self.calls = self.calls + 1
        self.seen.append(self.calls)
        return (v**2).sum() * self.calls

    def forward(self, x):
        return functional.hessian(self.objective, x), self.calls


def test_what_the_users_function_writes_is_written_at_each_call():
    eager, static = Counting(), dy2st.to_static(Counting())
    for x in signs():
        same(eager(x), static(x))
        assert (eager.calls, eager.seen) == (static.calls, static.seen)


def test_a_function_that_writes_to_a_list_outside():
    seen: list[int] = []

    def noted(v):
        seen.append(len(seen))
        return v * len(seen)

    def f(x):
        return functional.jacobian(noted, x)

    static = dy2st.to_static(f)
    for expected in (1.0, 2.0, 3.0):
        assert torch.equal(static(vec(1, 2, 3)), torch.eye(3, **D) * expected)
    assert seen == [0, 1, 2]


def test_a_line_search_of_torchs_follows_the_users_function():
    from torch.optim.lbfgs import _cubic_interpolate

    def f(x):
        a, b, c = x
        return _cubic_interpolate(a, b * b, c, a + 3, c * c, b + 1, bounds=None if choose(x).sum() > 0 else (a - 1, a + 9))

    agree(f, [vec(1, 2, 3), vec(-1, 2, 3), vec(1, -4, 2)])


@pytest.mark.slow
def test_a_strong_wolfe_line_search():
    from torch.optim.lbfgs import _strong_wolfe

    def rosenbrock(v):
        return (100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2).sum()

    def f(x):
        def objective(x, t, d):
            point = (x + t * d).detach().requires_grad_()
            loss = rosenbrock(point)
            (g,) = torch.autograd.grad(loss, point)
            return loss.detach(), g

        loss, g = objective(x, 0.0, x * 0)
        return _strong_wolfe(objective, x, 0.001, -g, loss, g, g.dot(-g))[:3]

    agree(f, [vec(1, 2, 3), vec(0.5, -1, 0.25), vec(-1, 1, 1)])
