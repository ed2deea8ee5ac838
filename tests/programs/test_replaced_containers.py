"""Loops that replace lists and dicts: by dicts with other keys, and with the ones from before moving from name to name."""

from __future__ import annotations

import functools
import types
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


def world() -> Any:
    return types.SimpleNamespace(
        log=[torch.zeros(2)],
        acc=[torch.ones(2)],
        one={"a": torch.zeros(2)},
        other={"b": torch.ones(2), "a": torch.full((2,), 3.0)},
        last=None,
    )


def filled(w, x, n):
    table = {}
    while n > 0:
        table = {**table, "a": x}
        n = n - 1
    return table, len(table), "a" in table, table.get("a")


def comprehended(w, x, n):
    table = w.other
    while n > 0:
        table = {key: value + 1 for key, value in table.items() if key != "b"}
        n = n - 1
    return table, table is w.other


def one_in_each_branch(w, x, n):
    table = w.one
    for i in range(int(n)):
        table = {"a": x, "c": x + i} if x.sum() > i else {"k": x}
    return table, list(table)


def in_turns(w, x, n):
    table = {"a": x}
    while n > 0:
        table = {"b": x} if "a" in table else {"a": x + 1}
        n = n - 1
    return table, sum(table.values())


def in_turns_with_none(w, x, n):
    table = None
    while n > 0:
        table = {"a": x} if table is None else {"b": x, **table}
        n = n - 1
    return table


def in_another_order(w, x, n):
    table = {"a": x, "b": x}
    while n > 0:
        table = {"b": x, "a": x}
        n = n - 1
    return table, list(table)


def under_two_names(w, x, n):
    table = {}
    name = table
    while n > 0:
        table = {**table, "a": x}
        name = table
        n = n - 1
    same = table is name
    table["z"] = x
    return table, name, same


def the_one_from_before(w, x, n):
    table = {"b": x}
    name = table
    while n > 0:
        table = {"a": x}
        n = n - 1
    same = table is name
    table["z"] = x
    return table, name, same


def attributes(w, x, n):
    while n > 0:
        w.one = {"q": x}
        w.last = w.one
        n = n - 1
    w.one["r"] = x
    return w.one is w.last


def written_in_the_loop(w, x, n):
    table = w.other
    while n > 0:
        table["b"] = x
        table = {"q": x, "b": x}
        n = n - 1
    return table


def swapped(w, x, n):
    one, other = {"a": x}, {"b": x + 1}
    while n > 0:
        one, other = {**other}, one
        n = n - 1
    return one, other


def swapped_from_outside(w, x, n):
    one, other = w.one, w.other
    while n > 0:
        one, other = other, one
        n = n - 1
    one["c"] = x
    return one, other


def returned_early(w, x, n):
    table = w.one
    while n > 0:
        if x.sum() > n:
            return table
        table = {"i": x}
        n = n - 1
    return w.one, table


def growing(w, x, n):
    table = {}
    while n > 0:
        table = {"s": torch.cat([table["s"], x]) if "s" in table else x}
        n = n - 1
    return table


def three_names(w, x, n):
    one = {"a": x}
    two, three = one, {"c": x}
    while n > 0:
        three, two = two, one
        one = {"b": x, **one}
        n = n - 1
    return one, two, three, one is two, two is three


def lists_move(w, x, n):
    new, old = w.log, w.acc
    while n > 0:
        old = new
        new = [x]
        n = n - 1
    old.append(x)
    return new, old


def dicts_move(w, x, n):
    new, old = w.one, {"a": x}
    while n > 0:
        old = new
        new = {"a": x}
        n = n - 1
    old["a"] = x * 3
    return new, old


def moved_into_another(w, x, n):
    new = w.one
    while n > 0:
        w.last = {"was": new}
        new = {"a": x}
        n = n - 1
    return new


FUNCTIONS = [
    filled, comprehended, one_in_each_branch, in_turns, in_turns_with_none, in_another_order, under_two_names, the_one_from_before,
    attributes, written_in_the_loop, swapped, swapped_from_outside, growing, three_names, lists_move, dicts_move,
    moved_into_another,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_a_loop_replaces(function):
    def call(run, x, trips):
        w = world()
        return run(w, x, torch.tensor(trips)), w

    calls = [functools.partial(call, x=x, trips=trips) for x in (UP, DOWN) for trips in (2, 0, 1, 3)]
    agree(lambda: World(function, (), calls), programs=1)


def test_a_dict_that_gets_a_key_in_each_iteration_is_refused():
    def function(x, n):
        table = {"l": [x]}
        while n > 0:
            table = {"l": {**table}}
            n = n - 1
        return table

    with pytest.raises(dy2st.LoopVariableError, match="'table' holds the one of the iteration before"):
        dy2st.to_static(function)(UP, torch.tensor(2))


def test_a_table_that_is_returned_from_the_loop_that_replaces_it_is_refused():
    static = dy2st.to_static(returned_early)
    with pytest.raises(dy2st.CaptureError, match="a dict that a loop leaves in two places is one object depends on"):
        static(types.SimpleNamespace(one={"i": torch.ones(2)}), torch.ones(2), torch.tensor(3))


class Node:
    def __init__(self, value, below=None):
        self.value, self.below = value, below


def changed_behind_a_branch(x, n):
    new = Node(x)
    if n > 0:
        kept = new
        for i in range(int(n)):
            new = Node(x + i)
            if n > 2:
                kept = new
        if x[0] > 1:
            new = Node(x + 7)
    else:
        kept = Node(x)
    new.value = new.value * 10
    return kept.value


def changed_behind_another_loop(x, n):
    new = kept = Node(x)
    for _ in range(int(n) - 1):
        for i in range(int(n)):
            new = Node(x + i)
            if n > 2:
                kept = new
    new.value = new.value * 10
    return kept.value


def returned_behind_a_branch(x, n):
    new, kept = Node(x), Node(x, Node(x))
    if n > 0:
        for i in range(int(n)):
            new = Node(x + i)
            if n > 1:
                kept = Node(x, new)
        if x[0] > 1:
            kept = Node(x + 7)
    return new, kept


def extended_behind_a_branch(x, n):
    new, kept = [x], [x]
    if n > 0:
        for i in range(int(n)):
            new = [x + i]
            if i > 1:
                kept = new
        if x[0] > 1:
            new = [x + 7]
    new.append(x)
    return len(kept)


@pytest.mark.parametrize(
    "function", [changed_behind_a_branch, changed_behind_another_loop, returned_behind_a_branch, extended_behind_a_branch]
)
def test_what_a_loop_leaves_in_two_places_is_still_known_behind_the_next_statement(function):
    with pytest.raises(dy2st.CaptureError, match="may be the same object as one that is changed|is one object depends on"):
        dy2st.to_static(function)(UP, torch.tensor(3))
