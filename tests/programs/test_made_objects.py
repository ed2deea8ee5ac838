"""Objects that the function makes, of plain classes and dataclasses: joined, carried by loops, given back and left in state."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.state import agree_with_state

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    CASES.append(make)
    return make


class S:
    def __init__(self, h, n=0):
        self.h = h
        self.n = n

    def __repr__(self):
        return f"S({self.h}, {self.n})"


class Node:
    def __init__(self, v, parent=None):
        self.v = v
        self.parent = parent
        self.kids = []

    def add(self, v):
        k = Node(v, self)
        self.kids.append(k)
        return k


class Layer:
    def __init__(self):
        self.k = None

    def update(self, k):
        self.k = k if self.k is None else torch.cat([self.k, k], 0)
        return self.k


class Lazy:
    def __init__(self):
        self.layers = []

    def update(self, k, i):
        while len(self.layers) <= i:
            self.layers.append(Layer())
        return self.layers[i].update(k)


@dataclasses.dataclass
class D:
    a: object
    b: object = None

    def __post_init__(self):
        if self.b is None:
            self.b = self.a * 2


@case
def objects_return():
    def f(x):
        s = S(x)
        if x.sum() > 0:
            s.h = x * 2
        return s

    return f, lambda: None, [P, N]


@case
def objects_return_optional():
    def f(x):
        s = S(x)
        if x.sum() > 0:
            s.extra = x * 2
        return s, [s]

    return f, lambda: None, [P, N]


@case
def objects_two():
    def f(x):
        s = S(x) if x.sum() > 0 else S(-x, 3)
        s.h = s.h + 1
        return s.h * s.n, s

    return f, lambda: None, [P, N]


@case
def objects_loop():
    def f(x):
        s = S(x)
        while s.h.sum() < 40 and s.h.sum() > 0:
            s = S(s.h * 2, s.n + 1)
        return s

    return f, lambda: None, [P, N, P * 10]


@case
def objects_loop_return():
    def solve(x):
        while True:
            x = x * 2
            if x.sum() > 9:
                return S(x)
            if x.sum() < -9:
                return S(x, 1)

    def f(x):
        return solve(x).h

    return f, lambda: None, [P, N]


@case
def objects_cyclic():
    def f(x):
        r = Node(x)
        k = r.add(x * 2)
        if x.sum() > 0:
            k.v = x * 3
        return k.parent.v + k.v, k.parent is r, len(r.kids)

    return f, lambda: None, [P, N]


@case
def objects_alias():
    def f(x):
        s = S(x)
        t = s
        if x.sum() > 0:
            s.h = x * 5
        u = S(x) if x.sum() > 0 else s
        u.h = u.h + 1
        return t.h, s is t, u is s, [s, t]

    return f, lambda: None, [P, N]


@case
def objects_lazy():
    c = Lazy()

    def f(x):
        for i in range(2):
            x = c.update(x, i).sum(0, keepdim=True)
        return x * 2 if x.sum() > 0 else x

    return f, lambda: c, [P[None], N[None], P[None]]


@case
def objects_cache_made():
    def f(x, cache=None):
        if cache is None:
            cache = Lazy()
        k = cache.update(x, 1)
        if k.sum() > 0:
            k = k * 2
        return k, cache

    return f, lambda: None, [P[None], N[None]]


@case
def objects_given_back():
    def f(x, s):
        s.h = s.h + x
        return (s.h * 2 if x.sum() > 0 else s.h), s

    keep = []

    def mk():
        keep.append(S(torch.zeros(2)))
        return keep[-1]

    return f, lambda: keep, [(P, mk), (N, mk), (P, mk)]


@case
def objects_given_choice():
    a, b = S(torch.zeros(2)), S(torch.ones(2))

    def f(x):
        s = a if x.sum() > 0 else b
        s.n += 1
        return s

    return f, lambda: (a, b), [P, N, P]


@case
def objects_dc_post():
    def f(x):
        d = D(x) if x.sum() > 0 else D(-x, 3)
        d.b = d.b + 1
        return d

    return f, lambda: None, [P, N]


@case
def objects_dc_branch():
    def f(x):
        if x.sum() > 0:
            d = D(x)
            d.a = x * 7
            d.z = 3
        else:
            d = D(x)
            d.a = x * 9
            d.z = 4
        return d.a, d.z, d

    return f, lambda: None, [P, N]


@case
def objects_plain_branch():
    def f(x):
        if x.sum() > 0:
            d = S(x)
            d.h = x * 7
        else:
            d = S(x)
            d.h = x * 9
            d.q = 1
        return d.h, getattr(d, "q", 0), d

    return f, lambda: None, [P, N]


@case
def objects_store():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None

        def forward(self, x):
            if x.sum() > 0:
                self.last = S(x)
            return x if self.last is None else self.last.h

    m = M()
    return m, lambda: m.last, [N, P, N, P]


@case
def objects_store_list():
    log = []

    def f(x):
        log.append(S(x))
        if x.sum() > 0:
            log[0].n = 5
        return len(log)

    return f, lambda: log, [P, N, P]


@case
def objects_state_obj():
    class C:
        def __init__(self):
            self.st = S(torch.zeros(2))

        def step(self, x):
            if x.sum() > 0:
                self.st = S(self.st.h + x, self.st.n + 1)
            return self.st.h * 1

    c = C()

    def f(x):
        return c.step(x)

    return f, lambda: c, [P, N, P]


@case
def objects_eq():
    class V:
        def __init__(self, a):
            self.a = a

        def __eq__(self, o):
            return self.a == o.a

        def __hash__(self):
            return hash(self.a)

        def __add__(self, o):
            return V(self.a + o.a)

        def __bool__(self):
            return self.a > 1

    def f(x):
        v = V(1) if x.sum() > 0 else V(2)
        w = v + V(1)
        return v == V(1), w == V(3), (x * 2 if w else x), w.a

    return f, lambda: None, [P, N]


@case
def objects_in_dict():
    def f(x):
        d = {"a": S(x)}
        if x.sum() > 0:
            d["a"] = S(x * 2)
            d["b"] = S(x * 3, 1)
        return d["a"].h, d

    return f, lambda: None, [P, N]


@case
def objects_early():
    def g(x):
        if x.sum() > 0:
            return S(x, 1)
        if x.sum() < -100:
            return None
        return S(-x, 2)

    def f(x):
        s = g(x)
        return None if s is None else s.h * s.n

    return f, lambda: None, [P, N, N * 100]


@case
def objects_ctx():
    class T:
        def __init__(self):
            self.log = []

        def __enter__(self):
            self.log.append(1)
            return self

        def __exit__(self, *a):
            self.log.append(2)

    def f(x):
        with T() as t:
            if x.sum() > 0:
                t.log.append(3)
                x = x * 2
        return x, t.log

    return f, lambda: None, [P, N]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_made_objects_and_state_are_those_of_eager(make):
    agree_with_state(make)


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("early", [False, True])
def test_an_empty_dict_that_a_branch_makes_is_filled(early, backend):
    def program(o, x):
        if early and x[1] > 1:
            return None
        if x[1] > 0:
            o.d = {"q": x}
        else:
            o.d = {}
        o.d.setdefault("a", x)
        if x[0] > -3:
            o.d["b"] = 1
        return o.d

    static = dy2st.to_static(program, backend=backend)
    for number in (-1.0, 2.0, 0.5, -5.0):
        one, two = types.SimpleNamespace(), types.SimpleNamespace()
        expected, found = program(one, torch.full((2,), number)), static(two, torch.full((2,), number))
        assert str(found) == str(expected) and str(vars(two)) == str(vars(one))
        assert found is None or found is two.d


@dataclasses.dataclass
class Reading:
    value: Any = None


def test_a_dataclass_with_an_attribute_on_some_ways() -> None:
    def given(reading, n):
        for i in range(n):
            reading.last = i
        return reading

    def made(x, n):
        reading = Reading(x)
        if n > 0:
            reading.last = x * 2
        if n > 1:
            del reading.value
        return [reading, reading], {"again": reading}

    trips = [torch.tensor(n) for n in (0, 1, 2, 0, 3)]
    agree(given, [(Reading(torch.ones(2)), n) for n in trips], programs=None)
    agree(made, [(torch.ones(2), n) for n in trips])
