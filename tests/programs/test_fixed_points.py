"""``dy2st.fixed_point``: solutions by iteration, gradients by the implicit function theorem, in eager and in programs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
import dy2st_runtime

D = {"dtype": torch.float64}


class Equilibrium(nn.Module):
    """A layer of which the weights, and a tensor around the function, have gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.given = nn.Linear(4, 4, **D), nn.Linear(3, 4, **D)
        with torch.no_grad():
            self.inner.weight.mul_(0.8)

    def forward(self, x):
        h = self.given(x)
        if h.sum() > 100:
            return h
        return dy2st.fixed_point(lambda z: torch.tanh(self.inner(z) + h), torch.zeros_like(h), 1e-14)


@pytest.fixture
def model() -> Equilibrium:
    torch.manual_seed(0)
    return Equilibrium()


def point() -> torch.Tensor:
    return torch.linspace(-1, 1, 6, **D).reshape(2, 3).requires_grad_()


@pytest.mark.parametrize("is_static", [False, True])
def test_gradients_are_those_of_the_solution(model, is_static):
    run = dy2st.to_static(model) if is_static else model
    assert torch.autograd.gradcheck(lambda x, *_: run(x), (point(), *model.parameters()))


def test_a_program_gives_the_bits_of_eager(model):
    static, x = dy2st.to_static(model), point()
    inputs = (x, *model.parameters())
    with dy2st.enable_to_static(False):
        expected = model(x)
        gradients = torch.autograd.grad(expected.sum(), inputs)
    got = static(x)
    assert torch.equal(got, expected)
    assert all(map(torch.equal, torch.autograd.grad(got.sum(), inputs), gradients))
    assert "while_" in str(static.forward.program(x))
    with torch.no_grad():
        assert torch.equal(static(x), expected)
        assert not static(x).requires_grad


def test_a_saved_program_trains(model, tmp_path: Path):
    x = point()
    expected = model(x)
    gradients = torch.autograd.grad(expected.sum(), (x, *model.parameters()))
    static = dy2st.to_static(model, input_spec=[dy2st.InputSpec([None, 3], "float64")])
    with pytest.warns(UserWarning, match="this asks whether"):
        dy2st.save(static, tmp_path / "model")
    loaded = dy2st_runtime.load(tmp_path / "model")
    parameters = dict(loaded.named_parameters())
    got = loaded(x)
    assert torch.equal(got, expected)
    inputs = (x, *(parameters[name] for name, _ in model.named_parameters()))
    assert all(map(torch.equal, torch.autograd.grad(got.sum(), inputs), gradients))


@pytest.mark.parametrize("is_static", [False, True])
def test_memory_does_not_depend_on_the_number_of_steps(is_static):
    def run(a, rate):
        return dy2st.fixed_point(lambda x: x - rate * (x * x - a), torch.ones(4, **D), 1e-12, 100_000)

    function = dy2st.to_static(run) if is_static else run

    def saved(rate: float) -> int:
        kept: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
            function(torch.full((4,), 2.0, **D).requires_grad_(), torch.tensor(rate, **D)).sum().backward()
        return len(kept)

    assert saved(0.3) == saved(0.001) < 20


def test_in_branches_and_loops():
    def newton(values, flag):
        total = torch.zeros((), **D)
        for value in values:
            if value > 0:
                total = total + dy2st.fixed_point(lambda x, value=value: (x + value / x) / 2, torch.ones((), **D), 1e-13)
        if flag:
            total = dy2st.fixed_point(lambda x: (x + total) / 2, total, 1e-13)
        return total

    values = torch.tensor([2.0, -1.0, 9.0], **D, requires_grad=True)
    static = dy2st.to_static(newton)
    for flag in (torch.tensor(True), torch.tensor(False)):
        got = static(values, flag)
        (gradient,) = torch.autograd.grad(got, values)
        torch.testing.assert_close(got.detach(), torch.tensor(math.sqrt(2) + 3, **D))
        torch.testing.assert_close(gradient, torch.tensor([0.5 / math.sqrt(2), 0, 1 / 6], **D))


def test_without_gradients_the_solution_has_none():
    got = dy2st.fixed_point(torch.cos, torch.ones((), **D, requires_grad=True), 1e-12)
    assert not got.requires_grad
    torch.testing.assert_close(got, got.cos())


def test_complex_numbers():
    a = torch.tensor(0.3 + 0.2j, dtype=torch.complex128, requires_grad=True)
    z = dy2st.fixed_point(lambda z: z * z / 2 + a, torch.zeros_like(a), 1e-15)
    torch.testing.assert_close(z, 1 - torch.sqrt(1 - 2 * a))
    (got,) = torch.autograd.grad(z.abs(), a)
    (expected,) = torch.autograd.grad((1 - torch.sqrt(1 - 2 * a)).abs(), a)
    torch.testing.assert_close(got, expected)


def _double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x + 1


def _nan(x: torch.Tensor) -> torch.Tensor:
    return x * math.nan


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("function", [_double, _nan])
def test_no_fixed_point_raises(function, is_static):
    def run(x):
        return dy2st.fixed_point(function, x, 1e-6, max_steps=50)

    with pytest.raises(RuntimeError, match="no fixed point within 50 steps"):
        (dy2st.to_static(run) if is_static else run)(torch.ones(2))


@pytest.mark.parametrize("is_static", [False, True])
def test_not_strict(is_static):
    def run(x):
        return dy2st.fixed_point(_double, x, 1e-6, max_steps=3, strict=False)

    assert (dy2st.to_static(run) if is_static else run)(torch.ones(2)).tolist() == [15, 15]


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize(
    ("function", "start", "error", "match"),
    [
        (torch.cos, 1.0, TypeError, "fixed_point takes a tensor of floating point numbers"),
        (torch.cos, torch.ones(2, dtype=torch.int64), TypeError, "fixed_point takes a tensor of floating point numbers"),
        (lambda x: x.sum(), torch.ones(2), ValueError, r"f gives a tensor of shape \(\)"),
        (lambda x: x.double(), torch.ones(2), ValueError, r"torch.float64 for one of \(2,\) and torch.float32"),
        (lambda x: [x], torch.ones(2), TypeError, "f gives a tensor, not"),
    ],
)
def test_bad_input(function: Any, start: Any, error: type[Exception], match: str, is_static: bool):
    def run(x):
        return dy2st.fixed_point(function, x, 1e-6)

    with pytest.raises(error, match=match):
        (dy2st.to_static(run) if is_static else run)(start)


@pytest.mark.parametrize("is_static", [False, True])
def test_gradients_of_gradients_are_refused(model, is_static):
    run, x = dy2st.to_static(model) if is_static else model, point()
    with pytest.raises(RuntimeError, match="gradients of fixed_point cannot be differentiated"):
        torch.autograd.grad(run(x).sum(), x, create_graph=True)
    assert torch.autograd.grad(run(x).sum(), x)[0].shape == x.shape
