"""What takes the items of an iterator one by one: code on the way to an item may raise, and what was taken by then is there."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.oracle import agree

CALLS = [torch.tensor(n) for n in (9, 0, 1, 3, 2)]


def stopping(n):
    for i in range(4):
        if i == n:
            raise ValueError("stop")
        yield i


class Stopping:
    def __init__(self, n):
        self.n, self.i = n, -1

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i == self.n:
            raise ValueError("stop")
        if self.i > 3:
            raise StopIteration
        return self.i


def extends(d, items):
    d["list"].extend(items)


def adds(d, items):
    d["list"] += items


def extends_by_pairs(d, items):
    d["list"].extend(zip(items, "abcd"))


def extends_a_deque(d, items):
    d["deque"].extend(items)


def extends_a_deque_at_the_left(d, items):
    d["deque"].extendleft(items)


def updates(d, items):
    d["dict"].update((item, -item) for item in items)


def merges(d, items):
    d["dict"] |= zip(items, "abcd")


def counts(d, items):
    d["counter"].update(items)


def makes_a_dict(d, items):
    d["dict"] = dict((item, 1) for item in items)


USES = [extends, adds, extends_by_pairs, extends_a_deque, extends_a_deque_at_the_left, updates, merges, counts, makes_a_dict]


@pytest.mark.parametrize("items", [stopping, Stopping], ids=["generator", "class"])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_what_was_taken_before_an_exception_is_there(use, items):
    def f(t):
        d = {"list": [7], "deque": collections.deque([7], 3), "dict": {2: 0}, "counter": collections.Counter([2])}
        try:
            use(d, items(int(t)))
        except ValueError as error:
            return d["list"], list(d["deque"]), list(d["dict"].items()), list(d["counter"].items()), str(error)
        return d["list"], list(d["deque"]), list(d["dict"].items()), list(d["counter"].items())

    agree(f, CALLS)


def test_the_position_of_a_value_between_two_others():
    def f(t):
        items = t.tolist()
        try:
            return items.index(3, 1), items.index(int(t[0]), -2), items.index(2, 0, int(t[1]) + 2)
        except ValueError as error:
            return str(error)

    agree(f, [torch.tensor(row) for row in ([3, 1, 3, 2], [1, 2, 3, 1], [2, 3, 2, 9], [2, 2, 3, 2])])
