"""Dicts, sets and deques that change while ``enumerate``, ``zip``, a generator or ``itertools`` step through them."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import pytest
import torch

from tests.worlds import World, agree

VALUES = (torch.tensor(-1.0), torch.tensor(0.5), torch.tensor(1.5), torch.tensor(3.0))


def numbered_items(t, x):
    for number, (key, value) in enumerate(t.items()):
        if x > value:
            del t[key]
            return number
    t["none"] = x
    return -1


def numbered_keys(t, x):
    for number, key in enumerate(t):
        if x > t[key]:
            t[f"new{number}"] = t.pop(key)
            break
    return x


def goes_on(t, x):
    seen = 0
    for number, (key, _) in enumerate(t.items(), 1):
        seen += number
        if x > 1 and key == "a":
            t["new"] = 4
    return seen


def goes_on_beside_a_range(t, x):
    seen = 0
    for number, key in zip(range(2), t):
        seen += t[key]
        if x > 1 and number == 1:
            t["new"] = 4
    return seen


def beside_weights(t, x):
    total = x * 0
    for weight, (key, value) in zip([1, 2, 3], t.items()):
        total = total + weight * value
        if total > x:
            t["reached"] = total
            return key
    return None


def sees_what_is_written(t, x):
    total = 0
    for _, value in enumerate(t.values()):
        total = total + value
        if x > value:
            t["c"] = value * 3
    return total


def of_map(t, x):
    total = 0
    for value in map(lambda value: value * 2, t.values()):
        if x > value:
            t["b"] = value + 10
        total = total + value
    return total


def of_a_generator(t, x):
    for key in (key for key, value in t.items() if value < x):
        del t[key]
        break
    return x


def first_of_a_generator(t, x):
    key = next((key for key, value in t.items() if value < x), None)
    if key is not None:
        del t[key]
    return key


def goes_on_with_a_generator(t, x):
    seen = 0
    for key in (key for key in t):
        seen += 1
        if x > 1 and key == "b":
            t["new"] = 4
    return seen


def backwards(t, x):
    for key, value in reversed(t.items()):
        if value < x:
            del t[key]
            break
    return x


def keys_backwards(t, x):
    for key in reversed(t):
        if t[key] < x:
            t["new"] = 1
            break
    return x


def of_itertools(t, x):
    for key in itertools.chain(t, ["none"]):
        if key in t and t[key] < x:
            t[key + "_"] = t.pop(key)
            break
    for key, value in itertools.islice(t.items(), 2):
        if key == "b" and value < x - 1:
            del t[key]
            break
    return x


def asked_after_its_end(t, x):
    counted = enumerate(t)
    seen = [number for number, _ in counted]
    if x > 1:
        t["new"] = 4
    return seen, next(counted, None)


def caught(t, x):
    try:
        for number, key in enumerate(t):
            if x > number:
                t.pop(key)
    except RuntimeError as error:
        return str(error)
    return "none"


OF_DICTS = [
    numbered_items, numbered_keys, goes_on, goes_on_beside_a_range, beside_weights, sees_what_is_written, of_map, of_a_generator,
    first_of_a_generator, goes_on_with_a_generator, backwards, keys_backwards, of_itertools, asked_after_its_end, caught,
]  # fmt: skip


def check(function: Any, make: Any) -> None:
    def world():
        held = make()
        return World(lambda x: function(held, x), [held], [lambda f, x=x: f(x) for x in VALUES])

    agree(world)


@pytest.mark.parametrize("function", OF_DICTS)
def test_dicts(function):
    check(function, lambda: {"a": torch.tensor(0.0), "b": torch.tensor(1.0), "c": torch.tensor(2.0)})


@pytest.mark.parametrize("function", [numbered_items, goes_on, of_a_generator, keys_backwards])
def test_ordered_dicts(function):
    check(function, lambda: collections.OrderedDict(a=torch.tensor(0.0), b=torch.tensor(1.0)))


def adds_a_member(s, x):
    for number, member in enumerate(s):
        if x > member:
            s.add(number + 10)
            break
    return x


def adds_members(s, x):
    for number, _ in enumerate(s):
        if x > 1:
            s.add(number + 10)
    return x


@pytest.mark.parametrize("function", [adds_a_member, adds_members])
def test_sets(function):
    check(function, lambda: {0, 1, 2})


def appends_and_leaves(d, x):
    for number, item in enumerate(d):
        if x > item:
            d.append(number)
            break
    return x


def appends_and_goes_on(d, x):
    for number, _ in enumerate(d):
        if x > 1:
            d.append(number)
    return x


@pytest.mark.parametrize("function", [appends_and_leaves, appends_and_goes_on])
def test_deques(function):
    check(function, lambda: collections.deque([2, 1, 0]))
