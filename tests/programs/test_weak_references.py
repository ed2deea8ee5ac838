"""Objects that are reached through weak references, and as members of sets and keys of dicts: what is read of them is guarded."""

from __future__ import annotations

import types
import weakref

import pytest
import torch

import dy2st
from tests.programs.state import described

T = torch.tensor


class Thing:
    def __init__(self, n):
        self.n, self.t, self.items = n, T(float(n)), []

    def __repr__(self):
        return f"Thing({self.n})"

    def __call__(self, x):
        return x * self.n

    def count(self):
        self.n += 1
        return self.n


class World:
    def __init__(self):
        self.one, self.other = Thing(1), Thing(2)
        self.hidden = weakref.ref(self.one), weakref.proxy(self.other), weakref.ref(Thing(0)), weakref.WeakMethod(self.one.count)
        self.by_name = weakref.WeakValueDictionary(a=self.one, b=self.other)
        self.by_thing = weakref.WeakKeyDictionary({self.one: T(1.0), self.other: 5})
        self.members = weakref.WeakSet([self.one])
        self.things, self.frozen = {self.one, self.other}, frozenset([self.one])
        self.keyed = {self.one: 1, (self.other, 1): 2}

    def shown(self):
        weak = sorted(self.by_name), list(self.by_thing.values()), len(self.members)
        return vars(self.one), vars(self.other), weak


def reference(w, x):
    thing = w.hidden[0]()
    if x > 0:
        thing.n += 1
        thing.items.append(1)
    return x * thing.n + thing.t, len(thing.items), w.hidden[2]() is None, thing is w.one


def written_by_reference(w, x):
    w.hidden[0]().t = x
    return w.one.t is x, w.hidden[3]()()


def proxy(w, x):
    w.hidden[1].t = x
    if x > 0:
        w.hidden[1].n += 1
    return w.hidden[1](x), w.hidden[1].count(), isinstance(w.hidden[1], Thing), hasattr(w.hidden[1], "none")


def values_by_name(w, x):
    w.by_name["a"].n += 1
    return x * w.by_name["a"].n, w.by_name.get("none"), "b" in w.by_name, sum(v.n for v in w.by_name.values()), sorted(w.by_name)


def values_by_thing(w, x):
    w.by_thing[w.other] += 1
    if x > 0:
        w.by_thing[w.one] = x * 2
    return w.by_thing[w.one], w.one in w.by_thing, len(w.by_thing), sum(k.n for k in w.by_thing.keys())


def weak_members(w, x):
    for thing in w.members:
        thing.n += 1
        x = x * thing.n
    return x, w.one in w.members, len(w.members)


def members(w, x):
    for thing in w.things:
        thing.t = thing.t + x
    return sum(thing.n for thing in w.things) * x, [thing.n for thing in w.frozen]


def keys(w, x):
    first, (second, _) = w.keyed
    second.n += 1
    return first.n * x, [thing.n for thing in w.keyed if isinstance(thing, Thing)]


@pytest.mark.parametrize(
    "function",
    [reference, written_by_reference, proxy, values_by_name, values_by_thing, weak_members, members, keys],
    ids=lambda function: function.__name__,
)
def test_what_is_read_may_change(function):
    for backend in ("python", "native"):
        eager, static = World(), World()
        called = dy2st.to_static(types.MethodType(function, static), backend=backend)
        for x in (T(1.0), T(-1.0), T(2.0), T(2.0)):
            for world in (eager, static):
                world.one.n += 1
                world.one.t = world.one.t + 1
                world.other.n *= 2
            assert described(called(x)) == described(function(eager, x))
            assert described(static.shown()) == described(eager.shown())


@pytest.mark.parametrize("where", ["keyed", "by_thing"])
def test_a_key_that_the_function_makes(where):
    world = World()

    def function(x):
        getattr(world, where)[Thing(3)] = x
        return x

    with pytest.raises(dy2st.CaptureError, match="looks up a Thing that it makes itself"):
        dy2st.to_static(function)(T(1.0))
    assert len(getattr(world, where)) == 2
