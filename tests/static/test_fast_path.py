"""The fast path of repeated calls: it must take exactly the calls that the slow path would give the same program."""

from __future__ import annotations

import copy
import dataclasses
import gc
import threading
import weakref
from collections import namedtuple

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, to_static
from dy2st.static.fast_path import Route
from tests.oracle import same


def routes(static):
    return [route for group in static.program_cache.routes.values() for route in group]


def warmed_up(static, *args, **kwargs):
    """Call until the fast path is there."""
    for _ in range(2):
        static(*args, **kwargs)
    assert routes(static), "no fast path"
    return static


@pytest.fixture
def slow_path(monkeypatch):
    """Counts the calls that go the slow path."""
    seen = []
    plain = dy2st.StaticFunction._run
    monkeypatch.setattr(dy2st.StaticFunction, "_run", lambda self, *rest: seen.append(1) or plain(self, *rest))
    return seen


def scaled(x, y=2.0, *rest, flag=False, **more):
    return (x * y + len(rest) if not flag else x - y), more


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((3,), {}), ((3.0,), {}), ((2.0, 5, 6), {}), ((), {"flag": True}), ((), {"y": 4, "flag": False}), ((), {"b": 1, "a": 2}),
     ((None,), {}), ((float("nan"),), {}), ((-0.0,), {}), ((True,), {}), ((1,), {})],
)  # fmt: skip
def test_constants_are_told_apart(args, kwargs):
    static, x = to_static(scaled), torch.ones(3)
    for others in ((), (3,), (3.0,), (0.0,), (1.0,)):
        warmed_up(static, x, *others)
    for _ in range(3):
        try:
            expected = scaled(x, *args, **kwargs)
        except TypeError:
            with pytest.raises(TypeError):
                static(x, *args, **kwargs)
        else:
            same(expected, static(x, *args, **kwargs))


def double(x):
    return x * 2


@pytest.mark.parametrize(
    "other",
    [torch.ones(4), torch.ones(3, dtype=torch.float64), torch.ones(3, requires_grad=True), torch.ones(3, 1), torch.ones(()),
     torch.ones(3, device="meta"), nn.Parameter(torch.ones(3)), 3, 2.5, "ab", [1, 2]],
)  # fmt: skip
def test_another_kind_of_argument_is_another_program(other, slow_path):
    static = warmed_up(to_static(double), torch.ones(3))
    slow_path.clear()
    static(torch.ones(3))
    assert not slow_path
    expected, found = double(other), static(other)
    assert slow_path
    if isinstance(other, torch.Tensor) and other.device.type == "meta":
        assert found.shape == expected.shape
    else:
        same(expected, found)


def test_modes_are_told_apart():
    static, x = to_static(double), torch.ones(3, requires_grad=True)
    warmed_up(static, x)
    with torch.no_grad():
        assert not static(x).requires_grad
    with torch.inference_mode():
        assert static(x).is_inference()
    linear = warmed_up(to_static(lambda x, w: x @ w), torch.ones(2, 2), torch.ones(2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            assert linear(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    assert linear(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32
    made = warmed_up(to_static(lambda x: torch.ones(2) + x), 1)
    torch.set_default_dtype(torch.float64)
    try:
        assert made(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_one_tensor_given_twice_is_another_program():
    def add(a, b, c, d, e, f):
        a.add_(1)
        return a + b + c + d + e + f

    static = warmed_up(to_static(add), *(torch.ones(2) for _ in range(6)))
    x = torch.ones(2)
    assert torch.equal(static(x, x, *(torch.ones(2) for _ in range(4))), torch.full((2,), 8.0))
    warmed_up(static, x, x, *(torch.ones(2) for _ in range(4)))
    x = torch.ones(2)
    assert torch.equal(static(x, torch.ones(2), torch.ones(2), x, torch.ones(2), torch.ones(2)), torch.full((2,), 8.0))


def test_nests_are_taken_apart():
    Pair = namedtuple("Pair", "a b")

    def total(batch, pair):
        return batch["x"][0] * batch["k"] + pair.a - pair.b

    static = to_static(total)
    for k, x in ((1, 1.0), (1, 2.0), (2, 3.0), (2, 4.0), (1, 5.0)):
        batch = {"x": [torch.full((2,), x)], "k": k}
        for pair in (Pair(torch.ones(2), 3), Pair(torch.ones(2), 3.0)):
            for _ in range(3):
                same(total(batch, pair), static(batch, pair))
    assert len(static.program_cache) == 4
    assert routes(static)
    with pytest.raises(KeyError):
        static({"k": 1}, Pair(torch.ones(2), 3))


def test_dataclasses_go_the_long_way(slow_path):
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor

    static = to_static(lambda batch: batch.x + 1)
    for _ in range(4):
        same(torch.ones(2), static(Batch(torch.zeros(2))))
    assert len(slow_path) == 4
    assert not routes(static)


SCALE = 2.0


def by_global(x):
    return x * SCALE


def test_globals_defaults_and_closures_are_looked_at(monkeypatch):
    static, x = warmed_up(to_static(by_global), torch.ones(2)), torch.ones(2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert static(x)[0] == 3
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(NameError):
        static(x)
    factor = 4

    def scale(x, by=1):
        return x * factor * by

    static = warmed_up(to_static(scale), x)
    factor = 5
    assert static(x)[0] == 5
    scale.__defaults__ = (10,)
    for _ in range(3):
        assert static(x)[0] == 50


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.register_buffer("shift", torch.ones(3))
        self.gain, self.calls = 1, 0

    def forward(self, x):
        return self.body(x) * self.gain + self.shift


def test_changes_of_modules_are_seen(slow_path):
    torch.manual_seed(0)
    eager, x = Net(), torch.randn(2, 3)
    static = to_static(Net())
    static.load_state_dict(eager.state_dict())
    warmed_up(static.forward, x)
    changes = [
        lambda net: net.body[0].weight.data.mul_(2),
        lambda net: setattr(net.body[0], "bias", None),
        lambda net: setattr(net.body[0], "bias", nn.Parameter(torch.ones(3))),
        lambda net: net.body[0].weight.requires_grad_(False),
        lambda net: net.body.append(nn.Tanh()),
        lambda net: net.body.__setitem__(1, nn.Sigmoid()),
        lambda net: setattr(net, "gain", 2),
        lambda net: setattr(net, "gain", 2.0),
        lambda net: setattr(net, "shift", torch.zeros(3)),
        lambda net: net.body.register_forward_hook(lambda module, args, out: out + 1),
        lambda net: net.body[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        lambda net: net.eval(),
        lambda net: setattr(net.body[1], "forward", lambda x: x * 7),
        lambda net: net.double(),
    ]
    for change in changes:
        change(eager), change(static)
        x = x.to(static.shift.dtype)
        for _ in range(3):
            same(eager(x), static(x))
    slow_path.clear()
    static(x)
    assert not slow_path


class Stack(nn.Module):
    """More tensors than are checked one by one; each is reached as an attribute and through the module's own tables."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(x @ layer.weight + layer.bias) * self.scale
        return x


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.layers[3].weight, "data", torch.rand(3, 3).t()),
        lambda net: setattr(net.layers[3], "bias", nn.Parameter(torch.rand(1))),
        lambda net: setattr(net.layers[1].bias, "data", torch.rand(1)),
        lambda net: setattr(net.layers[2], "weight", net.layers[1].weight),
        lambda net: net.layers[0].weight.requires_grad_(False),
        lambda net: setattr(net, "scale", nn.Parameter(torch.tensor(2.0, dtype=torch.float64))),
        lambda net: net.layers[1]._parameters.update(bias=torch.full((3,), 2.0)),
        lambda net: net.__dict__.update(scale=torch.full((3,), 3.0)),
        lambda net: net.layers[1].__dict__.update(weight=torch.eye(3)),
        lambda net: setattr(Stack, "scale", torch.full((3,), 4.0)),
    ],
)
def test_changes_among_many_tensors_are_seen(change, request):
    request.addfinalizer(lambda: Stack.__dict__.get("scale") is None or delattr(Stack, "scale"))
    torch.manual_seed(0)
    eager, x = Stack(), torch.randn(2, 3)
    static = to_static(Stack())
    static.load_state_dict(eager.state_dict())
    warmed_up(static.forward, x)
    torch.manual_seed(1)
    change(eager)
    torch.manual_seed(1)
    change(static)
    for _ in range(3):
        same(eager(x), static(x))


def test_a_sparse_tensor_among_many_that_is_not_used():
    net, x = Stack(), torch.randn(2, 3)
    net.register_buffer("mask", torch.eye(3).to_sparse())
    static = to_static(copy.deepcopy(net))
    for _ in range(3):
        same(net(x), static(x))
    net.scale.data.mul_(2)
    static.load_state_dict({**net.state_dict(), "mask": static.mask})
    same(net(x), static(x))


def test_a_class_with_a_look_up_of_its_own_is_asked():
    class Own(Stack):
        def __getattr__(self, name):
            return super().__getattr__(name) * factor[0] if name == "scale" else super().__getattr__(name)

    factor = [2]
    net, x = Own(), torch.randn(2, 3)
    static = to_static(copy.deepcopy(net))
    for factor[0] in (2, 3, 2):
        for _ in range(3):
            same(net(x), static(x))


def test_state_is_written_and_what_raised_leaves_it(slow_path):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.seen, self.last = 0, [], None

        def forward(self, x):
            self.calls += 1
            self.last = x * self.calls
            if x.sum() < 0:
                raise ValueError(f"negative {int(x.sum())}")
            return self.last

    eager, static = Counter(), to_static(Counter())
    for value in (1.0, 2.0, -1.0, 3.0, -2.0, 4.0, 5.0, -3.0):
        x = torch.full((2,), value)
        for net in (eager, static):
            try:
                net(x)
            except ValueError as error:
                assert str(error) == f"negative {int(2 * value)}"
        assert eager.calls == static.calls
        same(eager.last, static.last)
    assert len(slow_path) < 8


def test_dynamic_sizes_and_what_they_must_be():
    def paired(x, y):
        return x + y

    static = to_static(paired, input_spec=[InputSpec([None, 2]), InputSpec([None, 2])])
    for n, m in ((3, 3), (4, 4), (5, 5), (1, 4), (1, 6), (4, 1), (2, 2), (1, 1), (0, 0), (7, 7)):
        x, y = torch.ones(n, 2), torch.ones(m, 2)
        for _ in range(3):
            same(paired(x, y), static(x, y))
    assert routes(static)
    with pytest.raises(dy2st.SignatureError):
        static(torch.ones(3, 3), torch.ones(3, 3))
    with pytest.raises(RuntimeError):
        static(torch.ones(3, 2), torch.ones(5, 2))


def test_routes_go_with_their_programs(monkeypatch):
    static, x = warmed_up(to_static(double), torch.ones(3)), torch.ones(3)
    static.program_cache.clear()
    assert not routes(static)
    warmed_up(static, x)
    monkeypatch.setattr(dy2st.config, "MAX_PROGRAMS", 2)
    for n in (4, 5, 6):
        warmed_up(static, torch.ones(n))
    assert len(static.program_cache) == 2
    assert len(routes(static)) == 2
    warmed_up(static, x)
    assert all(isinstance(route, Route) for route in routes(static))


def test_routes_keep_nothing_alive():
    net = to_static(Net())
    warmed_up(net.forward, torch.ones(2, 3))
    there = weakref.ref(net)
    del net
    gc.collect()
    assert there() is None


def test_switching_off_and_capturing_inside(slow_path):
    static = warmed_up(to_static(double), torch.ones(3))
    dy2st.enable_to_static(False)
    try:
        same(torch.full((3,), 2.0), static(torch.ones(3)))
    finally:
        dy2st.enable_to_static(True)
    outer = to_static(lambda x: static(x) + 1)
    for _ in range(3):
        same(torch.full((3,), 3.0), outer(torch.ones(3)))


def test_tuples_of_what_never_changes_are_made_at_each_call(slow_path):
    def f(x):
        kind = type(x).__name__
        return [(kind, 1), (kind, 1)], ((kind, (x.dim(),)), ()), (kind, [1], x)

    static = warmed_up(to_static(f), torch.ones(2))
    before = static(torch.ones(2))
    del slow_path[:]
    after = static(torch.ones(2))
    assert not slow_path
    same(after, f(torch.ones(2)))
    one, other = after[0]
    assert one is not other and one is not before[0][0]
    assert after[1] is not before[1] and after[1][0][1] is not before[1][0][1]


def test_many_threads_and_many_signatures():
    def step(x, k):
        while x.sum() < 10 * k:
            x = x + k
        return x

    static, wrong = to_static(step), []

    def work(seed):
        for turn in range(60):
            x, k = torch.full((1 + (seed + turn) % 3,), float(turn % 5)), 1 + turn % 4
            if not torch.equal(static(x, k), step(x, k)):
                wrong.append((x, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(static.program_cache) <= 12  # a number that is often another becomes an input
    assert 3 <= len(routes(static)) <= len(static.program_cache)


_TABLE: dict[str, torch.Tensor] = {}
_PAIR: tuple[dict[str, int], list[int]] = ({}, [1])


def test_what_is_in_a_default_is_looked_at_in_each_call() -> None:
    def function(x: Any, table: Any = _TABLE, *, pair: Any = _PAIR) -> Any:
        for value in table.values():
            x = x + value
        return x * len(pair[1]), len(pair[0]), "k" in table

    def changed(x: Any, number: int) -> Any:
        if number == 3:
            _TABLE["k"] = torch.ones(2)
        elif number == 5:
            _TABLE["k"] = torch.full((2,), 3.0)
            _PAIR[0]["n"] = 1
        elif number == 7:
            _PAIR[1].append(2)
            del _TABLE["k"]
        return x

    static = dy2st.to_static(function)
    for number in range(10):
        x = changed(torch.full((2,), float(number)), number)
        result, expected = static(x), function(x)
        assert torch.equal(result[0], expected[0])
        assert result[1:] == expected[1:]
