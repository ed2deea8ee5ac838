"""Backward passes that the native executor runs without autograd's engine, and those that it leaves to it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from dy2st_runtime.executors.native import build

pytestmark = pytest.mark.skipif(build.library() is None, reason="the native executor cannot be built here")


class Net(nn.Module):
    """A weight that is used several times, one that is not used, and operations with and without a rule of the tape."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear, self.table = nn.Conv2d(1, 4, 3), nn.Linear(4 * 6 * 6, 10), nn.Embedding(7, 10)
        self.weight, self.unused = nn.Parameter(torch.randn(10)), nn.Parameter(torch.ones(3))

    def forward(self, x, index):
        y = self.linear(torch.tanh(self.conv(x)).flatten(1))
        y = y * self.weight + self.weight * self.weight.sum() + self.weight.exp() + self.table(index)
        if y.sum() > 0:
            y = y * 2
        return y


def once(net, x, index, target):
    for parameter in net.parameters():
        parameter.grad = None
    loss = F.cross_entropy(net(x, index), target)
    loss.backward()
    return loss


def added_up(net, x, index, target):
    loss = F.cross_entropy(net(x, index), target)
    loss.backward(retain_graph=True)
    (loss * 2).backward()
    return loss


def twice(net, x, index, target):
    loss = F.cross_entropy(net(x, index), target)
    loss.backward()
    loss.backward()
    return loss


def with_a_gradient(net, x, index, target):
    y = net(x, index)
    y.backward(torch.full_like(y, 0.5))
    return y


def of_a_leaf(net, x, index, target):
    net.weight.sum().backward()
    net.weight.backward(torch.ones(10).to(net.weight))
    return net.weight.grad


def two_leaves_of_one_gradient(net, x, index, target):
    (net.weight + net.linear.bias).sum().backward()
    net.weight.grad.mul_(3)
    return net.linear.bias.grad


def checkpointed(net, x, index, target):
    y = torch.utils.checkpoint.checkpoint(net.conv, x, use_reentrant=False)
    loss = net.linear(y.flatten(1)).square().mean()
    loss.backward()
    return loss


STEPS = [once, added_up, twice, with_a_gradient, of_a_leaf, two_leaves_of_one_gradient, checkpointed]


def triple(net: Net) -> None:
    net.weight.register_hook(lambda gradient: gradient * 3)


def double_when_added(net: Net) -> None:
    net.weight.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.mul_(2))


def negate_at_the_node(net: Net) -> None:
    node = net.weight.view_as(net.weight).grad_fn.next_functions[0][0]
    net.kept = node  # autograd has the node only as long as somebody holds it
    node.register_prehook(lambda gradients: tuple(-gradient for gradient in gradients))


def batch() -> tuple[torch.Tensor, ...]:
    return torch.randn(3, 1, 8, 8), torch.randint(0, 7, (3,)), torch.randint(0, 10, (3,))


def outcome(step: Callable[..., Any], net: Net, given: tuple[torch.Tensor, ...]) -> Any:
    try:
        return step(net, *given)
    except dy2st.Dy2stError:
        raise
    except RuntimeError as error:
        return str(error).partition("\n")[0]


def agree(step: Callable[..., Any], prepare: Callable[[Net], None] | None = None, dtype: torch.dtype = torch.float32) -> None:
    """Run a step in eager and as a program, on copies of a net, and compare the results and all gradients."""
    torch.manual_seed(0)
    net = Net().to(dtype)
    other = copy.deepcopy(net)
    for one in (net, other):
        if prepare is not None:
            prepare(one)
    static = dy2st.to_static(step)
    for _ in range(4):
        image, *others = batch()
        given = (image.to(dtype), *others)
        expected, result = outcome(step, net, given), outcome(static, other, given)
        assert type(result) is type(expected)
        if isinstance(expected, str):
            assert result == expected
            continue
        assert torch.equal(result, expected) and (result.grad_fn is None) is (expected.grad_fn is None)
        for (name, one), two in zip(net.named_parameters(), other.parameters()):
            assert (one.grad is None) is (two.grad is None), name
            assert one.grad is None or (torch.equal(one.grad, two.grad) and one.grad.stride() == two.grad.stride()), name


@pytest.mark.parametrize("prepare", [None, triple, negate_at_the_node])
@pytest.mark.parametrize("step", STEPS)
def test_gradients_are_eagers(step, prepare):
    agree(step, prepare)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_gradients_of_other_types(dtype):
    for step in STEPS:
        agree(step, dtype=dtype)


def test_a_hook_behind_the_sum_of_a_gradient_is_called():
    agree(once, double_when_added)


@pytest.mark.parametrize("mode", [torch.autograd.detect_anomaly, torch.autograd.graph.save_on_cpu])
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_mode_around_the_call_sees_the_pass(mode):
    with mode():
        agree(once)


def test_a_pass_inside_of_another_one():
    def step(w):
        loss = (w * w).sum()
        loss.backward()
        return loss.detach()

    static = dy2st.to_static(step)

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, run):
            ctx.w, ctx.run = w, run
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                ctx.run(ctx.w)
            return gradient * 2, None, None

    results = []
    for run in (step, static):
        w, x = torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True)
        run(w)
        Inner.apply(x, w, run).sum().backward()
        results.append((w.grad, x.grad))
    for expected, result in zip(*results):
        assert torch.equal(expected, result)


def test_a_graph_from_before_the_call():
    def step(y, w):
        loss = (y * w).sum()
        loss.backward()
        return w.grad

    results = []
    for run in (step, dy2st.to_static(step)):
        x, w = torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True)
        for _ in range(2):
            run(torch.sin(x), w)
        results.append((w.grad, x.grad))
    for expected, result in zip(*results):
        assert torch.equal(expected, result)
