"""A program never runs stale: each Python value that the capture read is compared at the next call, and nothing else is."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import math
import types
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dy2st
from dy2st import to_static
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0])
FACTOR = 2.0
TABLE = {"a": 1.0, "b": [2.0, 3.0]}
SETTINGS = types.SimpleNamespace(scale=2.0, nested=types.SimpleNamespace(shift=1.0))


def helper(x: Any) -> Any:
    return x + 1


def other_helper(x: Any) -> Any:
    return x + 2


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Net(nn.Module):
    """Reads a value of each kind; each test changes one."""

    scale = 1.5

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.flag = True
        self.offset = 1
        self.name = "add"
        self.mode = Mode.ADD
        self.config = types.SimpleNamespace(gain=2.0, inner=types.SimpleNamespace(bias=0.5))
        self.items = [1.0, [2.0, 3.0]]
        self.table = {"k": 1.0, "deep": {"q": 2.0}}
        self.act = torch.relu
        self.tags = {"x"}
        self.optional: torch.Tensor | None = None
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        x = self.linear(x) * self.scale + self.offset
        if x.sum() > 0:
            x = x * self.config.gain + self.config.inner.bias
        else:
            x = x * self.items[0] + self.items[1][1]
        for layer in self.layers:
            x = layer(x)
        if self.flag:
            x = x + self.table["deep"]["q"]
        x = x * 2 if self.name == "add" else x * 3
        if self.mode is Mode.ADD:
            x = x + 1
        if "x" in self.tags:
            x = x - 0.25
        if self.optional is not None:
            x = x + self.optional
        return self.drop(self.act(x)) + self.shift


def _set(path: str, value: Any) -> Any:
    def change(net: Any) -> None:
        *parents, last = path.split(".")
        target = functools.reduce(getattr, parents, net)
        setattr(target, last, value)

    return change


def _hook(net: Any) -> None:
    net.linear.register_forward_hook(lambda module, args, out: out * 2)


def _pre_hook(net: Any) -> None:
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def _grow(net: Any) -> None:
    torch.manual_seed(3)
    net.layers.append(nn.Linear(3, 3))


def _replace(net: Any) -> None:
    torch.manual_seed(3)
    net.linear = nn.Linear(3, 3)


def _replace_kind(net: Any) -> None:
    net.linear = nn.Identity()


def _own_forward(net: Any) -> None:
    net.linear.forward = lambda x: x * 7


CHANGES = {
    "class attribute": lambda net: setattr(type(net), "scale", 2.5),
    "shadowed class attribute": _set("scale", 3.5),
    "number": _set("offset", 5),
    "number of another type": _set("offset", 1.0),
    "bool": _set("flag", False),
    "string": _set("name", "mul"),
    "enum": _set("mode", Mode.MUL),
    "nested object": _set("config.gain", 4.0),
    "deeper object": _set("config.inner.bias", 1.5),
    "object replaced": _set("config", types.SimpleNamespace(gain=9.0, inner=types.SimpleNamespace(bias=8.0))),
    "list item": lambda net: net.items.__setitem__(0, 7.0),
    "nested list item": lambda net: net.items[1].__setitem__(1, 7.0),
    "list replaced": _set("items", [3.0, [4.0, 5.0]]),
    "dict item": lambda net: net.table["deep"].__setitem__("q", 9.0),
    "set": lambda net: net.tags.clear(),
    "function": _set("act", torch.tanh),
    "None to tensor": _set("optional", torch.ones(3)),
    "eval": lambda net: net.eval(),
    "submodule eval": lambda net: net.drop.eval(),
    "dropout rate": _set("drop.p", 0.0),
    "forward hook": _hook,
    "pre-hook": _pre_hook,
    "module list grows": _grow,
    "module list shrinks": lambda net: net.layers.__delitem__(0),
    "module list reordered": lambda net: setattr(net, "layers", nn.ModuleList(list(net.layers)[::-1])),
    "submodule replaced": _replace,
    "submodule of another class": _replace_kind,
    "submodule's own forward": _own_forward,
    "buffer of another dtype": lambda net: setattr(net, "shift", torch.ones(3, dtype=torch.float64)),
    "buffer of another shape": lambda net: setattr(net, "shift", torch.ones(2, 3)),
    "parameter frozen": lambda net: net.linear.weight.requires_grad_(False),
    "parameter None": _set("linear.bias", None),
    "weights tied": lambda net: setattr(net.layers[1], "weight", net.layers[0].weight),
    "double": lambda net: net.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_value_gives_another_program(change: str) -> None:
    eager, static = (type("Own", (Net,), {})() for _ in range(2))
    static.load_state_dict(eager.state_dict())
    to_static(static)
    for module in (eager, static):
        torch.manual_seed(0)
        module.result = None
        first = module(X)
        CHANGES[change](module)
        torch.manual_seed(0)
        x = X.double() if change == "double" else X
        module.results = (first.detach().clone(), module(x))
    same(eager.results, static.results)
    grads = [
        torch.autograd.grad(m.results[1].sum(), [p for p in m.parameters() if p.requires_grad], allow_unused=True)
        for m in (eager, static)
    ]
    same(grads[0], grads[1])
    if change not in ("submodule replaced", "module list reordered", "weights tied"):
        assert len(static.forward.program_cache) == 2
    static(x)
    static(x)
    assert len(static.forward.program_cache) <= 2


def _step(net: Any) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.25)


SAME = {
    "optimizer step": _step,
    "load_state_dict": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "load_state_dict(assign)": lambda net: net.load_state_dict(
        {k: nn.Parameter(v + 1) if k != "shift" else v + 1 for k, v in net.state_dict().items()}, assign=True
    ),
    "buffer edited": lambda net: net.shift.add_(1),
    "buffer replaced": lambda net: setattr(net, "shift", torch.full((3,), 4.0)),
    "parameter replaced": lambda net: setattr(net.linear, "weight", nn.Parameter(torch.eye(3))),
    "equal number": lambda net: setattr(net, "offset", 1),
    "equal list": lambda net: setattr(net, "items", [1.0, [2.0, 3.0]]),
    "equal object": lambda net: setattr(net, "config", types.SimpleNamespace(gain=2.0, inner=types.SimpleNamespace(bias=0.5))),
    "unread attribute": lambda net: setattr(net, "unread", object()),
    "submodule of the same kind": _replace,
    "grad set": lambda net: net.linear.weight.sum().backward(),
    "eval and back": lambda net: net.eval() and None or net.train(),
    "hook added and removed": lambda net: net.register_forward_hook(lambda m, a, o: o * 2).remove(),
    "backward hook on a parameter": lambda net: net.linear.weight.register_hook(lambda g: g * 2),
}


@pytest.mark.parametrize("change", SAME)
def test_a_change_that_matters_to_nobody_keeps_the_program(change: str) -> None:
    torch.manual_seed(1)
    net = Net()
    eager = copy.deepcopy(net)
    static = to_static(net)
    for module in (eager, static):
        torch.manual_seed(0)
        module(X)
        SAME[change](module)
        torch.manual_seed(0)
        result = module(X)
        grads = torch.autograd.grad(result.sum(), list(module.parameters()), allow_unused=True)
        module.results = (result, grads)
    same(eager.results, static.results)
    assert len(static.forward.program_cache) == 1


# -- functions -------------------------------------------------------------------------------------------------------------


def _both(function: Any, change: Any, undo: Any) -> tuple[Any, Any, Any]:
    """Eager and static results before and after a change; the change is undone in between."""
    static = to_static(function)
    results = []
    for runner in (function, static):
        before = runner(X)
        change()
        try:
            results.append((before, runner(X)))
        finally:
            undo()
    same(results[0], results[1])
    return static, *results


def test_a_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x * FACTOR + TABLE["b"][1] + SETTINGS.nested.shift
        return helper(x)

    space = f.__globals__
    for name, new in (
        ("FACTOR", 5.0),
        ("TABLE", {"a": 1.0, "b": [2.0, 4.0]}),
        ("SETTINGS", types.SimpleNamespace(scale=2.0, nested=types.SimpleNamespace(shift=3.0))),
        ("helper", other_helper),
    ):
        with monkeypatch.context() as patch:
            static, *_ = _both(f, lambda: patch.setitem(space, name, new), patch.undo)
        assert len(static.program_cache) == 2
    with monkeypatch.context() as patch:
        _both(f, lambda: patch.setattr(SETTINGS.nested, "shift", 7.0), patch.undo)
    with monkeypatch.context() as patch:
        _both(f, lambda: patch.setitem(TABLE["b"], 1, 7.0), patch.undo) if False else None
    TABLE["b"][1], old = 8.0, TABLE["b"][1]
    try:
        same(f(X), to_static(f)(X))
    finally:
        TABLE["b"][1] = old


def test_globals_read_inside_a_callee(monkeypatch: pytest.MonkeyPatch) -> None:
    def inner(x: Any) -> Any:
        return x * FACTOR

    @to_static
    def f(x: Any) -> Any:
        return inner(x)

    same(f(X), X * 2.0)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    same(f(X), X * 3.0)
    assert len(f.program_cache) == 2


def test_a_global_that_appears_or_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    @to_static
    def f(x: Any) -> Any:
        return len(x) * x  # a builtin that a global may shadow later

    same(f(X), 3 * X)
    monkeypatch.setitem(globals(), "len", lambda x: 10)
    same(f(X), 10 * X)
    monkeypatch.delitem(globals(), "len")
    same(f(X), 3 * X)


def test_a_builtin_is_shadowed_in_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    @to_static
    def f(x: Any) -> Any:
        return x + MISSING_GLOBAL  # noqa: F821

    with pytest.raises(NameError):
        f(X)
    monkeypatch.setitem(globals(), "MISSING_GLOBAL", 2)
    same(f(X), X + 2)


def test_a_changed_cell_is_seen() -> None:
    factor = 2.0
    table = {"k": [1.0]}
    act = torch.relu

    def f(x: Any) -> Any:
        if x.sum() > 0:
            x = x * factor
        return act(x) + table["k"][0]

    static = to_static(f)
    same(f(X), static(X))
    factor = 3.0
    same(f(X), static(X))
    table["k"][0] = 5.0
    same(f(X), static(X))
    table = {"k": [7.0], "other": 1}
    same(f(X), static(X))
    act = torch.tanh
    same(f(X), static(X))
    act = lambda x: x - 1
    same(f(X), static(X))
    count = len(static.program_cache)
    same(f(X), static(X))
    assert len(static.program_cache) == count == 6


def test_a_tensor_in_a_closure_is_live() -> None:
    weight = torch.ones(3, requires_grad=True)

    def f(x: Any) -> Any:
        return (x * weight).sum()

    static = to_static(f)
    same(f(X), static(X))
    with torch.no_grad():
        weight.mul_(3)
    same(f(X), static(X))
    weight = torch.full((3,), 5.0, requires_grad=True)
    same(f(X), static(X))
    (grad,) = torch.autograd.grad(static(X), weight)
    same(grad, X)
    assert len(static.program_cache) == 1
    weight = torch.ones(2, 3)
    same(f(X), static(X))
    assert len(static.program_cache) == 2


def test_changed_defaults_are_seen() -> None:
    def f(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * scale + shift

    static = to_static(f)
    same(static(X), X * 2.0 + 1.0)
    f.__defaults__ = (3.0,)
    same(static(X), f(X))
    f.__kwdefaults__ = {"shift": 4.0}
    same(static(X), f(X))


def test_changed_defaults_of_a_callee_are_seen() -> None:
    def inner(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * scale + shift

    @to_static
    def f(x: Any) -> Any:
        return inner(x)

    same(f(X), X * 2.0 + 1.0)
    inner.__defaults__ = (3.0,)
    same(f(X), X * 3.0 + 1.0)
    inner.__kwdefaults__ = {"shift": 4.0}
    same(f(X), X * 3.0 + 4.0)


def test_a_mutable_default_is_guarded_by_content() -> None:
    def inner(x: Any, scales: Any = [2.0, 3.0]) -> Any:
        return x * scales[0] * scales[1]

    @to_static
    def f(x: Any) -> Any:
        return inner(x)

    same(f(X), X * 2.0 * 3.0)
    inner.__defaults__[0][0] = 7.0
    same(f(X), X * 7.0 * 3.0)


def test_the_code_of_a_callee_is_replaced() -> None:
    def inner(x: Any) -> Any:
        return x + 1

    def replacement(x: Any) -> Any:
        return x + 2

    @to_static
    def f(x: Any) -> Any:
        return inner(x)

    same(f(X), X + 1)
    inner.__code__ = replacement.__code__
    same(f(X), X + 2)


class Meter:
    """A user object that is no module."""

    factor = 2.0

    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.parts = [1.0, {"deep": 2.0}]

    @property
    def doubled(self) -> float:
        return self.gain * 2

    def apply(self, x: Any) -> Any:
        if x.sum() > 0:
            return x * self.gain * self.factor + self.parts[1]["deep"]
        return x

    def __call__(self, x: Any) -> Any:
        return x * self.doubled

    @staticmethod
    def plain(x: Any) -> Any:
        return x * 3

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor


@pytest.mark.parametrize("use", ["apply", "call", "plain", "of_class"])
def test_changed_attributes_of_objects_are_seen(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter(3.0)

    def f(x: Any) -> Any:
        if use == "call":
            return meter(x)
        return getattr(meter, use)(x)

    static = to_static(f)
    same(f(X), static(X))
    same(f(X), static(X))
    assert len(static.program_cache) == 1
    meter.gain = 5.0
    same(f(X), static(X))
    meter.parts[1]["deep"] = 9.0
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "factor", 7.0)
    same(f(X), static(X))
    meter = Meter(11.0)
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "plain", staticmethod(lambda x: x * 13))
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "apply", lambda self, x: x * 17)
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "doubled", property(lambda self: 19.0))
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "__call__", lambda self, x: x * 23)
    same(f(X), static(X))
    monkeypatch.setattr(Meter, "of_class", classmethod(lambda cls, x: x * 29))
    same(f(X), static(X))


def test_an_object_as_argument() -> None:
    def f(meter: Any, x: Any) -> Any:
        return meter.apply(x)

    static = to_static(f)
    a, b = Meter(3.0), Meter(3.0)
    same(f(a, X), static(a, X))
    same(f(b, X), static(b, X))
    assert len(static.program_cache) == 1
    b.gain = 4.0
    same(f(b, X), static(b, X))
    same(f(a, X), static(a, X))
    assert len(static.program_cache) == 2


def test_a_module_as_argument() -> None:
    def f(net: Any, x: Any) -> Any:
        return net(x)

    static = to_static(f)
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    same(f(a, X), static(a, X))
    same(f(b, X), static(b, X))
    assert len(static.program_cache) == 1
    assert len(static.program_cache) == 1
    c = nn.Linear(3, 3, bias=False)
    same(f(c, X), static(c, X))
    assert len(static.program_cache) == 2


def test_a_function_as_argument() -> None:
    def f(act: Any, x: Any) -> Any:
        return act(x)

    static = to_static(f)
    same(static(torch.relu, X), X.relu())
    same(static(torch.tanh, X), X.tanh())
    same(static(helper, X), X + 1)
    same(static(functools.partial(torch.add, other=3), X), X + 3)
    same(static(functools.partial(torch.add, other=4), X), X + 4)
    same(static(Meter(3.0).apply, X), Meter(3.0).apply(X))
    same(static(Meter(4.0).apply, X), Meter(4.0).apply(X))
    same(static(Meter(4.0), X), Meter(4.0)(X))


def test_partial_in_an_attribute() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = functools.partial(torch.add, other=3)

        def forward(self, x: Any) -> Any:
            return self.act(x)

    net = to_static(Holder())
    same(net(X), X + 3)
    net.act = functools.partial(torch.add, other=4)
    same(net(X), X + 4)
    net.act = functools.partial(torch.mul, other=4)
    same(net(X), X * 4)


def test_a_bound_method_of_another_object() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = Meter(3.0).apply

        def forward(self, x: Any) -> Any:
            return self.act(x)

    net = to_static(Holder())
    same(net(X), Meter(3.0).apply(X))
    net.act = Meter(4.0).apply
    same(net(X), Meter(4.0).apply(X))
    net.act = Meter(4.0).__call__
    same(net(X), Meter(4.0)(X))


def test_lambdas_with_the_same_code_and_other_cells() -> None:
    def make(k: float) -> Any:
        return lambda x: x * k

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = make(2.0)

        def forward(self, x: Any) -> Any:
            return self.act(x)

    net = to_static(Holder())
    same(net(X), X * 2)
    net.act = make(3.0)
    same(net(X), X * 3)


def test_changed_containers_are_seen() -> None:
    Point = namedtuple("Point", "a b")

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.point = Point(1.0, 2.0)
            self.order = OrderedDict(a=1.0, b=2.0)
            self.pairs = [(1, "x"), (2, "y")]

        def forward(self, x: Any) -> Any:
            for key, value in self.order.items():
                x = x * value if key == "a" else x + value
            for number, name in self.pairs:
                x = x + number * len(name)
            return x * self.point.a + self.point[1] + len(self.order)

    net = to_static(Holder())
    plain = Holder()
    for change in (
        lambda n: None,
        lambda n: setattr(n, "point", Point(3.0, 2.0)),
        lambda n: n.order.update(c=4.0),
        lambda n: n.order.move_to_end("a"),
        lambda n: n.pairs.append((7, "zz")),
        lambda n: n.pairs.__setitem__(0, (1, "xyz")),
    ):
        change(net), change(plain)
        same(plain(X), net(X))
    assert len(net.forward.program_cache) <= 6  # a list that is often another is left open


def test_a_list_of_tensors_or_modules_outside_of_module_lists() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [nn.Linear(3, 3), nn.Linear(3, 3)]
            self.weights = {"w": torch.ones(3)}

        def forward(self, x: Any) -> Any:
            for layer in self.hidden:
                x = layer(x)
            return x * self.weights["w"]

    net = Holder()
    eager = copy.deepcopy(net)
    to_static(net)
    same(eager(X), net(X))
    for module in (eager, net):
        torch.manual_seed(5)
        module.weights["w"] = torch.full((3,), 2.0)
        module.hidden[0] = nn.Linear(3, 3)
    same(eager(X), net(X))
    for module in (eager, net):
        module.hidden.pop()
    same(eager(X), net(X))
    for module in (eager, net):
        module.hidden[0] = nn.ReLU()
    same(eager(X), net(X))


@pytest.mark.parametrize(
    "probe", ["hasattr", "getattr", "isinstance", "len", "in", "is None", "type", "vars", "callable", "dict", "try"]
)
def test_questions_about_objects_are_never_answered_stale(probe: str) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part: Any = [1, 2]

        def forward(self, x: Any) -> Any:
            if probe == "hasattr":
                return x * 2 if hasattr(self, "extra") else x
            if probe == "getattr":
                return x * getattr(self, "extra", 3)
            if probe == "isinstance":
                return x * 2 if isinstance(self.part, list) else x
            if probe == "len":
                return x * len(self.part)
            if probe == "in":
                return x * 2 if 2 in self.part else x
            if probe == "is None":
                return x * 2 if self.part is None else x
            if probe == "type":
                return x * 2 if type(self.part) is list else x
            if probe == "vars":
                return x * 2 if "extra" in vars(self) else x
            if probe == "callable":
                return x * 2 if callable(self.part) else x
            if probe == "dict":
                return x * 2 if "extra" in self.__dict__ else x
            try:
                return x * self.extra
            except AttributeError:
                return x

    net, plain = to_static(Holder()), Holder()
    same(plain(X), net(X))
    for module in (net, plain):
        module.extra = 5
    same(plain(X), net(X))
    for new in ([3, 4, 5], (1, 2), None if probe in ("is None", "isinstance", "type", "callable") else {2: 3}):
        for module in (net, plain):
            module.part = new
        same(plain(X), net(X))
    for module in (net, plain):
        del module.extra
    same(plain(X), net(X))


# -- modes -------------------------------------------------------------------------------------------------------------------


def test_modes_are_part_of_the_key() -> None:
    linear = nn.Linear(3, 3)

    @to_static
    def f(x: Any) -> Any:
        return linear(x) if torch.is_grad_enabled() else linear(x) * 2

    x = X[None]
    same(f(x), linear(x))
    with torch.no_grad():
        same(f(x), linear(x) * 2)
    with torch.inference_mode():
        found = f(x)
        same(found, linear(x) * 2)
        assert found.is_inference()
    with torch.autocast("cpu", torch.bfloat16):
        same(f(x), linear(x))
    with torch.autocast("cpu", torch.float16):
        same(f(x), linear(x))
    torch.set_default_dtype(torch.float64)
    same(f(x), linear(x))
    torch.set_default_dtype(torch.float32)
    assert len(f.program_cache) == 6
    same(f(x), linear(x))
    assert len(f.program_cache) == 6


def test_default_dtype_decides_new_tensors() -> None:
    @to_static
    def f(x: Any) -> Any:
        return x.sum() + torch.ones(3).sum() + 1.0, torch.tensor(2.0), torch.arange(3) / 2

    same(f(X), f.function(X))
    torch.set_default_dtype(torch.float64)
    same(f(X), f.function(X))


def test_signatures_are_part_of_the_key() -> None:
    @to_static
    def f(x: Any, k: Any = 1) -> Any:
        if x.sum() > 0:
            return x * k
        return x - k

    for args in (
        (X,), (X, 2), (X, 2.0), (X, True), (X[:2],), (X[None],), (X.double(),), (X.long(),), (X.clone().requires_grad_(),), (X, X), (X, X.clone()),
    ):  # fmt: skip
        same(f.function(*args), f(*args))
        same(f.function(*args), f(*args))
    assert len(f.program_cache) == 11


def test_aliased_arguments_get_a_program_of_their_own() -> None:
    @to_static
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    a, b = X.clone(), X.clone()
    same(f(a, b), X * 2)
    same(f(a, a), (X + 2) * 2)
    assert len(f.program_cache) == 2


def test_an_argument_that_is_also_a_parameter() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            return (x * self.weight).sum()

    net = to_static(Holder())
    other = torch.ones(3, requires_grad=True)
    net(other).backward()
    same(net.weight.grad, torch.ones(3))
    net.weight.grad = None
    net(net.weight).backward()
    same(net.weight.grad, torch.full((3,), 2.0))


def test_untied_weights_get_a_program_of_their_own() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x)).sum()

    net = Tied()
    eager = copy.deepcopy(net)
    to_static(net)
    for module in (net, eager):
        module(X).backward()
        module.b.weight = nn.Parameter(torch.eye(3))
        module(X).backward()
    same([p.grad for p in eager.parameters()], [p.grad for p in net.parameters()])
    assert len(net.forward.program_cache) == 2


def test_a_tensor_subclass_argument_is_not_taken_for_a_tensor() -> None:
    @to_static
    def f(x: Any) -> Any:
        return x * 2

    same(f(X), X * 2)
    parameter = nn.Parameter(X.clone())
    same(f(parameter), parameter * 2)


def test_strides_do_not_matter_unless_asked() -> None:
    @to_static
    def f(x: Any) -> Any:
        if x.is_contiguous():
            return x.view(-1)
        return x.reshape(-1) * 2

    x = torch.arange(6.0).reshape(2, 3)
    same(f(x), f.function(x))
    same(f(x.t().contiguous().t()), f.function(x.t().contiguous().t()))


def test_print_of_the_cache_tells_the_guards() -> None:
    net = to_static(Net())
    net(X)
    (captured,) = net.forward.program_cache
    assert len(captured.guards) > 10
    assert dy2st.verify(captured.program) is None


@dataclasses.dataclass
class Version:
    number: int


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name


class Plain:
    pass


@pytest.mark.parametrize(
    "pair", [(Version(1), Version(2)), (Named("a"), Named("b")), (Plain(), Plain()), ((1, 2), (1, 3)), ("a", "b")]
)
@pytest.mark.parametrize("question", ["==", "!=", "is", "in"])
def test_comparisons_of_objects_are_never_answered_stale(pair: Any, question: str) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.other = pair[0], pair[0]

        def forward(self, x: Any) -> Any:
            if question == "==":
                return x * 2 if self.part == self.other else x
            if question == "!=":
                return x * 2 if self.part != self.other else x
            if question == "is":
                return x * 2 if self.part is self.other else x
            return x * 2 if self.part in [self.other, 3] else x

    net, plain = to_static(Holder()), Holder()
    for change in (lambda n: None, lambda n: setattr(n, "part", pair[1]), lambda n: setattr(n, "other", pair[1])):
        change(net), change(plain)
        same(plain(X), net(X))
        same(plain(X), net(X))
    if isinstance(pair[0], Version):
        net.part, plain.part = Version(1), Version(1)
        same(plain(X), net(X))
        net.part.number, plain.part.number = 2, 2
        same(plain(X), net(X))
    assert len(net.forward.program_cache) <= 5


class Tables:
    def __init__(self):
        self.counts, self.groups, self.plain = collections.Counter(), collections.defaultdict(list), {}


@pytest.mark.parametrize(
    "read",
    [
        lambda tables: tables.counts["a"],
        lambda tables: tables.counts.get("a", 0),
        lambda tables: len(tables.groups.get("a", ())),
        lambda tables: int("a" in tables.groups),
        lambda tables: tables.plain.get("a", 0),
    ],
)
def test_what_is_not_in_a_table_makes_no_new_program(read):
    tables = Tables()
    static = to_static(lambda x: x + read(tables))
    for _ in range(4):
        assert static(X).tolist() == X.tolist()
        assert not tables.counts
        assert not tables.groups
    assert len(static.program_cache) == 1
    tables.counts["a"], tables.groups["a"], tables.plain["a"] = 1, [X], 1
    for _ in range(3):
        assert static(X).tolist() == (X + 1).tolist()
    assert len(static.program_cache) == 2


@contextlib.contextmanager
def _replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


@pytest.mark.parametrize(
    ("owner", "name", "other"),
    [
        (F, "relu", lambda v: v * 1000),
        (F, "linear", lambda v, w, b=None: v + 7),
        (torch, "sin", lambda v: v - 9),
        (torch.Tensor, "sum", lambda v: torch.tensor(-1.0)),
        (math, "sqrt", lambda v: v + 0.5),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("backend", ["python", "native"])
def test_a_function_of_a_library_is_replaced(owner: Any, name: str, other: Any, backend: str) -> None:
    inner = nn.Linear(2, 2)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = inner(x)
        if x.sum() > 0:
            return F.relu(y) * math.sqrt(4)
        return torch.sin(y)

    static = dy2st.to_static(program, backend=backend)
    inputs = [torch.ones(2), -torch.ones(2)]

    def check() -> None:
        for x in inputs:
            assert torch.equal(program(x), static(x))

    check()
    with _replaced(owner, name, other):
        check()
    check()
    assert len(static.program_cache) == 2

    fresh = dy2st.to_static(program, backend=backend)
    with _replaced(owner, name, other):
        for x in inputs:
            assert torch.equal(program(x), fresh(x))
    for x in inputs:
        assert torch.equal(program(x), fresh(x))


ASKING: list[Any] = [
    lambda h, x: h is None, lambda h, x: h is not None, lambda h, x: isinstance(h, torch.Tensor), lambda h, x: hasattr(h, "shape"),
    lambda h, x: h in (None,), lambda h, x: type(h) is type(None), lambda h, x: callable(h), lambda h, x: h is x,
    lambda h, x: None if h is None else h.shape, lambda h, x: None if h is None else (h.dtype, h.dim(), h.requires_grad),
    lambda h, x: 0 if h is None else len(h), lambda h, x: 0 if h is None else h.size(0) + h.numel(),
]  # fmt: skip


@pytest.mark.parametrize("holder", ["attribute", "list", "dict", "parameter"])
@pytest.mark.parametrize("ask", range(len(ASKING)))
def test_a_tensor_that_is_only_asked(ask: int, holder: str) -> None:
    module = nn.Module()
    held: dict[str, Any] = {"attribute": types.SimpleNamespace(h=None), "list": [None], "dict": {"h": None}, "parameter": module}
    place = held[holder]
    module.register_parameter("h", None)

    def put(value: Any) -> None:
        if isinstance(place, (list, dict)):
            place[0 if isinstance(place, list) else "h"] = value
        else:
            place.h = value

    def program(x: torch.Tensor) -> Any:
        h = place[0] if isinstance(place, list) else place["h"] if isinstance(place, dict) else place.h
        return x + 1, ASKING[ask](h, x)

    static = to_static(program)
    kinds = [torch.ones(3), None, torch.ones(2, 2, dtype=torch.float64), torch.ones(3, requires_grad=True), X]
    for value in (*kinds, *kinds):
        put(nn.Parameter(value) if holder == "parameter" and value is not None else value)
        same(static(X), program(X))
