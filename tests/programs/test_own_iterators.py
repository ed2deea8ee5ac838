"""Loops over iterators of the user's that a tensor ends, and where the iterators are afterwards."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests import worlds
from tests.programs.state import agree_with_state

WAYS = [torch.tensor(row) for row in ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, 0.2, -0.1], [9.0, 9.0, 9.0], [1.0, 1.0, 0.5])]


class Steps:
    """As many as it says."""

    def __init__(self, x, count):
        self.x, self.left = x, count

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        self.x = self.x + 1
        return self.x


class Endless(Steps):
    def __next__(self):
        self.x = self.x + 1
        return self.x


class UntilLarge(Steps):
    """As many as a tensor decides."""

    def __next__(self):
        if self.x.sum() > 8:
            raise StopIteration
        return super().__next__() * 2


class Over:
    """From the beginning in each loop."""

    def __init__(self, items):
        self.items, self.position = items, -1

    def __iter__(self):
        self.position = -1
        return self

    def __next__(self):
        self.position += 1
        if self.position >= len(self.items):
            raise StopIteration
        return self.items[self.position]


def left_by_break(x, make):
    steps, total = make(x), x * 0
    for item in steps:
        total = total + item
        if total.sum() > 6:
            break
    else:
        total = total - 100
    return total, steps


def goes_on_afterwards(x, make):
    steps, total = make(x), x * 0
    for item in steps:
        if item[0] > 1:
            continue
        total = total + item
        if total.sum() > 3 or item[0] > 5:
            break
    for item in steps:
        total = total + item
        if total.sum() > 30:
            return total, steps
    return total * 2, steps


def raises_inside(x, make):
    total = x * 0
    try:
        for item in make(x):
            total = total + item
            if total.sum() > 20:
                raise ValueError("large")
    except ValueError as error:
        return total, str(error)
    return total


def inside_of_a_loop(x, make):
    total = x * 0
    for item in Over([x, x + 1]):
        for inner in make(item):
            total = total + inner
            if total.sum() > 25:
                return total
        total = total - 1
    return total, 1


MAKES = {
    "steps": lambda x: Steps(x, 4),
    "none": lambda x: Steps(x, 0),
    "one": lambda x: Steps(x, 1),
    "until": lambda x: UntilLarge(x, 9),
    "over": lambda x: Over([x, x + 1, x + 2]),
}


@pytest.mark.parametrize("function", [left_by_break, goes_on_afterwards, raises_inside, inside_of_a_loop])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_iterator_is_at_its_place(function, make):
    agree_with_state(lambda: (lambda x: function(x, make), lambda: None, WAYS))


def test_a_break_ends_a_loop_over_an_endless_iterator():
    agree_with_state(lambda: (lambda x: left_by_break(x, lambda x: Endless(x, 0)), lambda: None, WAYS))


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_iterator_from_outside_goes_on_at_the_next_call(make):
    def world():
        steps = make(torch.zeros(3))

        def function(x):
            for item in steps:
                x = x + item
                if x.sum() > 6:
                    break
            return x

        return function, lambda: steps, WAYS

    agree_with_state(world)


def test_steps_of_changing_kinds_leave_no_iterator_behind():
    class Deeper(Steps):
        def __next__(self):
            self.x = super().__next__()[None]
            return self.x

    def function(x):
        return left_by_break(x, lambda x: Deeper(x, 3))[1]

    with pytest.raises(dy2st.CaptureError, match="a tensor decides how many"):
        dy2st.to_static(function)(WAYS[0])


class Held:
    """Goes through what it holds."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def through_ranges(x):
    total = x * 0
    for position, number in enumerate(Held(range(int(x.abs().sum())))):
        total = total + position * number
    for number, row in zip(Held(range(9)), Held(x[x > 0])):
        total = total + number * row
    return total, [n + 1 for n in Held(range(int(x.max())))], list(Held(x[x > 0])), max(Held([1, 2]))


def test_an_object_that_goes_through_what_has_any_length():
    def make():
        calls = [lambda run, x=x: run(torch.tensor(x)) for x in ([1.0, 2.0], [3.0, -1.0], [-1.0, -2.0], [0.0, 0.0])]
        return worlds.World(through_ranges, [], calls)

    worlds.agree(make, programs=1)
