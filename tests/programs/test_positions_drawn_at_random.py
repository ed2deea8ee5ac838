"""`random.sample`, `choice`, `choices` and `shuffle`: positions are drawn when the program runs, as eager draws them."""

from __future__ import annotations

import collections
import random

import pytest
import torch

import dy2st
from tests.programs.state import described
from tests.programs.test_objects_that_differ_at_each_call import XS, World


class Replay(World):
    Step = collections.namedtuple("Step", "state action reward")

    def __init__(self):
        super().__init__()
        self.items = collections.deque(maxlen=6)

    def step(self, x):
        self.items.append(self.Step(x, int(x[0]), float(x[1])))
        if len(self.items) < 3:
            return None
        batch = self.Step(*zip(*random.sample(self.items, 3)))
        return torch.stack(batch.state), torch.tensor(batch.reward)


class Shuffled(World):
    def step(self, x):
        self.items.append(float(x.sum()))
        random.shuffle(self.items)
        return random.choice(self.items), self.items[0]


class Known(World):
    def __init__(self):
        super().__init__()
        self.items = [1, 2, 3]

    def step(self, x):
        names = ("a", "b", "c", "d")
        drawn = random.choice(names), random.sample(self.items, 2), random.choices([1.0, 2.0, 3.0], weights=[1, 2, 3], k=4)
        random.shuffle(self.items)
        return drawn, list(self.items), random.choice(range(5)), random.choice((x, x + 1))


class Many(World):
    def step(self, x):
        items = [x * i for i in range(int(x.abs().sum()) + 1)]
        return random.sample(items, min(len(items), 2)), random.choices(items, k=len(items)), random.choice(items)


class Fails(World):
    def step(self, x):
        self.items.append(x)
        try:
            return random.sample(self.items, 3)
        except ValueError as error:
            return str(error)


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("kind", [Replay, Shuffled, Known, Many, Fails])
def test_draws_are_those_of_eager(kind, backend):
    eager, world = kind(), kind()
    static = dy2st.to_static(world.step, backend=backend)
    results = []
    for one, step in ((eager, eager.step), (world, static)):
        random.seed(3)
        results.append([described((step(x), vars(one), random.random())) for x in [*XS, *XS]])
    assert results[0] == results[1]
    assert len(static.program_cache) <= 2


@pytest.mark.parametrize("draw", [random.choice, lambda items: random.sample(items, 1), random.shuffle])
def test_an_empty_list(draw):
    def f(x):
        items = [x for _ in range(int(x[0]))]
        return draw(items), items

    errors = []
    for function in (f, dy2st.to_static(f)):
        try:
            errors.append(described(function(torch.zeros(2))))
        except (IndexError, ValueError) as error:
            errors.append((type(error), str(error).split("\nraised")[0]))
    assert errors[0] == errors[1]


def test_what_has_no_positions_is_refused():
    @dy2st.to_static
    def f(x):
        return random.choice({1: x, 2: x}.keys())

    with pytest.raises(dy2st.CaptureError, match="another value at each call"):
        f(torch.zeros(2))
