"""Long regions that repeat themselves become calls of one callable, and that changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import dy2st
from dy2st_runtime import Block, Program, executors, verify
from dy2st_runtime.analyses import repetition
from dy2st_runtime.executors import python
from dy2st_runtime.ir.structure import Const
from dy2st_runtime.passes.regions import split_regions
from dy2st_runtime.primitives import control
from tests.oracle import agree


def plain(part):
    run = python.Compiled(Program("region", Block(part.graph), (), Const(None), (), Const(None)))
    return lambda *args: run.function([], *args)


def split(program):
    made = split_regions(program, plain, 2)
    verify(made)
    return made


def calls(function, *args):
    """How many calls the regions of a program are, and of how many callables."""
    found = [node for node in split(dy2st.to_static(function).program(*args)).nodes() if node.target is control.call_]
    return len(found), len({id(node.args[0]) for node in found})


@pytest.fixture(autouse=True)
def as_backend(monkeypatch):
    monkeypatch.setattr(repetition, "LONG", 40)
    monkeypatch.setattr(repetition, "PIECE", 16)
    monkeypatch.setitem(executors.BACKENDS, "split", executors.Backend(lambda program: python.runner(split(program))))
    monkeypatch.setenv("DY2ST_BACKEND", "split")


def recurrent(x, w):
    h, outs = torch.zeros(4), []
    for t in range(16):
        h = torch.tanh(x[t] @ w + h * 0.5) + 1
        outs.append(h)
    return h, torch.stack(outs)


def strided(x, w):
    total = x[0] * 0
    for t in range(15, -1, -1):
        total = (total + x[t] * w[0]).sin() * x[2 * t : 2 * t + 2].sum()
    return total, w.exp()


def viewing(x, w):
    y, outs = x[0] + 1, []
    for t in range(12):
        y = (y * w[0] + x[t]).view(2, 2)
        outs.append(y.t())
        y = y.view(-1)
        outs.append(y[:2])
    return y, outs


def unlike(x, w):
    y = x[0]
    for t in range(20):
        y = y * (1.5 / (t + 1)) + x[t]
    return y


def curved(x, w):
    y = x[0]
    for t in range(8):
        y = (y * 2 + x[t * t % 32]).sin()
        y = (y * 2 + x[(t * t + 1) % 32]).sin()
    return y


def ragged(x, w):
    y = x[0].exp()
    for t in range(19):
        y = (y * 0.5 + x[t]).cos() * w[1]
    return y.sum(), w[0].exp() + y


X, W = torch.linspace(-1, 1, 136).view(34, 4).sin(), torch.linspace(-1, 1, 16).view(4, 4).cos()


@pytest.mark.parametrize("function", [recurrent, strided, viewing, unlike, curved, ragged], ids=lambda function: function.__name__)
def test_repeated_regions_keep_values_and_gradients(function):
    agree(function, [(X, W), (X.flip(0), W * 2), (X * 0, W.t().contiguous())])
    agree(function, [(X.double(), W.double()), (X.double() + 1, W.double())])
    given = [[value.double().requires_grad_() for value in (X, W)] for _ in range(2)]
    for run, values in zip((dy2st.to_static(function), function), given, strict=True):
        sum((part * part).sum() for part in tree_leaves(run(*values))).backward()
    for ours, theirs in zip(*given, strict=True):
        assert_close(ours.grad, theirs.grad)  # not bit for bit: where a view is made again, its gradient comes earlier in a sum


def test_iterations_that_were_written_out_share_a_callable():
    for function in (recurrent, strided, viewing, ragged):
        made, distinct = calls(function, X, W)
        assert made >= 3, function
        assert distinct <= 2, function


def test_what_does_not_repeat_itself_exactly_is_one_region():
    assert calls(unlike, X, W) == (1, 1)
    assert calls(curved, X, W) == (1, 1)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 4)) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x.mean()


def test_layers_with_weights_of_their_own_share_a_callable():
    torch.manual_seed(0)
    net = Layers()
    x = torch.randn(2, 4)
    agree(net, [x, x + 1])
    program = dy2st.to_static(net).forward.program(x)
    found = [node for node in split(program).nodes() if node.target is control.call_]
    assert len({id(node.args[0]) for node in found}) <= 2 < len(found)


def changed(x, w):
    y = x[0] * 2
    for t in range(16):
        y = (y * 0.5 + x[t]).cos()
        y.add_(w[0])
    return y


def test_what_changes_tensors_is_not_cut():
    agree(changed, [(X, W), (X - 1, W * 3), (X, W.clone().requires_grad_())], programs=2)
    assert calls(changed, X, W)[1] == calls(changed, X, W)[0]
