"""Functions that are called as they are and write to the objects that they get."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import dy2st
from tests.programs.state import agree_with_state

T = torch.tensor
CALLS = [T(1.0), T(-1.0), T(2.0), T(-2.0), T(1.0)]


class World:
    def __init__(self):
        self.table = {"a": T(1.0)}
        self.tensors = [T(1.0)]
        self.numbers = [1, 2]
        self.queue = collections.deque([1])
        self.nested = {"inner": {"deep": 1}}
        self.other = types.SimpleNamespace()


@dy2st.not_to_static
def appends(items, value):
    items.append(value)


@dy2st.not_to_static
def puts(table, value):
    table["put"] = value


@dy2st.not_to_static
def puts_deep(table, value):
    table["inner"]["deep"] = value


@dy2st.not_to_static
def sets(owner, value):
    owner.seen = value


@dy2st.not_to_static
def drops(table):
    table.clear()
    raise ValueError("dropped")


def in_any_case(w, x):
    appends(w.tensors, x)
    appends(w.numbers, 4)
    puts(w.table, x * 2)
    sets(w, x)
    return w.tensors[-1] is x, len(w.numbers), w.table["put"], w.seen is x


def in_a_branch(w, x):
    if x > 0:
        puts(w.table, x)
        sets(w, x * 2)
        appends(w.queue, 3)
    else:
        puts_deep(w.nested, x)
    return w.table.get("put"), getattr(w, "seen", None), len(w.queue), w.nested["inner"]["deep"]


def then_raises(w, x):
    if x > 0:
        try:
            drops(w.nested)
        except ValueError:
            return x, len(w.nested)
    return x, len(w.nested)


def made_here(w, x):
    table = {"a": x}
    if x > 0:
        puts(table, x * 2)
    return table.get("put"), len(table)


@pytest.mark.parametrize("function", [in_any_case, in_a_branch, then_raises, made_here], ids=lambda f: f.__name__)
def test_state_is_eagers(function):
    def make():
        world = World()
        return types.MethodType(function, world), lambda: vars(world), CALLS

    agree_with_state(make)


def test_a_list_that_grows_in_a_branch():
    world = World()

    def function(x):
        if x > 0:
            appends(world.tensors, x)
        return x

    with pytest.raises(dy2st.CaptureError, match="changes length"):
        dy2st.to_static(function)(T(1.0))
    assert world.tensors == [T(1.0)]
