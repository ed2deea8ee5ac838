"""Backward passes that a program makes itself go over the native executor's tape: weights are eager's, bit for bit."""

from __future__ import annotations

import warnings

import pytest
import torch

import dy2st
from dy2st_runtime.executors.native import build
from tests.runtime.test_tape import again, equal

pytestmark = pytest.mark.skipif(build.library() is None, reason="the native executor cannot be built here")


def loop(w, v, x, n):
    for _ in range(n):
        x = torch.tanh(x * w + v) - 0.5 * w
    return x


def once(w, v, x, n):
    loop(w, v, x, n).sum().backward()
    return w.grad


def updates(w, v, x, n):
    total = torch.zeros((), dtype=x.dtype)
    for i in range(n):
        w.grad = None
        loss = (loop(w, v, x, n) * (i + 1)).square().mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)
            v.mul_(0.9)
        total = total + loss.detach()
    return total


def twice(w, v, x, n):
    y = loop(w, v, x, n)
    y.sum().backward(retain_graph=True)
    z = y * w
    z.mean().backward()
    return y, z, w.grad, v.grad


def through_gradients(w, v, x, n):
    y = loop(w, v, x, n).square().sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    (g.square().sum() + y).backward()
    return g, w.grad


def gradients_only(w, v, x, n):
    y = loop(w, v, x, n)
    return torch.autograd.grad(y.sum(), [w, v], allow_unused=True), y


def on_some_ways(w, v, x, n):
    y = loop(w, v, x, n)
    if y.sum() > 0:
        y.sum().backward()
    else:
        (y * v).sum().backward()
        with torch.no_grad():
            w.lerp_(v, 0.3)
    return y.detach() * w, w.grad


def of_parts(w, v, x, n):
    y = loop(w[:1], v, x, n)
    y[0].sum().backward()
    return w.grad, y.requires_grad


def accumulated(w, v, x, n):
    for i in range(n):
        (w * x * i).sum().backward()
        (v * w).sum().backward(inputs=[v])
    return w.grad, v.grad


FUNCTIONS = [once, updates, twice, through_gradients, gradients_only, on_some_ways, of_parts, accumulated]


def inputs(dtype):
    torch.manual_seed(1)
    w, v, x = (torch.randn(4, 3, dtype=dtype) for _ in range(3))
    return w.requires_grad_(), v.requires_grad_(), x


def did(function, values, n):
    """What a call gives or raises, and what it leaves."""
    try:
        results = torch.utils._pytree.tree_leaves(function(*values, torch.tensor(n)))
    except RuntimeError as error:
        results = [str(error).partition("\n")[0]]
    return results, [(*values, values[0].grad, values[1].grad)]


def agree(function, static, values, n):
    ours, theirs = again(values), again(values)
    for _ in range(2):
        one, other = did(static, ours, n), did(function, theirs, n)
        assert len(one[0]) == len(other[0])
        for mine, yours in zip(one[0], other[0]):
            assert mine == yours if not isinstance(mine, torch.Tensor) else equal(mine, yours)
            assert not isinstance(mine, torch.Tensor) or mine.requires_grad == yours.requires_grad
        assert equal(one[1][0], other[1][0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_steps_leave_what_eager_leaves(function, dtype):
    static = dy2st.to_static(function, backend="native")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (3, 0, 1, 40):
            agree(function, static, inputs(dtype), n)
            agree(function, static, tuple(-value.detach().requires_grad_(value.requires_grad) for value in inputs(dtype)), n)


def test_hooks_see_what_they_see_in_eager():
    def step(w, v, x, n):
        loop(w, v, x, n).sum().backward()
        return w.grad, v.grad

    results = []
    for function in (step, dy2st.to_static(step, backend="native")):
        w, v, x = again(inputs(torch.float32))
        w.register_hook(lambda grad: grad * 2)
        results.append(function(w, v, x, torch.tensor(5)))
    assert equal(*results)


def test_a_second_pass_without_the_graph():
    def step(w, v, x, n):
        y = loop(w, v, x, n).sum()
        y.backward()
        y.backward()
        return y

    static = dy2st.to_static(step, backend="native")
    for function in (step, static):
        values = again(inputs(torch.float32))
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            function(*values, torch.tensor(3))
        assert values[0].grad is not None


def test_the_tape_is_used():
    """Each operation would be a node of autograd's graph without it."""

    def step(w, x, n):
        for _ in range(n):
            x = x * w + 1
        x.sum().backward(retain_graph=True)
        return x

    static = dy2st.to_static(step, backend="native")
    result = static(torch.ones(3, requires_grad=True), torch.ones(3), torch.tensor(20))
    assert result.grad_fn.name() == "ProgramBackward"
