"""``unroll=``: which loops over a range of known length are written out, and that it makes no difference to what they do."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import dy2st
from dy2st import config
from dy2st_runtime.primitives import control
from tests.oracle import agree

X = torch.arange(24.0).view(6, 4) / 10


def recurrent(x, w):
    h = torch.zeros(4)
    outs = []
    for t in range(6):
        h = torch.tanh(x[t] @ w + h)
        outs.append(h)
    return torch.stack(outs), t, len(outs)


def leaving(x):
    for t in range(1, 20, 3):
        x = x + t
        if x.sum() > 100:
            break
        if x.sum() > 50:
            continue
        x = x * 1.5
    else:
        return -x
    return x, t


def growing_rank(x):
    for _ in range(3):
        x = x[None]
    return x


def loops(static):
    return [sum(node.target is control.while_ for node in captured.program.nodes()) for captured in static.program_cache]


@pytest.mark.parametrize(("unroll", "expected"), [(None, 0), (True, 0), (False, 1), (5, 1), (6, 0)])
def test_which_loops_are_written_out(unroll, expected):
    static = agree(recurrent, [(X, torch.eye(4)), (-X, torch.ones(4, 4))], static=dy2st.to_static(recurrent, unroll=unroll))
    assert loops(static) == [expected]
    assert ("captured" in str(static.report())) == bool(expected)


def over_rows(x, w):
    h, seen = torch.zeros(4), 0
    for row in x:
        h = torch.tanh(row @ w + h)
        if h.sum() > 2:
            continue
        seen += 1
        if h.sum() < -3:
            break
    else:
        h = h + 1
    return h, row, seen


@pytest.mark.parametrize(("unroll", "expected"), [(None, 0), (True, 0), (False, 1), (5, 1), (6, 0)])
def test_which_loops_over_rows_are_written_out(unroll, expected):
    calls = [(X, torch.eye(4)), (-X, torch.ones(4, 4)), (X, torch.zeros(4, 4)), (-X, torch.eye(4))]
    static = agree(over_rows, calls, static=dy2st.to_static(over_rows, unroll=unroll))
    assert loops(static) == [expected]


def many_steps(net, optimizer, x):
    total = torch.zeros(())
    for row in x:
        optimizer.zero_grad()
        loss = net(row).square().mean()
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
    return total


def test_a_loop_that_does_much_is_not_written_out(monkeypatch):
    monkeypatch.setattr(config, "UNROLLED_OPERATIONS", 1000)
    results = []
    for static in (None, dy2st.to_static(many_steps)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        optimizer = torch.optim.AdamW(net.parameters())
        many_steps(net, optimizer, X[:2])
        results.append([(static or many_steps)(net, optimizer, X.repeat(10, 1)), *net.parameters()])
    assert loops(static) == [1]
    for expected, result in zip(*results):
        assert torch.equal(expected, result)


def test_a_loop_that_does_much_and_differs_is_written_out(monkeypatch):
    def function(x):
        printed = []
        for t in range(60):
            x = x[None].sum(0) if t % 2 else torch.tanh(x)
            printed.append(str(t))
        return x, printed

    monkeypatch.setattr(config, "UNROLLED_OPERATIONS", 20)
    static = agree(function, [(X,)])
    assert static is not None


def test_gradients_through_a_loop_that_is_not_written_out():
    def last(x, w):
        return recurrent(x, w)[0][-1]

    w = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    x = X.double().requires_grad_()
    agree(last, [(x, w)], static=dy2st.to_static(last, unroll=False))


@pytest.mark.parametrize("unroll", [False, True, 3])
def test_loops_that_are_left(unroll):
    agree(leaving, [X, X * 4, -X, X * 0], static=dy2st.to_static(leaving, unroll=unroll))


def test_bodies_that_differ_from_iteration_to_iteration_are_written_out():
    static = agree(growing_rank, [X], static=dy2st.to_static(growing_rank, unroll=False))
    assert loops(static) == [0]


def test_a_long_loop_is_a_loop_by_default():
    def long(x):
        for t in range(config.UNROLL + 1):
            x = (x + t).sin()
        return x

    static = agree(long, [X])
    assert loops(static) == [1]


def test_the_choice_goes_with_methods_copies_and_pickles():
    net = dy2st.to_static(Repeated(), unroll=False)
    for made in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(made(X), Repeated()(X))
        assert loops(made.forward) == [1]


class Repeated(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = x * 2 - 1
        return x


@pytest.mark.parametrize("unroll", [-1, "all", 2.0])
def test_other_values_are_refused(unroll):
    with pytest.raises(dy2st.SignatureError, match="unroll is True, False or a number of iterations"):
        dy2st.to_static(recurrent, unroll=unroll)


@pytest.mark.parametrize(("trips", "expected"), [(0, "plain Python"), (1, "unrolled"), (2, "unrolled")])
def test_a_while_loop_of_python_values_is_reported_with_its_iterations(trips, expected):
    def f(x):
        k = 0
        while k < trips:
            x, k = x + 1, k + 1
        return x

    static = dy2st.to_static(f)
    static(torch.ones(2))
    assert [(site.outcome, f"{trips} iterations" in str(site)) for site in static.report().sites] == [(expected, True)]
