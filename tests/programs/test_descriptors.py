"""Descriptors of the user's with a state of their own, which comes from outside as their class does."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import pytest
import torch

from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    """A function, what is compared, and what changes between the calls."""
    CASES.append(make)
    return make


class Kept:
    def __init__(self, v):
        self.v = v
        self.reads = 0

    def __get__(self, o, t=None):
        if o is None:
            return self
        return self.v

    def __set__(self, o, v):
        self.v = v


class Given:
    def __init__(self, v):
        self.v = v

    def __get__(self, o, t=None):
        return self.v


@case
def state_that_changes():
    d = Kept(2)

    class C:
        k = d

    o = C()

    def f(x):
        return x * o.k

    def change():
        d.v = 7

    return f, [o, d], change


@case
def written_in_a_branch():
    d = Kept(2)

    class C:
        k = d

    o = C()

    def f(x):
        if x.sum() > 0:
            o.k = 5
        return x * o.k

    def change():
        d.v = 7

    return f, [o, d], change


@case
def without_a_setter():
    d = Given(2)

    class C:
        k = d

    o = C()

    def f(x):
        return x * o.k + x * C.k

    def change():
        d.v = 7

    return f, [o, d], change


@case
def that_counts_its_reads():
    class CD:
        def __init__(self):
            self.cache = {}

        def __get__(self, o, t=None):
            self.cache["n"] = self.cache.get("n", 0) + 1
            return self.cache["n"]

    d = CD()

    class C:
        k = d

    o = C()

    def f(x):
        return x * o.k

    return f, [o, d]


@case
def asked_by_getattr():
    d = Kept(2)

    class C:
        k = d

    o = C()

    def f(x):
        return hasattr(o, "k"), getattr(o, "k", 0), x * getattr(o, "k")

    def change():
        d.v = 7

    return f, [o, d], change


@case
def through_super():
    d = Kept(2)

    class C:
        k = d

    class E(C):
        @property
        def kk(self):
            return super().k

    o = E()

    def f(x):
        return x * o.kk

    def change():
        d.v = 7

    return f, [o, d], change


@case
def property_of_an_object():
    class P_:
        def __init__(self):
            self.f = 1

        def __call__(self, o):
            return self.f

    p = P_()

    class C:
        k = property(p)

    o = C()

    def f(x):
        return x * o.k

    def change():
        p.f = 7

    return f, [o, p], change


@case
def method_of_an_object():
    class Fn:
        def __init__(self):
            self.n = 2

        def __get__(self, o, t=None):
            return functools.partial(self, o)

        def __call__(self, o, x):
            return x * self.n

    fn = Fn()

    class C:
        m = fn

    o = C()

    def f(x):
        return o.m(x)

    def change():
        fn.n = 9

    return f, [o, fn], change


@case
def private_name():
    class Priv:
        def __set_name__(self, o, name):
            self.name = "_" + name

        def __get__(self, o, t=None):
            return getattr(o, self.name)

        def __set__(self, o, v):
            setattr(o, self.name, v * 2)

    class C:
        k = Priv()

        def __init__(self):
            self.k = 1

    o = C()

    def f(x):
        if x.sum() > 0:
            o.k = o.k + 1
        return x * o.k

    def change():
        o._k = 7

    return f, [o], change


@case
def weak_table():
    class WD:
        def __init__(self):
            self.data = weakref.WeakKeyDictionary()

        def __get__(self, o, t=None):
            return self.data.get(o, 1)

        def __set__(self, o, v):
            self.data[o] = v

    d = WD()

    class C:
        k = d

    o = C()

    def f(x):
        if x.sum() > 0:
            o.k = 3
        return x * o.k

    def change():
        d.data[o] = 7

    return f, [o], change


@case
def deleted_in_a_branch():
    class Dd:
        def __init__(self):
            self.data = {}

        def __get__(self, o, t=None):
            return self.data.get(id(o), 1)

        def __set__(self, o, v):
            self.data[id(o)] = v

        def __delete__(self, o):
            del self.data[id(o)]

    d = Dd()

    class C:
        k = d

    o = C()

    def f(x):
        if x.sum() > 0:
            o.k = 3
        else:
            if hasattr(o, "k"):
                o.k = 5
                del o.k
        return x * o.k

    def change():
        d.data[id(o)] = 7

    return f, [o], change


@case
def tensor():
    d = Kept(torch.ones(2))

    class C:
        k = d

    o = C()

    def f(x):
        o.k = o.k + x
        return x * o.k

    def change():
        d.v = torch.ones(2) * 3

    return f, [o, d], change


@case
def replaced():
    d, e = Kept(2), Kept(3)

    class C:
        k = d

    o = C()

    def f(x):
        return x * o.k

    def change():
        C.k = e

    def change2():
        e.v = 11

    return f, [o, d], change, change2


@case
def of_a_module():
    d = Kept(2)

    class C(torch.nn.Module):
        k = d

        def forward(self, x):
            if x.sum() > 0:
                self.k = 9
            return x * self.k

    o = C()

    def change():
        d.v = 7

    return o, [o, d], change


@case
def of_a_metaclass():
    class M(type):
        kk = Kept(3)

    d = M.__dict__["kk"]

    class C(metaclass=M):
        pass

    def f(x):
        if x.sum() > 0:
            C.kk = 4
        return x * C.kk

    def change():
        d.v = 7

    return f, [d], change


@case
def list_that_grows():
    class S:
        def __init__(self):
            self.l = [1]

        def __get__(self, o, t=None):
            return self.l

    s = S()

    class C:
        k = s

    o = C()

    def f(x):
        if x.sum() > 0:
            o.k.append(2)
        return len(o.k)

    def change():
        s.l.append(4)

    return f, [o, s], change


@case
def decorator_that_counts():
    class cm:
        def __init__(self, f):
            self.f = f
            self.count = 0

        def __get__(self, o, t=None):
            self.count += 1
            return self.f.__get__(o, t)

    class C:
        @cm
        def m(self, x):
            return x * 2

    d = C.__dict__["m"]
    o = C()

    def f(x):
        if x.sum() > 0:
            return o.m(x)
        return x

    return f, [o, d]


@case
def of_a_made_object():
    d = Kept(2)

    class C:
        k = d

    def f(x):
        o = C()
        o.k = 4
        return x * o.k

    return f, [d]


@case
def state_read_through_the_class():
    d = Kept(2)

    class C:
        k = d

    def f(x):
        return x * type(C()).__dict__["k"].v

    def change():
        d.v = 8

    return f, [d], change


class OfClass(property):
    def __get__(self, o, t=None):
        return self.fget(t)


class Doubled(property):
    def __get__(self, o, t=None):
        return self if o is None else super().__get__(o, t) * 2

    def __set__(self, o, v):
        super().__set__(o, v + 1)


@case
def properties_of_classes():
    class Base:
        kinds = {"a": 1}

        @OfClass
        def sizes(cls):
            if cls.kinds:
                return {name: size * 2 for name, size in cls.kinds.items()}
            return {}

    class C(Base):
        @property
        def sizes(self):
            return super().sizes

    o, c = Base(), C()
    o.kinds = {"a": 100}

    def f(x):
        return x * o.sizes["a"] + c.sizes["a"]

    def change():
        Base.kinds = {"a": 5}

    return f, [o, c], change


@case
def properties_with_a_way_of_their_own():
    class C:
        w = torch.ones(1)

        @Doubled
        def two(self):
            if self.w.sum() > 0:
                return self.w
            return self.w - 5

        @two.setter
        def two(self, v):
            if v.sum() > 3:
                self.w = v
            else:
                self.w = -v

    o = C()

    def f(x):
        o.two = x
        return o.two + 1

    return f, [o]


@pytest.mark.parametrize("body", CASES, ids=lambda body: body.__name__)
def test_descriptors_and_their_state_do_what_they_do_in_eager(body: Any) -> None:
    def make() -> World:
        f, roots, *changes = body()

        def after(change: Any) -> Any:
            def call(function: Any) -> Any:
                change()
                return function(P), function(N)

            return call

        return World(f, roots, [lambda g: g(N), lambda g: g(P), *map(after, changes), lambda g: g(N), lambda g: g(P)])

    agree(make, programs=3)
