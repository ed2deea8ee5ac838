"""What becomes a region, and that splitting changes nothing: regions run here operation by operation, so all agrees bit for bit."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from dy2st_runtime import Block, Program, executors, verify
from dy2st_runtime.analyses.gradient_flow import GradientFlow
from dy2st_runtime.executors import python
from dy2st_runtime.ir.structure import Const
from dy2st_runtime.passes.regions import SLOW_ON_CPU, split_regions
from dy2st_runtime.primitives import control
from tests.oracle import agree


def plain(part, found=None):
    """Runs a region as it is, and checks that what it gives back shares no memory."""
    run = python.Compiled(Program("region", Block(part.graph), (), Const(None), (), Const(None)))

    def call(*args):
        outputs = run.function([], *args)
        seen = {value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor) and value.numel()}
        for output in outputs:
            assert isinstance(output, torch.Tensor)
            pointer = output.untyped_storage().data_ptr()
            assert pointer not in seen
            seen |= {pointer} if output.numel() else set()
        return outputs

    if found is not None:
        found.append(part)
    return call


def split(program, least=1):
    found = []
    made = split_regions(program, lambda part: plain(part, found), least)
    verify(made)
    return made, found


@pytest.fixture(autouse=True)
def as_backend(monkeypatch):
    monkeypatch.setitem(executors.BACKENDS, "split", executors.Backend(lambda program: python.runner(split(program)[0])))
    monkeypatch.setenv("DY2ST_BACKEND", "split")


def regions(function, *args, least=2):
    """The operators of each region."""
    parts = split(dy2st.to_static(function).program(*args), least)[1]
    graphs = [[node.target for node in part.graph.nodes] for part in parts]
    return [[target.overloadpacket.__name__ for target in graph if isinstance(target, torch._ops.OpOverload)] for graph in graphs]


def straight(x, y):
    z = (x * 2 + y).relu()
    return z.sum(), z


def loops(x, n):
    total = x.new_zeros(())
    outs = [x]
    i = 0
    while i < n:
        x = torch.tanh(x * 1.5) - i
        if x.sum() > 0:
            x = x - x.mean()
        total = total + x.abs().max()
        outs.append(x)
        i += 1
    return total, torch.stack(outs)


def in_place(x):
    y = x * 2
    z = y[0]
    y.add_(1)
    z.mul_(3)
    w = y.sum() + z.sum()
    y[1] = w
    return y, z, w, x.add_(1)


def views(x):
    y = (x + 1).view(-1)
    a, b = y.chunk(2)
    c = x.t()
    d = c * 2
    return y, a, b * 2, c, d.t(), d.reshape(-1), x.expand(2, *x.shape).sum(0)


def views_changed_later(x):
    y = x * 3
    v = y.view(-1)
    if x.sum() > 0:
        v += 1
    v[0] = 7
    return y, v, y.sum()


def printed(x):
    y = x + 1
    print(y)
    y.mul_(2)
    assert y.sum() > -1000, "small"
    return y * y


def random(x):
    y = x * 2 + 1
    y = torch.nn.functional.dropout(y, 0.5)
    z = torch.rand(3) + y.sum()
    return y.exp() + 1, z * torch.randn(3)


def indexed(x, i):
    y = x * 2 + 1
    return y[i] * 3 - 1, torch.embedding(x, i).exp() * 2


def sizes(x):
    y = torch.cat([x, x * 2])
    n = y.shape[0]
    z = y.view(n, 2, -1) + n
    return z, y.shape[0] * 2, z.new_zeros(y.shape[0])


def hooked(x):
    y = x * 2
    z = y + y.exp()
    (g,) = torch.autograd.grad(z.sum(), y, create_graph=True)
    return g * 2 + 1, z


def detached(x):
    y = x * 2 + 1
    z = y.detach() * x
    with torch.no_grad():
        w = z * y + 1
    return y, z, w


X = torch.arange(-4.0, 4.0).view(2, 4)


def leaf(value=X):
    return value.clone().requires_grad_()


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (straight, [(X, X + 1), (leaf(), X), (leaf(), leaf())]),
        (loops, [(X, torch.tensor(0)), (X, torch.tensor(3)), (leaf(), torch.tensor(2))]),
        (in_place, [X, -X]),
        (views, [X, -X]),
        (views_changed_later, [X, -X, X.abs()]),
        (printed, [X, X * 3]),
        (random, [X, leaf()]),
        (indexed, [(X, torch.tensor([0, 1, 1])), (X, torch.tensor([5])), (X, torch.tensor([-1]))]),
        (sizes, [X]),
        (hooked, [leaf()]),
        (detached, [leaf(), X]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_splitting_into_regions_changes_nothing(function, calls):
    agree(function, calls, programs=None)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3)

    def forward(self, x):
        for _ in range(2):
            y = self.norm(self.conv(x)).relu_()
        return y.flatten(1).softmax(-1)


def test_statistics_and_counters_belong_to_a_region():
    x = torch.randn(4, 2, 5)
    net = Norm()
    static = agree(net, [x, x + 1])
    (program,) = (captured.program for captured in static.forward.program_cache)
    made, (part,) = split(program, 2)
    assert len(part.writes) == 3
    outside = [node.target for node in made.nodes() if node.target is not operator.getitem]
    assert outside == [torch.ops.aten.conv1d.default, torch.ops.aten.add_.Tensor, control.call_]
    agree(net.eval(), [x])


def pooled(x):
    return F.max_pool1d((x * 2).exp(), 2).exp() * 2


@pytest.mark.parametrize(("make", "kept"), [(lambda: pooled, "max_pool1d"), (Norm, "batch_norm")])
def test_operators_that_stay_apart(make, kept, monkeypatch):
    def names(program):
        targets = [node.target for node in program.nodes()]
        return {target.overloadpacket.__name__ for target in targets if isinstance(target, torch._ops.OpOverload)}

    def apart(program):
        made = split_regions(program, plain, 1, SLOW_ON_CPU)
        verify(made)
        assert kept in names(made)
        assert kept not in names(split(program)[0])
        return python.runner(made)

    monkeypatch.setitem(executors.BACKENDS, "split", executors.Backend(apart))
    x = torch.randn(4, 2, 5)
    agree(make(), [x, x + 1])


def test_a_convolution_at_an_end_stays_outside():
    def inside(x, w):
        return F.conv1d((F.conv1d(x, w) * 2).exp(), w).relu() + 1

    def at_the_ends(x, w):
        y = F.conv1d(x, w)
        kept = y.sum()
        return F.conv1d((y * 2).exp(), w), kept

    x, w = torch.randn(4, 3, 5), torch.randn(3, 3, 1)
    assert regions(inside, x, w) == [["mul", "exp", "conv1d", "relu", "add"]]
    assert regions(at_the_ends, x, w) == [["sum", "mul", "exp"]]
    agree(at_the_ends, [(x, w), (x * 2, w.clone().requires_grad_())], programs=2)


def test_what_becomes_a_region():
    assert regions(straight, X, X) == [["mul", "add", "relu", "sum"]]
    assert regions(random, X)[0] == ["mul", "add"]
    for names in regions(loops, X, torch.tensor(2)):
        assert not set(names) & {"stack", "new_zeros", "select"} or len(names) > 2
    assert regions(lambda x: x * 2, X) == []
    assert regions(lambda x: (x @ x.t()) @ x, X) == []


def test_indexing_and_integer_division_stay_outside_of_regions():
    indices = torch.tensor([0, 1])
    found = {name for names in regions(indexed, X, indices, least=1) for name in names}
    assert not found & {"embedding", "index", "index_select"}
    integers = regions(lambda i: (i + 1) // (i - 1) % 3 + 2 * i, indices, least=1)
    assert not {name for names in integers for name in names} & {"floor_divide", "remainder", "div"}


def test_a_loop_stays_one_region_and_its_inputs_are_forecast():
    def cell(x, w, n):
        h = torch.zeros(4)
        i = 0
        while i < n:
            h = torch.tanh(x @ w + h) * 0.5
            i += 1
        return h.sum()

    program = dy2st.to_static(cell).program(X, torch.randn(4, 4, requires_grad=True), torch.tensor(3))
    flow = GradientFlow(program)
    (loop,) = (node for node in program.nodes() if node.target is control.while_)
    (body,) = (value for value in loop.args if isinstance(value, Block))
    forecast = {node.name: flow.may(node) for node in body.inputs}
    wanted = {name.partition("_")[0] for name, may in forecast.items() if may}
    assert wanted == {"h", "w"} and not all(forecast.values())
