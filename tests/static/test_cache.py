"""The program cache: bounded, cleared, and never what keeps a module alive."""

from __future__ import annotations

import copy
import copyreg
import gc
import pickle
import types
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import config, to_static
from dy2st.capture.environment.guards import GuardTable
from tests.oracle import same

pytestmark = pytest.mark.usefixtures("quick_collections")

X = torch.tensor([1.0, -2.0, 3.0])


class Small(nn.Module):
    """At module level, so that it can be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return self.linear(x)
        return x


class Decorated(nn.Module):
    """With a static forward of the class."""

    def __init__(self, k: float = 2.0) -> None:
        super().__init__()
        self.k = k
        self.linear = nn.Linear(3, 3)

    @to_static
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return self.helper(self.linear(x))
        return x * self.k

    def helper(self, x: Any) -> Any:
        return x * self.k


def test_least_recently_used_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MAX_PROGRAMS", 3)

    @to_static
    def f(x: Any, k: str) -> Any:
        return x * len(k)

    def known(k: int) -> bool:
        before = set(map(id, f.program_cache))
        return id(f.captured(X, "k" * k)) in before

    for k in (1, 2, 3):
        f(X, "k" * k)
    f(X, "k")
    f(X, "kkkk")
    assert len(f.program_cache) == 3
    assert known(1) and known(3) and known(4)
    assert not known(2)
    assert len(f.program_cache) == 3
    for k in range(10, 30):
        same(f(X, "k" * k), X * k)
    assert len(f.program_cache) == 3


def test_a_cleared_cache_captures_anew() -> None:
    @to_static
    def f(x: Any) -> Any:
        return x * 2

    f(X)
    f(X[:2])
    assert len(f.program_cache) == 2
    f.program_cache.clear()
    assert len(f.program_cache) == 0 and not list(f.program_cache)
    same(f(X), X * 2)
    assert len(f.program_cache) == 1


def test_a_value_that_changes_at_each_call_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MAX_PROGRAMS", 4)

    class Net(nn.Module):
        step = 0

        def forward(self, x: Any) -> Any:
            return x * self.step

    net = to_static(Net())
    for step in range(12):
        net.step = step
        same(net(X), X * step)
    assert len(net.forward.program_cache) <= 4


def test_many_captures_for_one_reason_are_warned_about() -> None:
    class Net(nn.Module):
        mode = ""

        def forward(self, x: Any) -> Any:
            return x * len(self.mode)

    net = to_static(Net())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(20):
            net.mode = "m" * step
            net(X)
    texts = [str(w.message) for w in caught if "dy2st" in str(w.message) or "captured" in str(w.message)]
    assert len(texts) == 1
    assert "self.mode" in texts[0] and "forward" in texts[0]


def _alive(make: Any) -> bool:
    thing, keep = make()
    reference = weakref.ref(thing)
    del thing
    gc.collect()
    del keep
    gc.collect()
    return reference() is not None


def _module() -> Any:
    net = to_static(Small())
    net(X)
    net(-X)
    return net, None


def _decorated() -> Any:
    net = Decorated()
    net(X)
    return net, None


def _decorated_with_hooks_and_closures() -> Any:
    net = Decorated()
    net.act = lambda x: x * net.k
    net.linear.register_forward_hook(lambda module, args, out: out * net.k)
    net.helper = lambda x: net.act(x)
    net(X)
    return net, None


def _method() -> Any:
    class Plain:
        def __init__(self) -> None:
            self.k = 2.0

        def f(self, x: Any) -> Any:
            return x * self.k

        @to_static
        def g(self, x: Any) -> Any:
            return x * self.k

    plain = Plain()
    static = to_static(plain.f)
    static(X)
    plain.g(X)
    return plain, static


def _argument() -> Any:
    net = Small()
    static = to_static(_apply)
    static(net, X)
    return net, static


def _apply(net: Any, x: Any) -> Any:
    return net(x)


def _global_call() -> Any:
    net = Small()
    holder = [net]

    def f(x: Any) -> Any:
        return holder[0](x)

    static = to_static(f)
    static(X)
    holder.clear()
    return net, static


def _state() -> Any:
    net = to_static(_Recurrent())
    for x in (X, -X, X):
        net(x)
    return net, None


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h: Any = None
        self.log: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.h = x if self.h is None else self.h + x
        self.log.append(self.h)
        return self.h


@pytest.mark.parametrize(
    "make", [_module, _decorated, _decorated_with_hooks_and_closures, _method, _argument, _global_call, _state]
)
def test_a_program_keeps_no_module_alive(make: Any) -> None:
    assert not _alive(make)


def test_a_bound_static_function_holds_its_object() -> None:
    module = Decorated()
    forward, expected = module.forward, module(X)
    del module
    gc.collect()
    same(forward(X), expected)
    module = weakref.ref(forward.instance)
    del forward
    gc.collect()
    assert module() is None


def test_a_static_forward_of_a_module_that_is_gone_is_a_clear_error() -> None:
    forward = to_static(Small()).forward
    gc.collect()
    with pytest.raises(ReferenceError, match="forward"):
        forward(X)


class Scaled:
    """No module, at module level, so that it can be pickled."""

    def __init__(self) -> None:
        self.k = torch.full((3,), 2.0)
        self.callback: Any = None

    @to_static
    def forward(self, x: Any) -> Any:
        return x * self.k if x.sum() > 0 else x


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda bound: pickle.loads(pickle.dumps(bound))])
@pytest.mark.parametrize("make", [Decorated, Scaled, lambda: to_static(Small())])
def test_a_copy_of_what_is_bound_holds_its_object(make: Any, again: Any) -> None:
    owner = make()
    expected = owner.forward(X)
    other = again(owner.forward)
    assert (other.instance is owner) == (again is copy.copy)
    del owner
    gc.collect()
    same(other(X), expected)


def test_what_is_bound_to_the_same_object_is_equal() -> None:
    one, two = Scaled(), Scaled()
    assert one.forward == one.forward and hash(one.forward) == hash(one.forward)
    assert one.forward != two.forward
    one.callback = one.forward
    again = copy.deepcopy(one)
    assert again.callback.instance is again and pickle.loads(pickle.dumps(one)).callback(X) is not None


def test_a_call_on_a_temporary_module_works() -> None:
    torch.manual_seed(0)
    a = Decorated()(X)
    torch.manual_seed(0)
    same(a, Decorated()(X))
    assert to_static(Small())(-X) is not None


def test_deepcopy_has_its_own_programs_and_parameters() -> None:
    for net in (Decorated(), to_static(Small())):
        net(X)
        other = copy.deepcopy(net)
        with torch.no_grad():
            other.linear.weight.zero_()
            other.linear.bias.zero_()
        same(other(X).detach(), torch.zeros(3))
        assert net(X).abs().sum() > 0
        assert other.forward.program_cache is not net.forward.program_cache
        assert len(other.forward.program_cache) == 1
        assert other.forward.instance is other and net.forward.instance is net


def test_deepcopy_of_a_holder() -> None:
    holder = nn.Sequential(to_static(Small()), nn.ReLU(), Decorated())
    holder(X)
    other = copy.deepcopy(holder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not torch.equal(other(X), holder(X))
    assert other[0].forward.instance is other[0]


@pytest.mark.parametrize("kind", [Decorated, Small])
def test_a_pickled_module_runs_on_its_own(kind: Any) -> None:
    net = kind() if kind is Decorated else to_static(kind())
    expected = net(X)
    other = pickle.loads(pickle.dumps(net))
    same(other(X), expected)
    same(other(X), expected)
    assert len(other.forward.program_cache) == 1


def test_torch_save_of_a_state_dict() -> None:
    net = to_static(Small())
    net(X)
    assert list(net.state_dict()) == list(Small().state_dict())
    other = Small()
    other.load_state_dict(net.state_dict())
    same(other(X), net(X))


def test_two_instances_have_their_own_programs() -> None:
    a, b = Decorated(2.0), Decorated(3.0)
    same(a(-X), -X * 2.0)
    same(b(-X), -X * 3.0)
    same(a(-X), -X * 2.0)
    assert len(a.forward.program_cache) == len(b.forward.program_cache) == 1
    b.k = 5.0
    b(X)
    assert (len(a.forward.program_cache), len(b.forward.program_cache)) == (1, 2)


def test_subclasses_have_programs_of_their_own() -> None:
    class Child(Decorated):
        def helper(self, x: Any) -> Any:
            return x + 100

    class Grandchild(Decorated):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    class StaticGrandchild(Decorated):
        @to_static
        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                x = x + 1
            return super().forward(x) + 1

    for kind in (Child, Grandchild, StaticGrandchild):
        net = kind()
        expected = net.linear(X + (kind is StaticGrandchild))
        expected = expected + 100 if kind is Child else expected * 2.0 + 1
        same(net(X), expected)
        same(net(X), expected)


class Slotted:
    """Cannot be referenced weakly."""

    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k

    @to_static
    def f(self, x: Any) -> Any:
        if x.sum() > 0:
            self.k = self.k + 1
        return x * self.k


class Unhashable:
    """Compares by content."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and self.k == other.k

    @to_static
    def f(self, x: Any) -> Any:
        if x.sum() > 0:
            self.k = self.k + 1
        return x * self.k


class EqualHash(Unhashable):
    """All instances look the same to a dict."""

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize("kind", [Slotted, Unhashable, EqualHash])
def test_instances_that_dicts_and_weak_references_do_not_like(kind: Any) -> None:
    a, b = kind(1.0), kind(1.0)
    same(a.f(X), X * 2.0)
    same(b.f(-X), -X * 1.0)
    same(a.f(X), X * 3.0)
    same(b.f(X), X * 2.0)
    assert (a.k, b.k) == (3.0, 2.0)
    assert len(a.f.program_cache) <= 4
    static = to_static(kind.f.function.__get__(a))
    same(static(X), X * 4.0)


def test_entries_can_be_looked_at() -> None:
    net = to_static(Small())
    net(X)
    net(X[None])
    programs = [captured.program for captured in net.forward.program_cache]
    assert len(programs) == 2 and all("Small.forward" in program.name for program in programs)
    assert net.forward.program(X) in programs
    assert repr(net.forward) == "<StaticFunction Small.forward, 2 programs>"


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.lin = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if x.sum() > 0:
            return self.lin(x) * self.count
        return x


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_of_a_static_module_has_its_own_state(again: Any) -> None:
    torch.manual_seed(0)
    eager = Counted()
    static = dy2st.to_static(copy.deepcopy(eager))
    static(torch.ones(2)), eager(torch.ones(2))
    other, expected = again(static), again(eager)
    other.count = expected.count = 10
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(other(x), expected(x))
        assert torch.equal(static(x), eager(x))
    assert (other.count, static.count) == (expected.count, eager.count)
    assert type(other) is Counted and isinstance(other.forward, dy2st.StaticFunction) and other.forward.instance is other
    assert (other.lin is static.lin) == (expected.lin is eager.lin)
    twice = copy.copy(other)
    assert twice.forward.instance is twice


def test_classes_of_static_modules_that_are_gone_are_forgotten() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    net = dy2st.to_static(Net())
    other = copy.copy(net)
    assert Net in copyreg.dispatch_table
    del net, other
    gc.collect()
    assert Net not in copyreg.dispatch_table


class Settings(types.SimpleNamespace):
    @to_static
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        self.me = self
        if x.sum() > 0:
            return x * len(vars(self))
        return x


def test_nothing_is_put_into_objects_with_static_methods() -> None:
    one = Settings(h=1, me=None)
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(one.scaled(x), x * 2 if x.sum() > 0 else x)
    assert list(vars(one)) == ["h", "me"] and one.scaled == one.scaled
    assert copy.copy(one).scaled.instance is not one
    one.me = None
    reference, method = weakref.ref(one), Settings.__dict__["scaled"]
    assert len(method._bound) == 1
    del one
    gc.collect()
    assert reference() is None and not method._bound


def test_a_call_asks_each_program_once_before_its_turn_and_once_within(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = GuardTable.failure
    monkeypatch.setattr(GuardTable, "failure", lambda table, values: asked.append(table) or original(table, values))
    settings = types.SimpleNamespace(scale=1.0)
    f = to_static(lambda x: x * settings.scale)
    f(X)
    assert not asked
    settings.scale = 2.0
    f(X)
    assert len(asked) == 2
    f(X)
    assert len(asked) == 3
