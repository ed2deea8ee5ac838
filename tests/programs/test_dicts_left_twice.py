"""A dict that the function makes, and leaves in an attribute and in a list that it filters: they are one object."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree

VALUES = (torch.tensor([1.5, -1.0]), torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0]))


class State:
    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.items: list[Any] = []
        self.last: Any = None


def keeps_and_filters(s, x):
    s.last = {"h": x, "k": 0}
    s.rows.append(s.last)
    s.rows[:] = [t for t in s.rows if t["h"].sum() > 1]


def keeps_one_of_two(s, x):
    a = {"h": x, "k": 0}
    if s.last is None:
        s.last = a
    if x.sum() > 0:
        a = {"h": x, "k": 1}
    s.rows.append(s.last)
    s.rows[:] = [t for t in s.rows if t["h"].sum() > 1]
    return a


@pytest.mark.parametrize("function", [keeps_and_filters, keeps_one_of_two])
def test_a_dict_that_is_left_twice(function):
    def world():
        state = State()
        return World(lambda x: function(state, x), [state], [lambda f, x=x: f(x) for x in VALUES])

    agree(world)


def test_a_dict_of_which_only_the_program_knows_the_keys_is_refused_in_two_lists():
    state = State()

    @dy2st.to_static
    def step(x):
        a, b, pairs = {"h": x, "k": 0}, {"h": x + 1, "k": 0}, []
        state.items += [a, b]
        state.rows.append(b)
        pairs.append((a, a))
        if x.sum() > 0:
            b["k"] += 1
            pairs.append((a, b))
        return len(pairs)

    with pytest.raises(dy2st.CaptureError, match="next to the list or to another one of it"):
        step(VALUES[0])
