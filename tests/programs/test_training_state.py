"""State of training steps that differs from call to call: which weights have a gradient, what optimizers hold and give."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from tests.programs.test_training_steps import Experts, agree, batches, run, same


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 2) for _ in range(4))

    def forward(self, x):
        where = x[0, 0]
        if where < -0.7:
            return self.experts[0](x)
        if where < 0:
            return self.experts[1](x)
        return self.experts[2](x) if where < 0.7 else self.experts[3](x)


def accumulated(model, optimizer, count, x, y):
    loss = F.mse_loss(model(x), y)
    loss.backward()
    count["n"] += 1
    if count["n"] % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
    return loss


def looked_at(model, optimizer, count, x, y):
    missing = [p.grad is None for p in model.parameters()]
    loss = F.mse_loss(model(x), y)
    loss.backward()
    if loss > 1:
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        for p in model.parameters():
            p.grad = None
    norms = [None if p.grad is None else p.grad.norm() for p in model.parameters()]
    return missing, norms


def halved(model, optimizer, count, x, y):
    while count["n"] % 2 == 0:
        for p in model.parameters():
            if p.grad is not None and p.grad.norm() > 0.1:
                p.grad *= 0.5
        count["n"] += 1
    F.mse_loss(model(x), y).backward()
    count["n"] += 1
    if x.sum() > 0:
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("function", [accumulated, looked_at, halved])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_which_weights_have_a_gradient_at_the_call_is_open(function, kind):
    def make():
        model = Routed()
        return model, kind(model.parameters(), lr=0.05), {"n": 0}

    agree(function, make, batches(24), programs=9)


def test_a_gradient_that_lies_otherwise_in_memory_has_its_own_program():
    def f(model, optimizer, change, x, y):
        F.mse_loss(model(x), y).backward()
        return [None if p.grad is None else p.grad.stride() for p in model.parameters()]

    def change(model, x):
        for number, p in enumerate(model.parameters()):
            p.grad = None if (x[0, number % 4] > 0) else torch.ones_like(p)
            if p.dim() == 2 and x[1, 0] > 0.5:
                p.grad = torch.ones_like(p.t()).t()

    def make():
        model = Routed()
        return model, torch.optim.SGD(model.parameters(), lr=0.1), None

    def changed(function):
        def call(model, optimizer, _, x, y):
            change(model, x)
            return function(model, optimizer, _, x, y)

        return call

    expected = run(changed(f), make, batches(16))
    for backend in ("native", "python"):
        static = dy2st.to_static(f, backend=backend)
        same(run(changed(static), make, batches(16)), expected)
        before = len(static.program_cache)
        run(changed(static), make, batches(16))
        assert len(static.program_cache) <= before + 4


def rolled_back(model, optimizer, x, y):
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        after = F.mse_loss(model(x), y)
    if after > loss:
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    return loss, after


def listed(model, optimizer, x, y):
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    state = optimizer.state_dict()
    return sorted(state["state"]), [group["params"] for group in state["param_groups"]]


@pytest.mark.parametrize("function", [rolled_back, listed])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_the_state_dict_of_an_optimizer(function, kind):
    def make():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        return model, kind(model.parameters(), lr=1.0, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))

    agree(function, make, batches(6))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adagrad])
def test_what_a_fused_step_writes_to_its_optimizer(kind):
    def f(model, optimizer, x, y):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        return optimizer._need_device_dtype_check_for_fused

    def make():
        model = Experts()
        return model, kind(model.parameters(), lr=0.1, fused=True)

    agree(f, make, batches(4))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(5, 4, sparse=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.table(x.argmax(1)))


def applied(model, optimizer, x, y):
    F.mse_loss(model(x), y).backward()
    return model.table.weight.grad.is_sparse


def differentiated(model, optimizer, x, y):
    (gradient,) = torch.autograd.grad(F.mse_loss(model(x), y), model.table.weight)
    return gradient.layout


def gathered(model, optimizer, x, y):
    weight = model.out.weight * 2
    torch.gather(weight, 0, x[:1].argmax(1).expand(1, 4), sparse_grad=True).sum().backward()
    return model.out.weight.grad.layout


@pytest.mark.parametrize("function", [applied, differentiated, gathered])
def test_sparse_gradients_are_refused_inside(function):
    model = Words()
    with pytest.raises(dy2st.CaptureError, match="sparse"):
        dy2st.to_static(function)(model, None, *batches(1)[0])


def test_sparse_gradients_of_other_weights_are_no_matter():
    def f(model, optimizer, x, y):
        optimizer.zero_grad()
        F.mse_loss(model.out(model.table(x.argmax(1)).detach()), y).backward()
        optimizer.step()

    def make():
        model = Words()
        return model, torch.optim.SGD(model.out.parameters(), lr=0.1)

    agree(f, make, batches(3), programs=2)


def test_sparse_gradients_of_a_backward_pass_outside():
    def f(model, optimizer, x, y):
        return F.mse_loss(model(x), y) if y.sum() > 0 else model(x).sum()

    def make():
        return Words(), None

    def with_backward(function):
        def call(model, optimizer, x, y):
            model.zero_grad()
            function(model, optimizer, x, y).backward()
            return model.table.weight.grad.to_dense()

        return call

    expected, _, _ = run(with_backward(f), make, batches(4))
    found, _, _ = run(with_backward(dy2st.to_static(f)), make, batches(4))
    same(found, expected)
