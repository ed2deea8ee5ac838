"""Objects in lists from outside that the native executor looks into by itself: how much Python a call takes, and that nothing differs."""

from __future__ import annotations

import collections
import dataclasses
import gc
import inspect
import sys
import threading
import weakref
from typing import Any

import pytest
import torch

import dy2st
from dy2st_runtime.primitives.cells import Cell
from tests.programs.state import described

X = torch.tensor([1.0, 2])
Step = collections.namedtuple("Step", "h n", defaults=(0,))


class Item:
    def __init__(self, h, n=0):
        self.h, self.n = h, n


class Slots:
    __slots__ = ("h", "n")

    def __init__(self, h, n=0):
        self.h, self.n = h, n


class Partly(Slots):
    def __init__(self, h, n=0):
        super().__init__(h, n)
        self.extra = "x"


@dataclasses.dataclass
class Data:
    h: Any
    n: Any = 0


def table(h, n=0):
    return {"h": h, "n": n}


class Numbers:
    """Changes an attribute of each object."""

    def __init__(self, kind, count, value=1.0):
        self.items = [kind(value, k) for k in range(count)]
        self.kind, self.value = kind, value

    def add(self):
        self.items.append(self.kind(self.value))

    def step(self, x):
        total = 0
        for i in self.items:
            i.n += 1
            total += i.n
        self.items.append(self.items.pop(0))
        return x * total


class Tensors(Numbers):
    """Changes a tensor of each object."""

    def __init__(self, kind, count):
        super().__init__(kind, count, X)

    def step(self, x):
        for i in self.items:
            i.h = i.h + x
        self.items.append(self.items.pop(0))
        return self.items[0].h


class Tables(Numbers):
    def step(self, x):
        total = 0
        for i in self.items:
            i["n"] += 1
            total += i["n"]
        self.items.append(self.items.pop(0))
        return x * total


class Read(Numbers):
    """Reads tuples of a deque, and puts a new one in the place of the first."""

    def __init__(self, kind, count):
        super().__init__(kind, count, X)
        self.items = collections.deque(self.items)

    def step(self, x):
        self.items.popleft()
        self.items.append(Step(x, 1))
        return self.items[0].h + sum(i.n for i in self.items)


KINDS = [
    (Numbers, Item), (Numbers, Slots), (Numbers, Partly), (Numbers, Data), (Tensors, Item), (Tensors, Slots), (Tensors, Data),
    (Tables, table), (Read, Step),
]  # fmt: skip


def python_calls(static, x):
    """Return how many functions of Python a call runs, once the program is there, without the search for leaks of the tests."""
    calls, call = 0, inspect.unwrap(type(static).__call__)

    def note(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        call(static, x)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(("world", "kind"), KINDS)
def test_how_much_python_runs_does_not_depend_on_how_many_objects_there_are(world, kind):
    counts = []
    for size in (10, 200):
        one = world(kind, size)
        static = dy2st.to_static(one.step, backend="native")
        for _ in range(5):
            static(X)
            one.add() if isinstance(one.items, list) else one.items.append(kind(X))
        counts.append(python_calls(static, X))
    assert counts[1] <= counts[0] + 5


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize(("world", "kind"), KINDS)
def test_objects_are_changed_as_in_eager(world, kind, backend):
    eager, one = world(kind, 5), world(kind, 5)
    static = dy2st.to_static(one.step, backend=backend)
    for turn in range(6):
        for each in (eager, one):
            each.add() if isinstance(each.items, list) else each.items.append(kind(X))
        assert described((static(X * turn), one.items)) == described((eager.step(X * turn), eager.items))
    assert len(static.program_cache) <= 2


@pytest.mark.parametrize("backend", ["python", "native"])
def test_attributes_are_known_by_their_names_and_not_by_their_order(backend):
    """A field of a dataclass that has been deleted and set again comes last in the table of its object."""

    def program(world, x):
        for i in world.items:
            i.n = i.n + 1
        world.items.append(Data(x, len(world.items)))
        return torch.stack([i.h * i.n for i in world.items]).sum(0)

    static = dy2st.to_static(program, backend=backend)
    worlds = [Tensors(Data, 3), Tensors(Data, 3)]
    for turn in range(5):
        for world in worlds:
            first = world.items[turn % 3]
            held = first.h
            del first.h
            first.h = held
        assert described((static(worlds[0], X), worlds[0].items)) == described((program(worlds[1], X), worlds[1].items))


@pytest.mark.parametrize("backend", ["python", "native"])
def test_a_call_that_raises_leaves_what_it_has_written_last(backend):
    """Also where a block of the program runs by itself and raises."""

    class World:
        def __init__(self):
            self.items, self.count, self.last = [Item(0.0), Item(1.0)], 0, None

        def step(self, x):
            self.items.append(Item(1.0))
            self.count += 1
            for i in self.items:
                i.n += 1
                self.count += 1
                if x.sum() * i.n > 20:
                    raise ValueError("far")

            def inner(y):
                if (y * y).sum() > 10:
                    raise ValueError("inner")
                return (y * y).sum()

            self.last = 1
            return torch.func.grad(inner)(x)

    eager, world = World(), World()
    static = dy2st.to_static(world.step, backend=backend)
    for turn in range(12):
        results = []
        for step in (eager.step, static):
            try:
                results.append(described(step(X * (turn % 4))))
            except ValueError as error:
                results.append(str(error).split("\nraised")[0])
        assert results[0] == results[1]
        assert described(vars(world)) == described(vars(eager))
    assert not any(isinstance(part, Cell) for item in world.items for part in vars(item).values())


def test_other_threads_go_on_while_a_program_is_at_its_objects():
    class World:
        def __init__(self):
            self.items = [Item(1.0, k) for k in range(10)]

        def step(self, n):
            total = 0
            while n > 0:
                for i in self.items:
                    i.n += 1
                    total += i.n
                n = n - 1
            if total < 0:
                self.items.append(Item(1.0))
            return total

    world = World()
    static = dy2st.to_static(world.step, backend="native")
    for turn in range(4):
        static(torch.tensor(2))
        world.items.append(Item(1.0, turn))
    static(torch.tensor(2))
    turns, goes = [0], threading.Event()

    def work():
        while not goes.is_set():
            turns[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    before = turns[0]
    static(torch.tensor(20_000))
    during = turns[0] - before
    goes.set()
    thread.join()
    assert during > 1000


def test_objects_that_leave_the_list_are_not_kept():
    world = Numbers(Item, 5)
    static = dy2st.to_static(world.step, backend="native")
    for _ in range(5):
        static(X)
        world.add()
    held = weakref.ref(world.items[-1])
    static(X)
    static(X)
    world.items = world.items[:3]
    static(X)
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("backend", ["python", "native"])
def test_an_attribute_that_is_not_there_is_noticed(backend):
    for kind in (Item, Slots):
        eager, world = Numbers(kind, 4), Numbers(kind, 4)
        static = dy2st.to_static(world.step, backend=backend)
        for _ in range(4):
            for one in (eager, world):
                one.add()
            assert described((static(X), world.items)) == described((eager.step(X), eager.items))
        for one in (eager, world):
            del one.items[2].n
        for step in (eager.step, static):
            with pytest.raises(AttributeError, match="'n'|^n"):
                step(X)


@pytest.mark.parametrize("backend", ["python", "native"])
def test_an_object_that_is_in_two_lists_is_one(backend):
    class World:
        def __init__(self):
            self.items, self.others = [Item(1.0, k) for k in range(3)], []

        def step(self, x):
            self.others.append(self.items[0])
            for i in self.items:
                i.n += 1
            for i in self.others:
                i.n += 10
            self.items.append(self.items.pop(0))
            return [i is self.items[0] for i in self.others], x * self.items[-1].n

    eager, world = World(), World()
    static = dy2st.to_static(world.step, backend=backend)
    for turn in range(6):
        for one in (eager, world):
            one.items.append(Item(2.0, turn))
        assert described((static(X), vars(world))) == described((eager.step(X), vars(eager)))
