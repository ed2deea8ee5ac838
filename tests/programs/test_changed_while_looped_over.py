"""Dicts, sets and deques that an iteration changes: Python tells where the loop goes on, and not where it is left."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree

VALUES = (torch.tensor(-1.0), torch.tensor(0.5), torch.tensor(1.5), torch.tensor(3.0))


def puts_in_and_leaves(t, x):
    for key in t:
        if x > t[key]:
            t["new"] = 9
            break
    return x


def takes_out_and_leaves(t, x):
    for key in t:
        if x > t[key]:
            del t[key]
            return key
    else:
        t["none"] = 5
    return "none"


def puts_in_and_goes_on(t, x):
    seen = 0
    for _ in t:
        seen += 1
        if x > 1:
            t["new"] = seen
    return seen


def takes_out_of_one_with_open_keys(t, x):
    if x > 0:
        t.pop("a", None)
    for key in t:
        t.pop(key)
    return x


def writes_what_may_be_there(t, x):
    if x > 0:
        t["new"] = 1
    for _ in t:
        t["new"] = 3
    return x


def changes_values(t, x):
    for key in t:
        if x > t[key]:
            t[key] += 1
    return x


def caught(t, x):
    try:
        for key in t:
            if x > 1:
                t.pop(key)
    except RuntimeError as error:
        return str(error)
    return "none"


def adds(s, x):
    for member in s:
        if x > 1:
            s.add(member + 5)
    return x


def discards_one(s, x):
    for member in s:
        if x > member:
            s.discard(member)
            break
    return x


def appends(d, x):
    for item in d:
        if x > 1:
            d.append(item)
    return x


def removes_one(d, x):
    for item in d:
        if x > item:
            d.remove(item)
            break
    return x


def pushes_one(d, x):
    for item in d:
        if x > item:
            d.append(item + 2)
            return item
    return -1


OF_DICTS = [
    puts_in_and_leaves, takes_out_and_leaves, puts_in_and_goes_on, takes_out_of_one_with_open_keys, writes_what_may_be_there,
    changes_values, caught,
]  # fmt: skip
OF_DEQUES = [appends, removes_one, pushes_one]


def check(function: Any, make: Any) -> None:
    def world():
        held = make()
        return World(lambda x: function(held, x), [held], [lambda f, x=x: f(x) for x in VALUES])

    agree(world)


@pytest.mark.parametrize("make", [lambda: {"a": 0, "b": 1}, lambda: {"a": 2}, lambda: collections.Counter(a=1, b=1)])
@pytest.mark.parametrize("function", OF_DICTS)
def test_dicts(function, make):
    check(function, make)


@pytest.mark.parametrize("function", [adds, discards_one])
def test_sets(function):
    check(function, lambda: {0, 1, 2})


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("function", OF_DEQUES)
def test_deques(function, limit):
    if function is not appends or limit is None:
        check(function, lambda: collections.deque([0, 1, 2], limit))


def test_keys_that_come_in_the_place_of_others_are_refused():
    def exchanges(t, x):
        for key in t:
            if x > t[key]:
                t.pop(key)
                t["new"] = 3
                break
        return x

    with pytest.raises(dy2st.CaptureError, match="a loop over a dict takes keys out and puts some in"):
        dy2st.to_static(exchanges)({"a": 0, "b": 1}, VALUES[0])
