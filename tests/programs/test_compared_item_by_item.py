"""Containers are compared until two items differ: what comes after them is not compared, and cannot raise or do anything."""

from __future__ import annotations

import collections
import dataclasses
import typing

import pytest
import torch

from tests.oracle import agree


@dataclasses.dataclass
class Pair:
    first: typing.Any
    second: typing.Any


class Named(typing.NamedTuple):
    first: typing.Any
    second: typing.Any


class Items(list):
    def __init__(self, *items):
        super().__init__(items)


def keyed(first, second):
    return {"first": first, "second": second}


MAKERS = [lambda *items: items, lambda *items: [*items], Pair, Named, Items, keyed, lambda *items: (1, items)]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("number", [torch.tensor, int])
def test_an_item_that_cannot_be_compared(make, number):
    rows = torch.ones(3)

    def f(n):
        pair = make(number(n) if number is int else n, rows)
        return pair == make(1, 2), pair != make(2, 2)

    agree(f, [(torch.tensor(0),), (torch.tensor(3),), (torch.tensor(1),)])


def test_a_kind_that_a_tensor_decides():
    def f(n, x):
        pair = (1 if n > 0 else "none", x)
        return pair == ("none" if n > 0 else 1, 2), pair == (1, 1)

    agree(f, [(torch.tensor(0), torch.ones(3)), (torch.tensor(2), torch.ones(3))])


def test_what_compares_does_something():
    class Loud:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            asked.append(self.value)
            return self.value == other.value

        __hash__ = None

    asked: list = []

    def f(n):
        asked.clear()
        same = [n, Loud(n), Loud(2)] == [1, Loud(1), Loud(3)]
        return same, list(asked)

    agree(f, [(torch.tensor(0),), (torch.tensor(1),)], programs=None)


def test_a_key_that_is_not_there():
    def f(n, x):
        return {"a": n, "b": x} == {"a": 1, "c": x}, {"a": n, "b": 1} == collections.OrderedDict(b=1, a=2)

    agree(f, [(torch.tensor(0), torch.ones(3)), (torch.tensor(1), torch.ones(3)), (torch.tensor(2), torch.ones(3))])


def test_the_order_of_ordered_dicts():
    def f(n):
        one, other = collections.OrderedDict(a=n, b=1), collections.OrderedDict(b=1, a=2)
        return one == other, one == dict(other), dict(one) == other, collections.defaultdict(int, a=n) == {"a": 2}

    agree(f, [(torch.tensor(0),), (torch.tensor(2),)])
