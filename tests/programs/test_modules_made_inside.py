"""Modules that a function makes and leaves: in attributes, containers and results."""

from __future__ import annotations

import collections
import copy

import pytest
import torch
from torch import nn

import dy2st
from tests import oracle
from tests.worlds import agree, called


class Inner(nn.Module):
    def __init__(self, size, scale=2.0):
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(size))
        self.register_buffer("unsaved", torch.ones(1), persistent=False)
        self.scale = scale

    def forward(self, x):
        self.seen += x.detach().sum(0)
        return self.drop(self.layer(x)) * self.scale


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(3)
        self.kind = "first"


class Replaced(Base):
    """Replaces a module by one that keeps a part of it, as BigBird changes its attention."""

    def forward(self, x):
        if x.shape[0] < 4 and self.kind == "first":
            self.kind = "second"
            new = Inner(3, 3.0)
            new.layer = self.inner.layer
            self.inner = new
            if not self.training:
                self.inner.eval()
        return self.inner(x)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = None
        self.made = []

    def forward(self, x):
        if self.inner is None:
            self.inner = Inner(x.shape[-1])
            self.made.append(self.inner)
        return self.inner(x)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        self.heads = {}

    def forward(self, x):
        self.layers.append(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
        self.heads["last"] = self.layers[-1]
        for layer in self.layers:
            x = layer(x)
        return x


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = None
        self.plain = nn.Linear(3, 3)

    def forward(self, x):
        if self.parts is None:
            self.parts = nn.ModuleDict({"norm": nn.BatchNorm1d(3), "attention": nn.MultiheadAttention(3, 1), "old": self.plain})
            self.recurrent = nn.LSTM(3, 3)
            self.recurrent.register_forward_hook(lambda module, args, result: (result[0] * 2, result[1]))
            self.plain.weight.requires_grad_(False)
            self.tied = nn.Linear(3, 3, bias=False)
            self.tied.weight = self.plain.weight
        x = self.parts["norm"](x)
        x = self.recurrent(self.parts["attention"](x, x, x)[0])[0]
        return self.tied(self.parts["old"](x))


def described(module):
    return [
        [(name, type(m), m.training) for name, m in module.named_modules()],
        [name for name, _ in module.named_modules(remove_duplicate=False)],
        [(name, p.tolist(), p.requires_grad, type(p), p.is_leaf) for name, p in module.named_parameters()],
        [(name, b.tolist()) for name, b in module.named_buffers()],
        [(name, t.tolist()) for name, t in module.state_dict().items()],
    ]


def check(make, calls=4, grad=True, **options):
    torch.manual_seed(0)
    eager = make()
    module = copy.deepcopy(eager)
    static = dy2st.to_static(module, **options)
    for number in range(calls):
        results = []
        for run, root in ((eager, eager), (static, module)):
            torch.manual_seed(number)
            x = torch.randn(2, 3, requires_grad=True)
            result = run(x)
            wanted = [x, *(p for p in root.parameters() if p.requires_grad)]
            gradients = torch.autograd.grad(result.sum(), wanted, allow_unused=True) if grad else ()
            results.append(
                (result.tolist(), [g if g is None else g.tolist() for g in gradients], described(root), torch.rand(1).item())
            )
        assert results[0] == results[1], number
        for root in (eager, module):
            with torch.no_grad():
                for parameter in root.parameters():
                    parameter.mul_(1.5)
    return eager, module


class Decided(Base):
    def forward(self, x):
        if x.sum() > 0:
            self.inner = Inner(3)
        return self.inner(x)


def test_one_that_a_tensor_decides_on_is_refused():
    with pytest.raises(dy2st.CaptureError):
        dy2st.to_static(Decided())(torch.ones(2, 3))


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [Replaced, Lazy, Listed, Nested])
def test_a_module_that_is_made_and_left_is_eagers(kind, training, backend):
    check(lambda: kind().train(training), backend=backend)


def test_a_module_is_one_object_wherever_it_is_left():
    _, module = check(Lazy)
    assert module.made == [module.inner]
    _, module = check(Listed)
    assert module.heads["last"] is module.layers[-1]
    assert isinstance(module.layers[0][0].weight, nn.Parameter)


def test_each_call_makes_another():
    def made(x):
        layer = nn.Linear(3, 3)
        return layer, layer(x), [layer]

    static = dy2st.to_static(made)
    results = [static(torch.ones(2, 3)) for _ in range(2)]
    assert results[0][0] is not results[1][0]
    assert results[0][0] is results[0][2][0]
    for layer, value, _ in results:
        assert torch.equal(layer(torch.ones(2, 3)), value)
        value.sum().backward()
        assert layer.weight.grad is not None
    assert len(static.program_cache) == 1
    layer.load_state_dict(results[0][0].state_dict())
    assert repr(layer) == repr(nn.Linear(3, 3))
    layer.register_forward_hook(lambda *_: torch.zeros(1))
    assert layer(torch.ones(2, 3)).item() == 0
    assert results[0][0](torch.ones(2, 3)).shape == (2, 3)


class Counted(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count
        self.scale = torch.ones(2)


def alone(x):
    if x.sum() > 0:
        return Counted(1)


def within_others(x):
    if x.sum() > 0:
        return collections.deque([[Counted(1), {"last": Counted(x.sum().item())}]])
    return x


def with_more_on_some_ways(x):
    made = None
    if x.sum() > 0:
        made = Counted(2)
        if x.sum() > 3:
            made.more = Counted(3)
            made.register_buffer("seen", x)
    return made, x


def kept(x):
    made = nn.Identity()
    if x.sum() > 0:
        made.inner = Counted(x.sum().item())
    return [made]


@pytest.mark.parametrize("function", [alone, within_others, with_more_on_some_ways, kept])
def test_modules_are_made_on_some_ways_only(function):
    values = (torch.ones(2), -torch.ones(2), torch.full((2,), 3.0), torch.zeros(2))
    agree(lambda: called(function, [], *values), programs=1)


class Scaled(nn.Module):
    def __init__(self, base, scale):
        super().__init__()
        self.base, self.scale = base, scale

    def forward(self, x):
        return self.scale * self.base(x * self.scale)


class OnSomeWays(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        module = Scaled(self.first, 2.0)
        if x.sum() > 0:
            module = Scaled(module, -1.0)
        if x[0] > 1:
            module = Scaled(module, -3.0)
        chosen = Scaled(self.first if x[1] > 1 else self.second, 1.0)
        return module(x), Scaled(chosen, 2.0)(x)


def test_a_module_is_made_of_one_of_several():
    torch.manual_seed(0)
    oracle.agree(OnSomeWays(), [torch.tensor(row) for row in ([1.0, 2], [-1.0, -2], [2.0, -5], [2.0, 3])])
