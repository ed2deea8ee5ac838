"""The ways to make something static, to leave it alone, and to switch it all off."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, StaticFunction, to_static
from dy2st.errors import SignatureError
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0])


def choose(x: Any, k: float = 2.0) -> Any:
    """Its docstring."""
    if x.sum() > 0:
        return x * k
    return x - k


class Net(nn.Module):
    def __init__(self, k: float = 2.0) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Any) -> Any:
        return choose(x, self.k)

    def other(self, x: Any, *rest: Any, scale: float = 1.0, **named: Any) -> Any:
        if x.sum() > 0:
            x = x * self.k
        for value in rest:
            x = x + value
        return x * scale + sum(named.values())


def captured(static: Any) -> int:
    return len(static.program_cache)


def test_a_decorator_without_arguments_makes_a_static_function() -> None:
    @to_static
    def f(x: Any) -> Any:
        return choose(x)

    same(f(X), choose(X))
    same(f(-X), choose(-X))
    assert isinstance(f, StaticFunction) and captured(f) == 1


def test_a_decorator_with_arguments_makes_a_static_function() -> None:
    for decorate in (to_static(), to_static(input_spec=[InputSpec([None])]), to_static(backend="python", full_graph=True)):

        @decorate
        def f(x: Any) -> Any:
            return choose(x)

        same(f(X), choose(X))
        assert captured(f) == 1


def test_call_on_a_function_leaves_the_function_alone() -> None:
    f = to_static(choose)
    same(f(X, 3.0), choose(X, 3.0))
    same(f(X, k=3.0), choose(X, 3.0))
    assert captured(f) == 1
    assert isinstance(choose, types.FunctionType)
    assert f.function is choose and f.__wrapped__ is choose
    assert f.__name__ == "choose" and f.__doc__ == "Its docstring." and inspect.signature(f) == inspect.signature(choose)


def test_a_bound_method_becomes_static() -> None:
    net = Net()
    f = to_static(net.other)
    same(f(X, 1.0, X, scale=2.0, a=1.0, b=2.0), net.other(X, 1.0, X, scale=2.0, a=1.0, b=2.0))
    assert captured(f) == 1 and f.instance is net
    net.k = 5.0
    same(f(X), net.other(X))


def test_code_that_binds_methods_itself_finds_what_a_static_one_is_a_method_of() -> None:
    class Decorated(Net):
        forward = to_static(Net.forward)

    for net in (to_static(Net()), Decorated()):
        method = net.forward.__func__
        assert method is net.forward.__func__ and inspect.unwrap(method) is method
        assert inspect.signature(method) == inspect.signature(Net.forward) and method.__name__ == "forward"
        net.forward = types.MethodType(method, net)  # what puts something around a method, and takes it off again, does
        same(net(X), choose(X))
        del net.__dict__["forward"]
        other = Net()
        other.k = 5.0
        same(method(other, X), Net.forward(other, X))
    assert not hasattr(to_static(choose), "__func__")


def test_a_module_gets_a_static_forward() -> None:
    net = Net()
    assert to_static(net) is net
    same(net(X), choose(X))
    assert captured(net.forward) == 1
    assert to_static(net) is net
    same(net(X), choose(X))


def test_a_module_that_follows_its_attributes_is_not_asked() -> None:
    followed: list[tuple[str, str]] = []

    class Follows(Net):
        def __getattribute__(self, name: str) -> Any:
            if name == "forward":
                followed.append(("read", name))
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            followed.append(("write", name))
            if name == "forward":
                raise AttributeError("fixed")
            super().__setattr__(name, value)

    class ReadOnly(Net):
        def __getattr__(self, name: str) -> Any:
            followed.append(("missing", name))
            return super().__getattr__(name)

    for kind in (Follows, ReadOnly):
        net = kind()
        followed.clear()
        assert to_static(net) is net and to_static(net) is net
        assert not followed
        same(net(X), choose(X))
        assert captured(vars(net)["forward"]) == 1


def test_forward_in_a_class_body() -> None:
    class Static(Net):
        @to_static
        def forward(self, x: Any) -> Any:
            return choose(x, self.k)

        @to_static(input_spec=[InputSpec([None])])
        def second(self, x: Any) -> Any:
            return choose(x, self.k) + 1

    net = Static()
    same(net(X), choose(X))
    same(net.second(X[:2]), choose(X[:2]) + 1)
    same(net.second(X), choose(X) + 1)
    assert captured(net.forward) == captured(net.second) == 1
    assert isinstance(Static.forward, StaticFunction)
    same(Static.forward(net, X), choose(X))


def test_static_and_class_methods_become_static() -> None:
    class Holder:
        k = 3.0

        @staticmethod
        @to_static
        def inner_static(x: Any) -> Any:
            return choose(x)

        @to_static
        @staticmethod
        def outer_static(x: Any) -> Any:
            return choose(x)

        @classmethod
        @to_static
        def inner_class(cls, x: Any) -> Any:
            return choose(x, cls.k)

        @to_static
        @classmethod
        def outer_class(cls, x: Any) -> Any:
            return choose(x, cls.k)

    for _ in range(2):
        for owner in (Holder, Holder()):
            same(owner.inner_static(X), choose(X))
            same(owner.outer_static(X), choose(X))
            same(owner.inner_class(X), choose(X, 3.0))
            same(owner.outer_class(X), choose(X, 3.0))
    Holder.k = 4.0
    same(Holder.inner_class(X), choose(X, 4.0))
    same(Holder.outer_class(X), choose(X, 4.0))


def test_a_property_may_be_static() -> None:
    class Holder:
        def __init__(self) -> None:
            self.x = X

        @property
        @to_static
        def value(self) -> Any:
            return choose(self.x)

    holder = Holder()
    same(holder.value, choose(X))
    holder.x = -X
    same(holder.value, choose(-X))


def test_what_is_static_already_can_be_made_static_again() -> None:
    f = to_static(to_static(choose))
    same(f(X), choose(X))
    g = to_static(f, input_spec=[InputSpec([None])])
    same(g(X), choose(X))
    same(g(X[:2]), choose(X[:2]))
    assert captured(g) == 1 and captured(f) == 1


def test_lambdas_and_callable_objects_become_static() -> None:
    f = to_static(lambda x: x * 2 if x.sum() > 0 else x)
    same(f(X), X * 2)
    same(f(-X), -X)

    class Callable:
        def __init__(self, k: float) -> None:
            self.k = k

        def __call__(self, x: Any) -> Any:
            return choose(x, self.k)

    for static in (to_static(Callable(5.0)), to_static(Net(5.0).forward)):  # nothing else keeps the object alive
        same(static(X), choose(X, 5.0))
        same(static(-X), choose(-X, 5.0))


def test_decorated_functions_are_called_through_their_decorator() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) * 2

        return wrapper

    @to_static
    @twice
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x

    same(f(X), (X + 1) * 2)
    same(f(-X), -X * 2)

    @twice
    @to_static
    def g(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x

    same(g(X), (X + 1) * 2)


@pytest.mark.parametrize("given", [3, "f", torch.relu, len, nn.Linear, torch, None.__class__, object(), functools.partial(choose)])
def test_what_cannot_be_static(given: Any) -> None:
    with pytest.raises(SignatureError, match="to_static"):
        to_static(given)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SignatureError, match="full_graph"):
        to_static(choose, full_graph=0)
    with pytest.raises(dy2st.BackendError, match="backend 'xla'"):
        to_static(choose, backend="xla")
    for spec in (3, "float32", {"no_such_name": InputSpec([2])}):
        with pytest.raises(SignatureError, match="input_spec"):
            to_static(choose, input_spec=spec)
    with pytest.raises(TypeError):
        to_static(choose, [InputSpec([2])])


# -- static functions among others -------------------------------------------------------------------------------------------


def test_a_static_function_inside_another_is_inlined() -> None:
    inner = to_static(choose)

    class Inner(Net):
        @to_static
        def forward(self, x: Any) -> Any:
            return choose(x, self.k) + 1

    part = Inner()

    @to_static
    def f(x: Any) -> Any:
        return part(inner(x)) + part.forward(x)

    expected = choose(choose(X)) + 1 + choose(X) + 1
    same(f(X), expected)
    assert captured(f) == 1 and captured(inner) == 0 and captured(part.forward) == 0
    same(inner(X), choose(X))


def test_a_static_module_inside_an_eager_one() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), to_static(Net()), nn.ReLU())
    expected = net[2](choose(net[0](X)))
    same(net(X), expected)
    assert captured(net[1].forward) == 1


def test_a_static_module_inside_a_static_one() -> None:
    inner = to_static(Net(3.0))
    outer = to_static(nn.Sequential(nn.Linear(3, 3), inner))
    same(outer(X), choose(outer[0](X), 3.0))
    same(outer(X), choose(outer[0](X), 3.0))
    assert captured(outer.forward) == 1 and captured(inner.forward) == 0
    inner.k = 4.0
    same(outer(X), choose(outer[0](X), 4.0))


def test_enable_to_static_switches_capture_off_and_on() -> None:
    seen = []

    @to_static
    def f(x: Any) -> Any:
        seen.append(type(x))
        return x * 2

    with dy2st.enable_to_static(False):
        same(f(X), X * 2)
        assert captured(f) == 0 and seen == [torch.Tensor]
        with dy2st.enable_to_static(True):
            f(X)
            assert captured(f) == 1
        f(X)
        assert captured(f) == 1
    f(X)
    assert captured(f) >= 1
    dy2st.enable_to_static(False)
    try:
        net = to_static(Net())
        same(net(X), choose(X))
        assert captured(net.forward) == 0
    finally:
        dy2st.enable_to_static(True)
    with pytest.raises(SignatureError, match="True or False"):
        dy2st.enable_to_static("no")


@dy2st.not_to_static
def left_alone(x: Any, k: int) -> Any:
    total = x
    for index in range(k):
        total = total + index
    return total


def test_what_is_marked_not_to_static_runs_as_it_is_written() -> None:
    @to_static
    def f(x: Any) -> Any:
        if x.sum() > 0:
            x = left_alone(x, 3)
        return x

    same(f(X), left_alone(X, 3))
    same(f(-X), -X)
    assert captured(f) == 1

    class WithMethod(Net):
        @dy2st.not_to_static
        def part(self, x: Any) -> Any:
            return x + self.k

        def forward(self, x: Any) -> Any:
            return self.part(x)

    net = to_static(WithMethod())
    same(net(X), X + 2.0)


def test_what_an_unconverted_function_reads_is_not_guarded_but_its_identity_is() -> None:
    def make(k: float) -> Any:
        @dy2st.not_to_static
        def part(x: Any) -> Any:
            return x * k

        return part

    class Holder(Net):
        def __init__(self) -> None:
            super().__init__()
            self.part = make(2.0)

        def forward(self, x: Any) -> Any:
            return self.part(x)

    net = to_static(Holder())
    same(net(X), X * 2.0)
    net.part = make(3.0)
    same(net(X), X * 3.0)


def test_functions_of_an_ignored_module_run_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from dy2st.capture.environment import users_code

    monkeypatch.setattr(users_code, "SKIPPED_PACKAGES", set(users_code.SKIPPED_PACKAGES))
    library = types.ModuleType("some_library")
    source = "def f(x):\n    return x * 2\n"
    exec(source, library.__dict__)
    dy2st.ignore_module(library)
    dy2st.ignore_module([library, types])

    @to_static
    def f(x: Any) -> Any:
        return library.f(x)

    same(f(X), X * 2)
    with pytest.raises(SignatureError, match="Python modules"):
        dy2st.ignore_module("torch")
    with pytest.raises(SignatureError, match="Python modules"):
        dy2st.ignore_module([3])


# -- looking inside ------------------------------------------------------------------------------------------------------------


def test_code_program_and_report() -> None:
    f = to_static(choose)
    assert "def choose(" in f.code and "_dy2st" in f.code
    program = f.program(X)
    assert "test_to_static.py" in str(program) and "if" in str(program)
    assert f.program(X) is program and captured(f) == 1
    f(X)
    assert captured(f) == 1
    report = str(f.report())
    assert "choose: 1 programs" in report and "captured" in report
    assert "choose" in repr(f)


def test_specifications_alone_give_the_program_of_the_calls() -> None:
    f = to_static(choose, input_spec=[InputSpec([None], "float32", "x"), 3.0])
    program = f.program()
    same(f(X, 3.0), choose(X, 3.0))
    assert captured(f) == 1 and f.program(X, 3.0) is program


def test_the_program_of_a_method_is_made_once() -> None:
    class Static(Net):
        @to_static
        def forward(self, x: Any) -> Any:
            return choose(x, self.k)

    net = Static()
    assert net.forward.program(X) is net.forward.program(X)
    assert "Static.forward" in repr(net.forward)
