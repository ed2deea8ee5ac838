"""The search for values of a capture in what the user can reach finds them wherever they are, and nothing else."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import subprocess
import sys
import types
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import dy2st
from dy2st import LeakError, to_static
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.values.symbolic import Stale, TaggedUnion, Undefined
from dy2st.errors import DataDependentError
from dy2st.static import leaks

KEPT: list[Any] = []
SPACE = types.SimpleNamespace(value=None)


class Slotted:
    __slots__ = ("value",)


class Holder:
    table: dict[str, Any] = {}

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise AssertionError("the search runs no code of the user's")
        return super().__getattribute__(name)


@dataclasses.dataclass
class Fields:
    a: Any
    b: Any = None


def fake() -> torch.Tensor:
    return FakeTensorMode(shape_env=CaptureShapes()).from_tensor(torch.ones(2))


def slotted(value: Any) -> Slotted:
    made = Slotted()
    made.value = value
    return made


def closure(value: Any) -> Any:
    return lambda: value


def default(value: Any) -> Any:
    def function(a: int, b: Any = value) -> Any:
        return b

    return function


def module(value: Any) -> nn.Module:
    made = nn.Sequential(nn.Linear(1, 1))
    made[0].register_buffer("kept", value if isinstance(value, torch.Tensor) else None)
    made[0].other = value
    return made


WAYS = {
    "it": lambda value: value,
    "list": lambda value: [1, value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"a": value},
    "defaultdict": lambda value: collections.defaultdict(list, a=[value]),
    "set": lambda value: {1, value},
    "frozenset": lambda value: frozenset([value]),
    "deque": lambda value: collections.deque([value]),
    "object": Holder,
    "slot": slotted,
    "dataclass": lambda value: Fields(1, Fields(value)),
    "module": module,
    "closure": closure,
    "default": default,
    "partial": lambda value: functools.partial(print, value),
    "method": lambda value: Holder(value).__init__,
    "class": lambda value: type("Made", (), {"a": [value]}),
    "instance of class": lambda value: type("Made", (), {"a": [value]})(),
    "exception": lambda value: ValueError("a", value),
    "attribute of a tensor": lambda value: setattr(made := torch.ones(1), "a", value) or made,
}

VALUES = [fake, lambda: Undefined("a"), lambda: TaggedUnion(None, None, {0: 1}), Stale]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_of_a_capture_is_found_wherever_it_is(way: str, value: Any):
    leaked = value()
    if isinstance(leaked, TaggedUnion) and way in ("set", "frozenset"):
        with pytest.raises(DataDependentError):  # no set can hold one
            WAYS[way](leaked)
        return
    found = leaks.find([("x", WAYS[way](leaked))])
    assert found is not None
    assert found[1] is leaked


def test_the_path_to_it_is_told():
    assert leaks.find([("x", {"a": [1, Fields(fake())]})])[0] == "x['a'][1].a"


def test_ends_in_a_circle():
    circle: list[Any] = []
    circle.append(circle)
    assert leaks.find([("x", circle)]) is None


def test_fake_tensors_of_others_are_no_leak():
    other = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(2))
    assert leaks.find([("x", [other, FakeTensorMode().from_tensor(torch.ones(1))])]) is None


def test_a_table_that_finalizers_change():
    """What is searched may change while it is read: garbage is collected at any time, and its finalizers run then."""
    table: dict[int, Any] = dict.fromkeys(range(100_000))

    class Grows:
        def __init__(self):
            self.itself = self

        def __del__(self):
            if len(table) < 100_100:
                table[len(table)] = None
                Grows()

    threshold = gc.get_threshold()
    try:
        gc.set_threshold(50, 1000, 1000)
        Grows()
        assert leaks.find([("x", table)]) is None
    finally:
        gc.set_threshold(*threshold)
    assert len(table) > 100_000


def test_each_call_is_searched_for_leaks():
    @to_static
    def function(x):
        KEPT.append(1)
        return x + 1

    try:
        function(torch.ones(2))
        KEPT.append(fake())
        with pytest.raises(LeakError, match=r"after a call of .*function .*test_leaks.*global KEPT\[1\] is a fake tensor"):
            function(torch.ones(2))
    finally:
        KEPT.clear()


def test_failing_calls_are_searched():
    @to_static
    def function(x, space):
        if x.sum() > 0:
            raise ValueError("positive")
        return x

    space = types.SimpleNamespace(value=fake())
    with pytest.raises(LeakError, match=r"args\[1\].value") as caught:
        function(torch.ones(2), space)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="positive"):
        function(torch.ones(2), types.SimpleNamespace(value=1))


def test_captures_without_a_call_are_searched():
    @to_static
    def function(x):
        return x + len(SPACE.__dict__)

    SPACE.value = fake()
    try:
        with pytest.raises(LeakError, match="global SPACE.value"):
            function.program(torch.ones(2))
    finally:
        SPACE.value = None


def test_nothing_is_wrapped_without_the_setting():
    program = "import dy2st; print(hasattr(dy2st.StaticFunction.__call__, '__wrapped__'))"
    environment = {"DY2ST_CHECK_LEAKS": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"
    assert hasattr(dy2st.StaticFunction.__call__, "__wrapped__")


def test_an_object_of_a_class_whose_module_is_no_name():
    """Extensions written in Cython have such classes."""
    odd = type("Odd", (), {"__module__": property(lambda self: "odd")})()

    @dy2st.to_static
    def f(x, given):
        return x * 2 if x > 0 else (x, given)[0]

    assert f(torch.tensor(-1.0), odd) == -1
    with pytest.raises(dy2st.SignatureError):
        f(torch.tensor(-1.0), odd, 3)
