"""Whole programs for the compiler: what may go there, and that nothing is lost of what eager gives."""

from __future__ import annotations

import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import dy2st
from dy2st_runtime.errors import BackendError
from dy2st_runtime.executors.inductor import regions, whole_program
from dy2st_runtime.executors.inductor.compile import Compiled

X = torch.arange(-4.0, 4.0).view(2, 4) / 4


def as_it_is(graph, args, dynamic, requires_grad):
    """The lowered graph, run by PyTorch instead of being compiled."""
    shapes = [tuple(arg.shape) for arg in args]
    space = {"fit": lambda *given: [tuple(arg.shape) for arg in given] == shapes}
    names = ", ".join(f"a{index}" for index in range(len(args)))
    check = () if any(dynamic) else (f"if not fit({names}): raise AssertionError",)
    none = [False] * len(args)
    return Compiled(check, space, lambda given: graph(*given), None, 0, slice(0), slice(0), tuple(none), (), (), (), (), (), None)


@pytest.fixture(autouse=True)
def uncompiled(request, monkeypatch):
    if "slow" not in request.keywords:
        monkeypatch.setattr(whole_program, "compile_region", as_it_is)
        monkeypatch.setattr(whole_program, "_nothing", lambda *values: pytest.skip("goes region by region"))


def static(function, **options):
    return dy2st.to_static(function, backend="inductor", **options)


def whole_of(function):
    """What runs the programs of a static function whole."""
    runners = [captured.program.block.runners["inductor"] for captured in function.program_cache]
    return [whole for runner in runners for whole in runner.wholes.values()]


def solve(y, end):
    t = torch.zeros(())
    h = torch.ones(())
    while t < end:
        bigger = y + h * y.tanh()
        if bigger.abs().max() < 2:
            y = bigger
        else:
            h = h * 0.75
        t = t + h
    return y, t


def leaves_early(x, limit):
    for scale in (1.0, 2.0, 4.0):
        x = x * scale
        if x.abs().max() > limit:
            return x
    return x + 1


def nothing_at_first(x, n):
    found = None
    if n > 0:
        found = x * n
    return found, x.sum()


def one_or_the_other(x, y, n):
    if n > 0:
        z = x
    elif n < 0:
        z = y
    else:
        z = x + y
    return z


def counts(x, n):
    i = 0
    while i < n:
        x = (x * 1.5).sin()
        i += 2
    return x, i, i > 3


def nested(x, n):
    i = torch.zeros((), dtype=torch.int64)
    while i < n:
        j = torch.zeros((), dtype=torch.int64)
        while j < i:
            if (i + j) % 2 == 0:
                x = x + 1
            j = j + 1
        i = i + 1
    return x


def swaps(x, y, n):
    i = 0
    while i < n:
        x, y = y, x
        i += 1
    return x * 1, y


def two_of_one(x, n):
    y = x * 2
    if n > 0:
        y = y + 1
    return y, y, {"again": y, "x": x}


CASES = {
    "solve": (solve, [(X, torch.tensor(v)) for v in (0.0, 0.5, 3.0)]),
    "leaves early": (leaves_early, [(X, torch.tensor(v)) for v in (0.5, 1.5, 100.0)]),
    "nothing at first": (nothing_at_first, [(X, torch.tensor(v)) for v in (0, 2)]),
    "one or the other": (one_or_the_other, [(X, X + 1, torch.tensor(v)) for v in (-1, 0, 1)]),
    "counts": (counts, [(X, torch.tensor(v)) for v in (0, 1, 6)]),
    "swaps": (swaps, [(X, X + 1, torch.tensor(v)) for v in (0, 1, 4)]),
    "two of one": (two_of_one, [(X, torch.tensor(v)) for v in (0, 1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gives_what_eager_gives(name):
    function, calls = CASES[name]
    fast = static(function)
    with torch.no_grad():
        for args in calls:
            expected, found = function(*args), fast(*args)
            assert_close(found, expected)
            assert objects(found, args) == objects(expected, args), "arguments that come back are the arguments themselves"
    (whole,) = whole_of(fast)
    assert whole.variants and whole.reason is None
    assert "compiled whole, with its branches and loops" in str(fast.report())


def objects(result, args):
    """Which results are which arguments, or one another."""
    leaves = torch.utils._pytree.tree_leaves(result)
    seen = [*args, *[leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]]
    return [next((index for index, other in enumerate(seen) if other is leaf), None) for leaf in leaves]


def draws(x, n):
    while x.sum() < n:
        x = x + torch.rand(2, 4)
    return x


def prints(x, n):
    if n > 0:
        print(x)
    return x


def looks_up(x, n):
    while n < 2:
        x = x + x[n]
        n = n + 1
    return x


def doubles(x, n):
    k = int(n)
    while k < 100:
        k = k * k
    return x, k


def divides(x, n):
    k = int(n)
    if k > 3:
        k = 7 // k
    return x, k


def a_view(x, n):
    if n > 0:
        x = x[0]
    else:
        x = x[1]
    return x


def maybe_one(x, n):
    y = x * 2
    z = x + 1
    if n > 0:
        z = y
    return y, z


def checks_first(x, n):
    assert n < 5, "too many"
    while n > 0:
        x = x * 2
        n = n - 1
    return x


def straight(x, n):
    return x * n


REFUSED = {
    "draws": (draws, "aten.rand.default is left out of what is compiled"),
    "prints": (prints, "print_ is left out of what is compiled"),
    "looks up": (looks_up, "aten.select.int takes a number that is known only when the program runs"),
    "doubles": (doubles, "of Python numbers is left out of what is compiled"),
    "divides": (divides, "operator.floordiv of Python numbers is left out of what is compiled"),
    "a view": (a_view, "a result shares memory with 'x', which comes from outside"),
    "maybe one": (maybe_one, "two results may share memory"),
    "checks first": (checks_first, "raise_ is left out of what is compiled"),
    "straight": (straight, "it has no branches or loops"),
    "nested": (nested, "aten.remainder.Scalar is left out of what is compiled"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_goes_region_by_region(name, monkeypatch):
    function, reason = REFUSED[name]
    monkeypatch.undo()
    program = static(function).program(X, torch.tensor(1))
    whole = whole_program.Whole(program, types.SimpleNamespace())
    assert whole.run([X, torch.tensor(1)]) is None
    assert reason in whole.report()


def bound_sometimes(x, n):
    if n > 0:
        z = x * 2
    return z


def test_what_raises_is_run_again_by_the_regions(monkeypatch):
    def failing(*args):
        raise RuntimeError("no compiler")

    monkeypatch.undo()
    monkeypatch.setattr(whole_program, "compile_region", as_it_is)
    monkeypatch.setattr(regions, "compile_region", failing)
    fast = static(bound_sometimes)
    with torch.no_grad():
        assert_close(fast(X, torch.tensor(3)), bound_sometimes(X, torch.tensor(3)))
        with pytest.raises(UnboundLocalError, match="cannot access local variable 'z'"):
            fast(X, torch.tensor(0))
    (whole,) = whole_of(fast)
    assert whole.variants


def test_gradients_go_region_by_region(monkeypatch):
    fast = static(solve)
    y = X.clone().requires_grad_()
    with torch.no_grad():
        fast(y, torch.tensor(1.0))
    (whole,) = whole_of(fast)
    end = torch.tensor(1.0)
    assert whole_program._fits([X, end]) and not whole_program._fits([y, end]) and not whole_program._fits([X[:0], end])
    assert whole.run([y, end]) is None


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))
        self.last = torch.zeros(2, 4)

    def forward(self, x):
        if x.sum() + self.calls > 0:
            x = self.linear(x)
        self.last = x
        self.calls = self.calls + 1
        return x.relu()


def test_state_is_kept_from_call_to_call():
    torch.manual_seed(0)
    eager = Counter()
    torch.manual_seed(0)
    fast = static(Counter())
    with torch.no_grad():
        for value in (-1.0, -1.0, 2.0):
            x = torch.full((2, 4), value)
            assert_close(fast(x), eager(x))
            assert_close((fast.last, fast.calls), (eager.last, eager.calls))
    (whole,) = whole_of(fast.forward)
    assert whole.variants


def test_one_variant_serves_all_dynamic_sizes():
    fast = static(solve, input_spec=[dy2st.InputSpec([None, None]), dy2st.InputSpec([])])
    with torch.no_grad():
        for rows, columns in ((3, 2), (1, 5), (7, 1)):
            y, end = torch.randn(rows, columns), torch.tensor(0.5)
            assert_close(fast(y, end), solve(y, end))
    (whole,) = whole_of(fast)
    assert len(whole.variants) == 1


def test_the_environment_chooses_between_whole_and_regions(monkeypatch):
    monkeypatch.setenv("DY2ST_INDUCTOR", "regions")
    program = static(solve).program(X, torch.tensor(1.0))
    assert "DY2ST_INDUCTOR says so" in whole_program.Whole(program, types.SimpleNamespace()).report()
    monkeypatch.setenv("DY2ST_INDUCTOR", "fast")
    with pytest.raises(BackendError, match="says 'fast'; choose one of 'whole', 'regions'"):
        whole_program.Whole(program, types.SimpleNamespace())


@pytest.mark.slow
def test_a_compiled_program_agrees_with_eager_in_threads_too():
    fast = static(solve)
    with torch.no_grad():
        for value in (0.0, 3.0):
            assert_close(fast(X, torch.tensor(value)), solve(X, torch.tensor(value)))
        assert fast(X, torch.tensor(0.0))[0] is X
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: fast(X, torch.tensor(3.0)), range(8)):
                assert_close(found, solve(X, torch.tensor(3.0)))
    assert all(len(whole.variants) == 1 for whole in whole_of(fast))
