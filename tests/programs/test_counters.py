"""Numbers out of an ``itertools.count`` from outside (``next(self.ids)``): the program takes them when it runs."""

from __future__ import annotations

import functools
import heapq
import itertools

import pytest
import torch

import dy2st
from tests.worlds import World, agree


class Owner:
    def __init__(self):
        self.ids, self.down, self.heap, self.seen = itertools.count(), itertools.count(10, -2), [], {}


def in_a_branch(owner, x):
    for value in x:
        if value > 1:
            heapq.heappush(owner.heap, [float(value), next(owner.ids)])
    return len(owner.heap), owner.heap[0][1]


def at_the_root(owner, x):
    first, second = next(owner.ids), next(owner.down)
    return first, x * first, second, owner.ids.__next__()


def in_a_loop(owner, x):
    found = []
    while x.sum() > 4:
        x = x - 1
        found.append(next(owner.ids))
    return found, x


def under_keys(owner, x):
    for value in x.tolist():
        if value not in owner.seen:
            owner.seen[value] = next(owner.ids)
    return owner.seen[int(x[0])]


def which_it_is(owner, x):
    if x[0] > 0:
        owner.down = owner.ids
    return next(owner.down), owner.down is owner.ids


def at_capture(owner, x):
    return list(zip(owner.ids, [1, 2])), list(itertools.islice(owner.down, 2)), x


def world(function, owner_of=Owner):
    owner = owner_of()

    def call(run, n):
        return run(owner, torch.tensor([n, n + 1, 5 - n]))

    return World(function, [owner], [functools.partial(call, n=n) for n in (2, 1, 0, 3, 2, 1)])


@pytest.mark.parametrize("function", [in_a_branch, at_the_root, in_a_loop, under_keys])
def test_the_program_takes_them(function):
    agree(functools.partial(world, function), programs=3)


@pytest.mark.parametrize("function", [which_it_is, at_capture])
def test_others_are_taken_as_in_eager(function):
    agree(functools.partial(world, function))


def test_one_that_python_has_to_step_through_as_well_is_refused():
    with pytest.raises(dy2st.CaptureError, match="how many items have been taken"):
        dy2st.to_static(lambda owner: (next(owner.ids), list(zip([1, 2], owner.ids))))(Owner())
    with pytest.raises(dy2st.CaptureError, match="the text of a counter"):
        dy2st.to_static(lambda owner: (next(owner.ids), str(owner.ids)))(Owner())
