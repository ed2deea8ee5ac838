"""State made of objects: frozen ones of which a branch or loop chooses, those that put themselves in, and the like."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

import dy2st
from tests.programs.state import described

XS = [
    torch.tensor(pair)
    for pair in ([1.0, 2], [-1.0, -2], [0.5, -0.25], [3.0, 1], [2.0, 2], [-3.0, 1], [1.0, 1], [-1.0, 0.5], [4.0, 4], [-5.0, -1])
]


class Item:
    def __init__(self, h, n=0):
        self.h, self.n = h, n


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


WORLDS = [
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
