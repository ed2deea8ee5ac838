"""State made of objects: frozen ones of which a branch or loop chooses, those that put themselves in, and the like."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

import dy2st
from tests.programs.state import described
from tests.programs.test_objects_that_differ_at_each_call import XS, Item


@dataclasses.dataclass(frozen=True)
class Frozen:
    h: Any
    n: Any = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    h: Any
    n: Any = 0


class World:
    def __init__(self):
        self.items, self.others, self.best, self.count = [], [], None, 0

    def step(self, x):
        raise NotImplementedError


class BestOfFrozen(World):
    kind: Any = Frozen

    def step(self, x):
        self.items = [dataclasses.replace(e, n=e.n + 1) for e in self.items if e.n < 3] + [self.kind(x)]
        self.best = max(self.items, key=lambda e: float(e.h.sum()))
        return self.best.n, [e.n for e in self.items]


class BestOfFrozenSlots(BestOfFrozen):
    kind = FrozenSlots


class BestIsUsed(World):
    def step(self, x):
        self.items = [Frozen(e.h, n=e.n + 1) for e in self.items if e.n < 3] + [Frozen(x)]
        self.best = max(self.items, key=lambda e: float(e.h.sum()))
        other = dataclasses.replace(self.best, n=self.best.n + 10)
        return other.n, self.best.n + 1, copy.copy(self.best).n, vars(self.best)["n"], self.best.h


class BestIsFoundInLoop(World):
    def step(self, x):
        self.items = [dataclasses.replace(e, n=e.n + 1) for e in self.items if e.n < 3] + [Frozen(x)]
        self.best = self.items[0]
        for e in self.items:
            if e.h.sum() > self.best.h.sum():
                self.best = e
        return self.best.n


class ChosenByBranch(World):
    def step(self, x):
        self.items.append(Frozen(x, len(self.items)))
        self.best = self.items[-1] if x[0] > 0 else self.items[0]
        return self.best.n


class PutsItselfIn:
    def __init__(self, x, items):
        self.x, self.n = x, 0
        items.append(self)


class PutThemselvesIn(World):
    def step(self, x):
        made = PutsItselfIn(x, self.items)
        self.count += 1
        made.n = self.count
        if x[0] > 0:
            self.others.append(made)
        for item in self.items:
            item.x = item.x + 1
        return [item.n for item in self.items], [item.x for item in self.others]


class PutThemselvesInBranches(World):
    def step(self, x):
        if x[0] > 0:
            self.best = PutsItselfIn(x, self.items)
        else:
            PutsItselfIn(-x, self.others).n += 1
        for item in [*self.items, *self.others]:
            item.n += 1
        return [item.n for item in self.items], [item.n for item in self.others]


class PutsItselfInWithSlots:
    __slots__ = ("n", "x")

    def __init__(self, x, items):
        self.x, self.n = x, 0
        items.append(self)


class ComparedWithSlots(World):
    def step(self, x):
        made = PutsItselfInWithSlots(x, self.items)
        made.n = 5
        for item in self.items:
            item.n += 1
        return [item.n for item in self.items], self.items[-1] is made, self.items[0] is made


class FirstOfMany(World):
    def step(self, x):
        self.items.append(Item(x, len(self.items)))
        found = next((item for item in self.items if item.h.sum() > 2), self.items[0])
        found.n += 1
        position = next((k for k, item in enumerate(self.items) if item.n == 1), -1)
        pair = next(((a.n, b) for a, b in zip(self.items, range(100)) if a.n > 2), None)
        if position < 0:
            self.count += 1
        return found.n, position, pair


WORLDS = [
    ComparedWithSlots, FirstOfMany,
    BestOfFrozen, BestOfFrozenSlots, BestIsUsed, BestIsFoundInLoop, ChosenByBranch, PutThemselvesIn, PutThemselvesInBranches,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("kind", WORLDS)
def test_few_programs_serve_all_calls(kind, backend):
    eager, world = kind(), kind()
    static = dy2st.to_static(world.step, backend=backend)
    for x in XS:
        assert described((static(x), vars(world))) == described((eager.step(x), vars(eager)))
    assert len(static.program_cache) <= 3


class Refuses(World):
    def step(self, x):
        self.items.append(Frozen(x, len(self.items)))
        self.best = self.items[-1] if x[0] > 0 else self.items[0]
        for item in self.items:
            if item.h.sum() < -2:
                raise ValueError(f"{item.n}")
        return self.best.n


def test_an_exception_leaves_the_object_that_a_branch_has_chosen():
    eager, world = Refuses(), Refuses()
    static = dy2st.to_static(world.step)
    for x in XS:
        for step in (static, eager.step):
            if any(item.h.sum() < -2 for item in [*eager.items, Frozen(x)]):
                with pytest.raises(ValueError):
                    step(x)
            else:
                step(x)
        assert described(vars(world)) == described(vars(eager))


def test_the_conditions_on_many_objects_take_time_in_proportion_to_them():
    world = World()
    world.items = [Item(1.0, n) for n in range(40)]

    @dy2st.to_static
    def step(x):
        for item in world.items:
            item.n += 1
        return x

    step(torch.ones(1))
    (program,) = step.program_cache
    assert sum(len(guard.others) for guard in program.guards if guard.kind == "distinct") < 5 * len(world.items)


def test_an_object_at_two_places_that_are_written_is_not_taken_for_two():
    def step(world, x):
        for item in world.items:
            item.n = item.n * 2 + 1
        return x + sum(item.n for item in world.items)

    eager, world = World(), World()
    static = dy2st.to_static(step)
    for one in (world, eager):
        one.items = [Item(1.0, n) for n in range(20)]
    for position in (None, 19, 0, 7):
        for one in (world, eager):
            if position is not None:
                one.items[position] = one.items[3]
        assert described((static(world, XS[0]), vars(world))) == described((step(eager, XS[0]), vars(eager)))


def test_objects_get_slots_of_their_own_class():
    class Base:
        __slots__ = ("h",)

    class Both(Base):
        __slots__ = ("n", "__dict__")

        def __init__(self, h):
            self.h, self.n, self.tag = h, 0, "new"

    class Slotted(World):
        def step(self, x):
            self.items.append(Both(x))
            for item in self.items:
                item.n, item.h, item.tag = item.n + 1, item.h * 2, "old"
            return [item.n for item in self.items], self.items[0].tag, self.items[-1].h

    eager, world = Slotted(), Slotted()
    static = dy2st.to_static(world.step)
    for x in XS:
        assert described((static(x), vars(world))) == described((eager.step(x), vars(eager)))
    assert len(static.program_cache) == 2


class PrivateSlots:
    __slots__ = ("__h", "__n")

    def __init__(self, h):
        self.__h, self.__n = h, 0

    def bump(self):
        self.__n += 1
        return self.__n

    def h(self):
        return self.__h


@pytest.mark.parametrize("backend", ["python", "native"])
def test_slots_with_private_names(backend):
    kept: list[PrivateSlots] = []
    held: list[PrivateSlots] = []

    def step(items, x):
        items.append(PrivateSlots(x))
        return [i.bump() for i in items if i.h().sum() > 0], items[0]

    static = dy2st.to_static(lambda x: step(kept, x), backend=backend)
    for x in XS:
        (counts, first), (expected, _) = static(x), step(held, x)
        assert counts == expected
        assert first is kept[0]
    assert len(static.program_cache) <= 3
