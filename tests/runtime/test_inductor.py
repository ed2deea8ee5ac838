"""The compiled backend: eager's values within rounding, its gradients and their absence, its exceptions."""

from __future__ import annotations

import gc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import dy2st
from dy2st_runtime.analyses import repetition
from dy2st_runtime.executors.inductor import compile as inductor_compile
from dy2st_runtime.executors.inductor import regions
from dy2st_runtime.primitives import control

X = torch.arange(-4.0, 4.0).view(2, 4) / 4


def refine(x, w, n):
    """A loop with a branch; ``w`` gets a gradient only where the loop runs."""
    h = torch.zeros(4)
    i = 0
    while i < n:
        h = torch.tanh(x @ w + h * 0.5).sum(0)
        i += 1
    return h, x.sum()


def static(function, **options):
    return dy2st.to_static(function, backend="inductor", **options)


def runners(function):
    """The runners of a static function's programs."""
    kept = [captured.program.block.runners for captured in function.program_cache]
    return [made["inductor"] for made in kept if "inductor" in made]


def compiled(function):
    """How many variants were compiled, over all regions of all programs."""
    return sum(len(region.variants) for runner in runners(function) for region in runner.regions)


@pytest.fixture(autouse=True)
def by_regions(monkeypatch):
    monkeypatch.setenv("DY2ST_INDUCTOR", "regions")  # test_inductor_whole.py has the other way


def gradients(function, *args, wanted):
    h, _ = function(*args)
    return torch.autograd.grad((h * torch.arange(1.0, 5)).sum(), wanted, allow_unused=True)


def test_a_loop_in_inference_and_training():
    fast = static(refine)
    x, w = X, torch.randn(4, 4)
    with torch.no_grad():
        for trips in (0, 1, 7):
            assert_close(fast(x, w, torch.tensor(trips)), refine(x, w, torch.tensor(trips)))
    assert compiled(fast) == 1
    w.requires_grad_()
    for trips in (1, 5, 2):
        n = torch.tensor(trips)
        assert_close(gradients(fast, x, w, n, wanted=[w]), gradients(refine, x, w, n, wanted=[w]))
    assert compiled(fast) == 2, "one more, with gradients, for the first iteration and the others"
    h, total = fast(x, w, torch.tensor(0))
    assert not h.requires_grad and not total.requires_grad
    with ThreadPoolExecutor(4) as pool:
        n = torch.tensor(3)
        for found in pool.map(lambda _: gradients(fast, x, w, n, wanted=[w]), range(8)):
            assert_close(found, gradients(refine, x, w, n, wanted=[w]))


def two(x, a, b):
    p = (x * a + 1).tanh()
    q = (x * b).sin() * 2
    return p, q, (p.detach() * 3 > 1)


def test_gradients_are_there_where_eager_has_them():
    fast = static(two)
    a, b = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    for function in (two, fast):
        p, q, flag = function(X, a, b)
        assert (p.requires_grad, q.requires_grad, flag.requires_grad, flag.dtype) == (True, True, False, torch.bool)
        assert torch.autograd.grad(p.sum(), [a, b], allow_unused=True, retain_graph=True)[1] is None
    assert_close(torch.autograd.grad(p.sum(), a, retain_graph=True), torch.autograd.grad(two(X, a, b)[0].sum(), a))
    (first,) = torch.autograd.grad(p.sum(), a, create_graph=True)
    (expected,) = torch.autograd.grad(two(X, a, b)[0].sum(), a, create_graph=True)
    assert_close(torch.autograd.grad(first.sum(), a), torch.autograd.grad(expected.sum(), a))
    assert compiled(fast) == 1


def test_one_compilation_serves_all_dynamic_sizes():
    def grow(x, n):
        i = 0
        while i < n:
            x = torch.cat([x, (x * 0.5 + 1).tanh().mean(0, keepdim=True)])
            i += 1
        return x

    fast = static(grow, input_spec=[dy2st.InputSpec([None, 4]), dy2st.InputSpec([], "int64")])
    with torch.no_grad():
        for rows, trips in ((2, 3), (3, 6), (7, 2), (40, 1)):
            x, n = torch.randn(rows, 4), torch.tensor(trips)
            assert_close(fast(x, n), grow(x, n))
        assert compiled(fast) == 1
        empty = torch.zeros(0, 4)
        assert_close(fast(empty, torch.tensor(1)), grow(empty, torch.tensor(1)), equal_nan=True)
        assert compiled(fast) == 1, "what is empty runs uncompiled"


def failing(*args, **kwargs):
    raise RuntimeError("no compiler\nand more")


def test_what_cannot_be_compiled_runs_all_the_same(monkeypatch):
    monkeypatch.setattr(regions, "compile_region", failing)
    fast = static(refine)
    w, n = torch.randn(4, 4, requires_grad=True), torch.tensor(3)
    with pytest.warns(
        UserWarning, match=r"test_inductor.py:\d+: a part of refine runs uncompiled: RuntimeError: no compiler$"
    ) as seen:
        assert_close(fast(X, w, n), refine(X, w, n))
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(gradients(fast, X, w, n, wanted=[w]), gradients(refine, X, w, n, wanted=[w]))
    (runner,) = runners(fast)
    assert [region.failure for region in runner.regions] == ["RuntimeError: no compiler"]
    assert "a part from here on runs uncompiled: RuntimeError: no compiler" in str(fast.report())


def test_errors_name_the_line_of_the_user(monkeypatch):
    monkeypatch.setattr(regions, "compile_region", failing)

    def mismatched(x, y):
        z = (x * 2).tanh()
        while z.sum() > 100:
            z = z - 1
        return z.exp() @ y.exp() + z.sin() * 2

    fast = static(mismatched, input_spec=[dy2st.InputSpec([None, None]), dy2st.InputSpec([None, None])])
    with pytest.warns(UserWarning, match="uncompiled"), pytest.raises(RuntimeError) as raised:
        fast(torch.ones(2, 3), torch.ones(2, 3))
    assert raised.traceback[-1].path.name == "test_inductor.py"


def test_somebody_who_watches_sees_every_operation():
    from torch.utils.flop_counter import FlopCounterMode

    fast = static(lambda x: (x @ x.t()).tanh().exp().sum())
    with FlopCounterMode(display=False) as counter:
        fast(X)
    assert counter.get_total_flops() >= 2 * 2 * 2 * 4  # the capture counts too
    assert compiled(fast) == 0


def test_programs_and_their_regions_are_freed(monkeypatch):
    monkeypatch.setattr(regions, "compile_region", failing)
    function = static(lambda x: (x * 2 + 1).tanh())
    with pytest.warns(UserWarning, match="uncompiled"):
        function(X)
    kept = weakref.ref(runners(function)[0].regions[0])
    function.program_cache.clear()
    for _ in range(2):  # what a weak dictionary held goes with the next collection
        gc.collect()
    assert kept() is None


@pytest.mark.slow
def test_autocast_is_compiled_in():
    def mixed(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            y = (x @ w).tanh() * 2 + 1
        return y.float().exp() + y

    fast = static(mixed)
    w = torch.randn(4, 4)
    found = fast(X, w)
    assert found.dtype == mixed(X, w).dtype
    assert_close(found, mixed(X, w), rtol=0.02, atol=0.05)
    assert inductor_compile.autocast_state() is None


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(16, 3)

    def forward(self, x):
        x = torch.relu_(self.norm(self.conv(x)))
        return self.out(torch.nn.functional.avg_pool2d(x, 3).flatten(1)).log_softmax(-1)


@pytest.mark.slow
def test_a_network_without_control_flow_goes_whole():
    torch.manual_seed(0)
    eager = Classifier()
    torch.manual_seed(0)
    fast = static(Classifier(), input_spec=[dy2st.InputSpec([None, 1, 8, 8])])
    optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (eager, fast)]
    for batch in (3, 5):
        x = torch.randn(batch, 1, 8, 8)
        for net, optimizer in zip((eager, fast), optimizers):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
    assert_close(dict(fast.state_dict()), dict(eager.state_dict()), rtol=1e-4, atol=1e-5)
    (runner,) = runners(fast.forward)
    assert len(runner.regions) == 1 and len(runner.regions[0].variants) == 1
    eager.eval(), fast.eval()
    assert_close(fast(x), eager(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_conditions_of_what_is_trained():
    def halve(x):
        while (x * 2).abs().max() > 1:
            x = x / 2
        return x

    fast = static(halve)
    x = (X * 8).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(torch.autograd.grad(fast(x).sum(), x), torch.autograd.grad(halve(x).sum(), x))
    (runner,) = runners(fast)
    assert {variant.compiled.cut for region in runner.regions for variant in region.variants} == {True, False}


@pytest.mark.slow
def test_gradients_of_gradients_leave_statistics_alone():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            return (self.norm(x) * x).tanh().sum(1)

    eager, fast = Net(), static(Net())
    results = []
    for net in (eager, fast):
        x = X.clone().requires_grad_()
        (first,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((first.detach(), second, dict(net.state_dict())))
    assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


class Recurrent(nn.Module):
    """The iterations of its loop are known when it is captured, or decided by a tensor."""

    def __init__(self, trips: int | None) -> None:
        super().__init__()
        self.trips, self.cell, self.out = trips, nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, x, n):
        h, outs = torch.zeros(3, 4), []
        for t in range(int(n) if self.trips is None else self.trips):
            h = torch.tanh(self.cell(torch.cat([x[t], h], dim=1))) * 0.9 + h.sigmoid() * 0.1
            outs.append(h)
        return self.out(h).sum(), torch.stack(outs) if outs else h


def check_training(net, fast, *args):
    """Values and gradients of a network and its static copy, with the same weights."""
    fast.zero_grad()
    for one, other in zip(fast.parameters(), net.parameters(), strict=True):
        one.data.copy_(other.data)
    net.zero_grad()
    results = [model(*args) for model in (fast, net)]
    for loss, outs in results:
        (loss + (outs * outs).sum()).backward()
    assert_close(results[0], results[1])
    for one, other in zip(fast.parameters(), net.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            assert_close(one.grad, other.grad)


@pytest.mark.slow
def test_groups_of_iterations_and_those_left_over_train_as_single_ones():
    torch.manual_seed(0)
    net, fast = Recurrent(None), Recurrent(None)
    dy2st.to_static(fast, backend="inductor")
    x = torch.randn(20, 3, 1)
    for trips in (9, 0, 1, 7, 8, 16, 19, 20):
        check_training(net, fast, x, torch.tensor(trips))
    assert len(fast.forward.program_cache) == 1
    with pytest.raises(IndexError, match="index 20 is out of bounds"):
        fast(x, torch.tensor(21))


def test_iterations_that_were_written_out_compile_once(monkeypatch):
    monkeypatch.setattr(repetition, "LONG", 60)
    monkeypatch.setattr(repetition, "PIECE", 20)
    torch.manual_seed(0)
    net, fast = Recurrent(20), Recurrent(20)
    dy2st.to_static(fast, backend="inductor")
    x = torch.randn(20, 3, 1, requires_grad=True)
    check_training(net, fast, x, torch.tensor(0))
    (runner,) = runners(fast.forward)
    (split,) = runner.compiled.values()
    assert len(runner.regions) == 1
    assert sum(node.target is control.call_ for node in split.program.nodes()) == 10
    check_training(net, fast, (x * 0.5).detach(), torch.tensor(0))
    assert compiled(fast.forward) <= 2


@pytest.mark.parametrize("spec", [None, [dy2st.InputSpec([None, 3])]])
def test_no_entries_are_of_other_sizes_than_one_row(spec: Any) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def f(x: Any) -> Any:
        y = layers(x)
        return y * 2 if y.sum() > 0 else y

    static = dy2st.to_static(f, backend="inductor", input_spec=spec)
    for rows in (4, 2, 5, 1, 0, 3, 0, 1):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(static(x), f(x))
