"""Places in which a loop leaves a list or dict that is older than the loop, or one that an iteration makes."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.worlds import World, agree


class Owner:
    def __init__(self):
        self.items, self.table = [torch.zeros(2), torch.ones(2)], {"a": torch.zeros(2)}


def of_an_attribute(owner, x, n):
    rows = [x, x * 2]
    for _ in range(n):
        if n > 1:
            owner.items = rows
        else:
            owner.items = [x * 3, rows[0]]
    return rows


def begun_anew(owner, x, n):
    start = [x, x + 1]
    state = [x * 0, x]
    for _ in range(n):
        state = [state[0] + 1, state[1] * 2]
        if state[0].sum() > 3:
            state = start
    return state, state is start, start


def found_or_given(owner, x, n):
    found, given = None, {"s": x}
    while n > 0:
        n = n - 1
        candidate = {"s": x * n}
        if candidate["s"].sum() > 2:
            found = candidate
        elif n == 0:
            found = given
    return found, found is given


def written_to(owner, x, n):
    first = {"s": x}
    owner.table = first
    for k in range(n):
        if k == 1:
            owner.table = {"s": x + k}
        elif k == 2:
            owner.table = first
        owner.table["s"] = owner.table["s"] + 1
    return first, owner.table is first


@pytest.mark.parametrize("function", [of_an_attribute, begun_anew, found_or_given, written_to])
def test_it_is_known_which_it_is(function):
    def world():
        owner = Owner()

        def call(run, n):
            return run(owner, torch.full((2,), float(n)), torch.tensor(n))

        return World(function, [owner], [functools.partial(call, n=n) for n in (2, 1, 0, 3, 2)])

    agree(world)


class Numbers:
    def __init__(self):
        self.kept, self.last = [1, 2, 3], None


def puts_in_what_is_not_there(owner, n):
    for i in range(n):
        owner.last = i
        break
    else:
        owner.kept[1:] = [i]
    return owner.kept


def test_a_branch_that_is_looked_at_again_checks_again():
    def world():
        owner = Numbers()
        calls = [functools.partial(lambda run, n: run(owner, torch.tensor(n)), n=n) for n in (2, 0, 1, 3)]
        return World(lambda owner, n: puts_in_what_is_not_there(owner, int(n)), [owner], calls)

    agree(world)
