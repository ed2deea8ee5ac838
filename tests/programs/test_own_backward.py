"""Functions with a backward of their own are parts of the program: their forward inline, their backward as a block that it keeps."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import dy2st
from tests.oracle import agree
from tests.programs.values import signs, vec

D = {"dtype": torch.float64}
numbers = itertools.count()


def in_program(static: Any, *args: Any) -> None:
    """Check that a program calls no Python but ``torch.autograd.grad``."""
    assert "call_(" not in str(static.program(*args)).replace("call_(gradients", "")


def gradients(function: Callable[..., Any], *values: torch.Tensor) -> list[torch.Tensor]:
    """Return results, gradients, and the gradients of these."""
    inputs = [value.detach().requires_grad_() for value in values]
    result = function(*inputs)
    weights = torch.linspace(1, 2, result.numel(), **D).reshape(result.shape)
    first = torch.autograd.grad((result * weights).sum(), inputs, create_graph=True, allow_unused=True)
    total = sum((part**2).sum() for part in first if part is not None and part.requires_grad)
    if not isinstance(total, torch.Tensor):
        return [result, *(part for part in first if part is not None)]
    second = torch.autograd.grad(total, inputs, allow_unused=True)
    return [result, *(part for part in (*first, *second) if part is not None)]


def same_twice(eager: Any, static: Any, calls: list[Any]) -> None:
    """Check gradients, and gradients of gradients."""
    for args in calls:
        args = args if isinstance(args, tuple) else (args,)
        for expected, got in zip(gradients(eager, *args), gradients(static, *args), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)


class Round(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Reverse(torch.autograd.Function):
    """Gradients change their sign."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


class ClipGradient(torch.autograd.Function):
    """Gradients are clipped where their norm is large, which a tensor decides."""

    @staticmethod
    def forward(ctx, x, limit=1.0):
        ctx.limit = limit
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        norm = g.norm()
        if norm > ctx.limit:
            g = g * (ctx.limit / norm)
        return g, None


class SafeNorm(torch.autograd.Function):
    """A norm with a gradient at zero."""

    @staticmethod
    def forward(ctx, x):
        norm = x.norm()
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx, g):
        x, norm = ctx.saved_tensors
        return g * x / norm if norm > 0 else torch.zeros_like(x)


class FixedPoint(torch.autograd.Function):
    """The solution of ``z = tanh(w z + x)``, with an implicit gradient that is a fixed point, too."""

    @staticmethod
    def forward(ctx, x, w):
        z = torch.zeros_like(x)
        steps = 0
        while (torch.tanh(w * z + x) - z).abs().max() > 1e-6:
            z = torch.tanh(w * z + x)
            steps += 1
        ctx.steps = steps
        ctx.save_for_backward(z, x, w)
        return z

    @staticmethod
    def backward(ctx, g):
        z, x, w = ctx.saved_tensors
        with torch.enable_grad():
            at = z.detach().requires_grad_()
            x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
            f = torch.tanh(w * at + x)
        u = g
        for _ in range(ctx.steps):
            (v,) = torch.autograd.grad(f, at, u, retain_graph=True)
            if (g + v - u).abs().max() < 1e-9:
                break
            u = g + v
        return torch.autograd.grad(f, (x, w), u)


class Reversible(torch.autograd.Function):
    """Keeps its outputs alone, and computes its inputs again."""

    @staticmethod
    def forward(ctx, x, f, *weights):
        a, b = x.chunk(2, -1)
        b = b + f(a)
        out = torch.cat([a, b], -1)
        ctx.f = f
        ctx.save_for_backward(out.detach())
        ctx.weights = weights
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        ga, gb = g.chunk(2, -1)
        a, _ = out.chunk(2, -1)
        with torch.enable_grad():
            a = a.detach().requires_grad_()
            grads = torch.autograd.grad(ctx.f(a), (a, *ctx.weights), gb)
        return torch.cat([ga + grads[0], gb], -1), None, *grads[1:]


class Reversing(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 2, **D), nn.Tanh())

    def forward(self, x):
        for _ in range(2):
            x = Reversible.apply(x, self.f, *self.f.parameters())
        return x if x.sum() > 0 else Reversible.apply(-x, self.f, *self.f.parameters())


class SignQuantizer(torch.autograd.Function):
    """Signs, with gradients where the input is small."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        ctx.set_materialize_grads(False)
        return torch.where(x >= 0, scale, -scale), (x >= 0)

    @staticmethod
    def backward(ctx, g, _):
        if g is None:
            return None, None
        x, scale = ctx.saved_tensors
        gx = g * (x.abs() <= scale) if ctx.needs_input_grad[0] else None
        gs = (g * x.sign()).sum() if ctx.needs_input_grad[1] else None
        return gx, gs


class Sparsemax(torch.autograd.Function):
    """A projection whose support is found by a loop."""

    @staticmethod
    def forward(ctx, x, dim=-1):
        ctx.dim = dim
        ordered, _ = x.sort(dim=dim, descending=True)
        total, k = torch.zeros((), **D), 0
        while k < x.shape[0]:
            if 1 + (k + 1) * ordered[k] <= total + ordered[k]:
                break
            total = total + ordered[k]
            k += 1
        tau = (total - 1) / k
        y = torch.clamp(x - tau, min=0)
        ctx.save_for_backward(y)
        ctx.support = k
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        g = g * (y > 0)
        return (g - g.sum(ctx.dim) / ctx.support * (y > 0)), None


class Exponential(torch.autograd.Function):
    """Keeps its output: gradients of gradients go through it again."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Cube(torch.autograd.Function):
    """A backward that is a function with one, too; the context is set up apart."""

    @staticmethod
    def forward(x, k=1):
        return x**3 * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.k = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return CubeBackward.apply(g, x) * ctx.k, None


class CubeBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return g * 3 * x**2

    @staticmethod
    def backward(ctx, h):
        g, x = ctx.saved_tensors
        return h * 3 * x**2, h * g * 6 * x


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Deciding(torch.autograd.Function):
    """Its forward and its backward branch."""

    @staticmethod
    def forward(ctx, x):
        ctx.big = x.sum() > 3
        ctx.factor = 2.0 if x.sum() > 0 else 3.0
        if ctx.big:
            y = x * ctx.factor
        else:
            y = x / ctx.factor
        ctx.save_for_backward(x, None)
        return y

    @staticmethod
    def backward(ctx, g):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return g * ctx.factor if ctx.big else g / ctx.factor + x * 0


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 5


class Top(torch.autograd.Function):
    """An output without gradients."""

    @staticmethod
    def forward(ctx, x):
        values, positions = x.sort()
        other = x * 2
        ctx.save_for_backward(positions)
        ctx.mark_non_differentiable(positions, other)
        return values, positions, other

    @staticmethod
    def backward(ctx, g, gp, go):
        (positions,) = ctx.saved_tensors
        return torch.zeros_like(g).index_put((positions,), g) + gp.sum() + go.sum()


def straight(x):
    return Round.apply(x * 3) + (x if x.sum() > 0 else Round.apply(x))


def reversed_(x):
    alpha = 0.5 if x.sum() > 0 else 2.0
    return Reverse.apply(x, alpha) * x


def clipped(x):
    return ClipGradient.apply(x * x, 2.0).sum() + ClipGradient.apply(x, 100).sum()


def normed(x):
    return SafeNorm.apply(x - x.sum().detach()) * SafeNorm.apply(x)


def fixed(x):
    return FixedPoint.apply(x, x.sin() / 4)


def quantized(x):
    y, positive = SignQuantizer.apply(x, x.abs().mean())
    return y * positive


def sparse(x):
    return Sparsemax.apply(x) * torch.arange(3, **D)


def exponential(x):
    return Exponential.apply(x / 4) * 2


def cubed(x):
    return Cube.apply(x) + Cube.apply(x, k=2)


def decided(x):
    return Deciding.apply(x)


def looping(x):
    while x.norm() > 0.5:
        x = Exponential.apply(-x) if x.sum() > 2 else Deciding.apply(x / 2) * 0.3
    return x


def in_place(x):
    y = x * 1
    z = InPlace.apply(y)
    return z * y


def top(x):
    values, positions, other = Top.apply(x)
    return values * (positions + 1) + other


PROGRAMS = [
    straight, reversed_, clipped, normed, fixed, quantized, sparse, exponential, cubed, decided, looping, in_place, top,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients_are_eagers(program):
    static = agree(program, signs(grad=True))
    in_program(static, signs(grad=True)[0])
    same_twice(program, static, signs(grad=True))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_saved_programs_give_eagers_gradients(program, tmp_path):
    x = signs(grad=True)[0]
    dy2st.save(dy2st.to_static(program), str(tmp_path / "p"), input_spec=[x])
    loaded = dy2st.load(str(tmp_path / "p"))
    same_twice(program, loaded, signs(grad=True))


def test_a_reversible_block_is_a_part_of_the_program():
    static = agree(Reversing(), [torch.tensor([[1.0, 2.0, 3.0, 4.0]], **D).requires_grad_(), -torch.ones(1, 4, **D)], programs=None)
    in_program(static.forward, torch.ones(1, 4, **D, requires_grad=True))


def test_a_saved_reversible_block_gives_the_gradients_of_its_parameters(tmp_path):
    model = Reversing()
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], **D).requires_grad_()
    dy2st.save(dy2st.to_static(model), str(tmp_path / "p"), input_spec=[x])
    loaded = dy2st.load(str(tmp_path / "p"))
    for module in (model, loaded):
        module(x).sum().backward()
    for expected, got in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(expected.grad, got.grad)


def test_a_function_that_is_once_differentiable_raises_eagers_error():
    static = agree(lambda x: Once.apply(x), signs(grad=True))
    x = vec(1, 2, 3, grad=True)
    in_program(static, x)
    for function in (Once.apply, static):
        (g,) = torch.autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()


class Scale:
    value = 2.0


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = Scale.value
        return x * Scale.value

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale * math.pi


def test_what_a_forward_reads_is_as_it_is_at_the_call():
    def f(x):
        return Scaled.apply(x)

    static = dy2st.to_static(f)
    for value in (2.0, 3.0, 2.0):
        Scale.value = value
        agree(f, signs(grad=True), static=static, programs=None)
    Scale.value = 2.0


def test_a_second_backward_without_a_graph_is_eagers_error():
    static = dy2st.to_static(lambda x: Exponential.apply(x))
    x = vec(1, 2, 3, grad=True)
    for function in (Exponential.apply, static):
        y = function(x).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


def test_the_name_of_the_function_is_in_the_graph():
    y = dy2st.to_static(lambda x: Exponential.apply(x))(vec(1, 2, 3, grad=True))
    assert type(y.grad_fn).__name__ == "ExponentialBackward"


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if g.sum() > 100:
            raise NotImplementedError("gradients this large")
        return g.view(2, -1).sum(0)  # two rows


@pytest.mark.parametrize("backend", ["python", "native"])
def test_what_a_backward_raises_names_the_users_line(backend):
    static = dy2st.to_static(lambda x: Failing.apply(x), backend=backend)
    x = vec(1, 2, 3, grad=True)
    with pytest.raises(RuntimeError, match="shape.*invalid") as raised:
        static(x).sum().backward()
    (note,) = raised.value.__notes__
    assert re.search(r"raised by the program at File .*test_own_backward.py.*, in backward", note)
    with pytest.raises(NotImplementedError, match="this large"):
        (static(x) * 100).sum().backward()
    assert torch.is_grad_enabled()


class WithoutGraph(torch.autograd.Function):
    """All of its backward is in one mode, whichever it is called in."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            if g.sum() > 0:
                g = g * 2
            if g.sum() > 1000:
                raise ValueError("too large")
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                (h,) = torch.autograd.grad((y**3).sum(), y)
            return g * h


class Asking(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        on = torch.is_grad_enabled()
        with torch.enable_grad():
            return g * x * (2 if on else 1)


@pytest.mark.parametrize(("function", "count"), [(WithoutGraph, 1), (Asking, 2), (Exponential, 2)], ids=lambda case: str(case))
def test_a_backward_that_does_the_same_in_both_grad_modes_is_captured_once(function, count, monkeypatch):
    from dy2st.capture.calls import own_backward

    calls = []
    backward = own_backward.Attaching._backward
    monkeypatch.setattr(own_backward.Attaching, "_backward", lambda self, again: calls.append(again) or backward(self, again))

    def program(x):
        return function.apply(x)

    static = agree(program, signs(grad=True))
    assert len(calls) == count
    x = vec(1, 2, 3, grad=True)
    for create_graph in (False, True):
        expected, got = (torch.autograd.grad((f(x) * x).sum(), x, create_graph=create_graph)[0] for f in (program, static))
        assert torch.equal(expected, got)
        assert expected.requires_grad == got.requires_grad
        assert torch.is_grad_enabled()


class Halved(torch.autograd.Function):
    """Its forward depends on the data, and no program can do what its backward does."""

    @staticmethod
    def forward(ctx, x):
        steps = torch.zeros(())
        while x.norm() > 1:
            x, steps = x * 0.5, steps + 1
        ctx.save_for_backward(steps)
        return x

    @staticmethod
    def backward(ctx, grad):
        (steps,) = ctx.saved_tensors
        return torch.tensor(memoryview(grad.numpy()).tolist()) * 0.5 ** float(steps)


def test_a_backward_that_no_program_can_do_runs_as_it_is(tmp_path):
    def f(x):
        return Halved.apply(x) * 2

    agree(f, [torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor([0.3, 0.4], requires_grad=True)])
    with pytest.warns(UserWarning, match="asks whether a tensor requires a gradient"):
        dy2st.save(f, tmp_path / "f", [torch.tensor([3.0, 4.0])])
    loaded = dy2st.load(tmp_path / "f")
    for x in (torch.tensor([3.0, 4.0]), torch.tensor([0.3, 0.4])):
        torch.testing.assert_close(loaded(x), f(x))
