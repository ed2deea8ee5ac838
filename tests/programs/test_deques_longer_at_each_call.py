"""Deques from outside whose length differs from call to call: replay memories, windows, queues; one program serves any length."""

from __future__ import annotations

import collections

import pytest
import torch

import dy2st
from tests.programs.state import described
from tests.programs.test_objects_that_differ_at_each_call import XS, Item, World, pictures


class Window(World):
    def __init__(self):
        super().__init__()
        self.items = collections.deque(maxlen=3)

    def step(self, x):
        self.items.append(float(x.sum()))
        return sum(self.items) / len(self.items), max(self.items), self.items[0], self.items[-1]


class Replay(World):
    Step = collections.namedtuple("Step", "state action reward")

    def __init__(self):
        super().__init__()
        self.items = collections.deque(maxlen=4)

    def step(self, x):
        self.items.append(self.Step(x, int(x[0]), float(x[1])))
        picked = torch.randperm(len(self.items))[: min(len(self.items), 2)]
        return sum(t.reward for t in self.items), torch.stack([self.items[int(i)].state for i in picked])


class Queue(World):
    def __init__(self):
        super().__init__()
        self.items = collections.deque()

    def step(self, x):
        self.items.append(Item(x))
        for i in self.items:
            i.n += 1
        if x.sum() < 0:
            return self.items.popleft()
        if x.sum() > 5:
            self.items.rotate(1)
        return [i.n for i in self.items]


class Latest(World):
    def __init__(self):
        super().__init__()
        self.items = collections.deque([], 3)

    def step(self, x):
        self.items.appendleft(float(x.sum()))
        return list(self.items), 3.0 in self.items


class TwoNames(World):
    def __init__(self):
        super().__init__()
        self.items = self.others = collections.deque()

    def step(self, x):
        self.items.append(x)
        if len(self.others) > 3:
            self.others.popleft()
        return len(self.items), torch.stack(list(self.others)).sum(0), self.items is self.others


class OnlyAppended(World):
    def __init__(self):
        super().__init__()
        self.items = collections.deque()

    def step(self, x):
        self.items.append(x.sum())
        return x


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("kind", [Window, Replay, Queue, Latest, TwoNames, OnlyAppended])
def test_two_programs_serve_all_calls(kind, backend):
    eager, world = kind(), kind()
    static = dy2st.to_static(world.step, backend=backend)
    results = []
    for one, step in ((eager, eager.step), (world, static)):
        torch.manual_seed(0)
        results.append(pictures(one, step, [*XS, *XS]))
    assert results[0] == results[1]
    assert len(static.program_cache) == 2


def test_a_deque_is_changed_between_calls():
    eager, world = Window(), Window()
    static = dy2st.to_static(world.step)
    for position, x in enumerate(XS):
        for one in (eager, world):
            if position == 3:
                one.items = collections.deque([1.0, 2.0], maxlen=5)
            if position == 5:
                one.items.clear()
            if position == 7:
                one.items = collections.deque([1, 2.5], maxlen=2)
        assert pictures(world, static, [x]) == pictures(eager, eager.step, [x])


def test_what_a_program_takes_no_list_of_has_a_program_for_each_length():
    class Modules(World):
        def __init__(self):
            super().__init__()
            self.items = collections.deque([torch.nn.Identity()])

        def step(self, x):
            self.items.append(self.items[0])
            return sum(m(x) for m in self.items)

    eager, world = Modules(), Modules()
    static = dy2st.to_static(world.step)
    for x in XS[:4]:
        assert described(static(x)) == described(eager.step(x))
    assert len(world.items) == len(eager.items)
