"""Objects whose ``__getattr__`` answers everything: it is asked what eager asks, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree, calls

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    CASES.append(make)
    return make


def answering(log: list[str], base: type = object) -> Any:
    """A class that notes what it is asked."""

    class Answering(base):
        def __getattr__(self, name):
            log.append(name)
            return 42

    return Answering


@case
def attribute_of_an_object() -> World:
    log: list[str] = []
    o = answering(log)()

    def f(x):
        if x.sum() > 0:
            o.k = o.q + 1
        return x * o.k, getattr(o, "k", 1), hasattr(o, "w")

    return World(f, [o, log], calls(N, P, N))


@case
def kept_in_a_module() -> World:
    log: list[str] = []
    kind = answering(log)
    shared = kind()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = kind()

        def forward(self, x):
            if x.sum() > 0:
                self.a = shared
            else:
                self.b = shared
            return x * self.a.foo

    net = Net()
    return World(net, [net, log], calls(N, P, N))


@case
def field_of_a_dataclass_that_is_gone() -> World:
    log: list[str] = []

    @dataclasses.dataclass
    class Data(answering(log)):  # type: ignore[misc]
        h: Any = None
        k: int = 3

    o = Data()
    del o.h

    def f(x):
        if x.sum() > 0:
            o.h = x
        return x * o.k

    return World(f, [o, log], calls(N, P, N))


@case
def argument_without_a_field() -> World:
    log: list[str] = []

    @dataclasses.dataclass
    class Data(answering(log)):  # type: ignore[misc]
        h: Any
        k: Any

    o = Data(P, 3)
    del o.k

    def f(x, data):
        if x.sum() > 0:
            data.h = x + data.h
        return data.h * data.k

    return World(f, [o, log], [lambda g, x=x: g(x, o) for x in (N, P, N)])


@case
def made_and_given_back() -> World:
    log: list[str] = []
    kind = answering(log)

    def f(x):
        a, b = kind(), kind()
        chosen = a if x.sum() > 0 else b
        chosen.z = x
        return chosen, a, b, a.h * 2

    return World(f, [log], calls(N, P))


@case
def in_a_loop_and_in_containers() -> World:
    log: list[str] = []
    o = answering(log)()
    table: dict[Any, Any] = {}

    def f(x):
        table["o"] = [o]
        with torch.no_grad():
            o.h = x
        for i in range(3):
            if x.sum() > i:
                o.i = o.h + i
        return o.i, callable(o), isinstance(o, dict), [item.z for item in table["o"]]

    return World(f, [o, log, table], calls(N, P, N))


@case
def with_slots_only() -> World:
    log: list[str] = []

    class Slotted:
        __slots__ = ("h", "k")

        def __getattr__(self, name):
            log.append(name)
            return 42

        def step(self, x):
            if x.sum() > 0:
                self.h = x
            return self.h * self.k

    o = Slotted()

    def f(x):
        return o.step(x) + o.step(-x)

    return World(f, [log], [lambda g, x=x: (g(x), hasattr(o, "h"), o.h) for x in (N, P, N)])


@case
def that_is_called() -> World:
    log: list[str] = []

    class Callable_(answering(log)):  # type: ignore[misc]
        def __call__(self, x):
            return x * self.scale

        def __hash__(self):
            log.append("hash")
            return 1

    o = Callable_()

    def f(x):
        if x.sum() > 0:
            o.scale = 2
        return o(x)

    return World(f, [log, o], calls(N, P, N))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_fallback_is_asked_what_eager_asks_it(make):
    agree(make)


class Answering:
    def __init__(self):
        self.table = {"v": 1.0}

    def __getattr__(self, name):
        if name.startswith("of_"):
            return self.table[name[3:]]
        raise AttributeError(name)


class AnsweringModule(torch.nn.Module):
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return 4


@pytest.mark.parametrize("kind", [Answering, AnsweringModule])
def test_an_attribute_that_an_object_gets_later_hides_what_getattr_gives(kind):
    owner = kind()

    @dy2st.to_static
    def function(x):
        return x * owner.of_v, getattr(owner, "of_v", 2)

    def agrees():
        expected = torch.ones(2) * owner.of_v
        found = function(torch.ones(2))
        assert torch.equal(found[0], expected) and found[1] == owner.of_v

    agrees()
    owner.of_v = 3
    agrees()
    del owner.of_v
    agrees()
    programs = len(function.program_cache)
    agrees()
    assert len(function.program_cache) == programs
    kind.of_v = 7
    try:
        agrees()
    finally:
        del kind.of_v
