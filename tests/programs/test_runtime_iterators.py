"""Iterators over what has a length that only the program knows: each goes on where it stopped."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree

CALLS = [
    torch.tensor(values)
    for values in ([2.0, 0.5, -0.5, -2.0], [2.0, 2.0, 2.0, 2.0], [-1.0, -1.0, -1.0, -1.0], [-2.0, 0.5, -1.0, 1.5])
]


def positive(x):
    found = []
    for i in range(4):
        if x[i] > 0:
            found.append(i)
    return found


def first_and_rest(x):
    one, other = iter([*positive(x), 7, 8]), enumerate([*positive(x), 7])
    return next(one), next(one), list(one), next(other), list(other), list(other)


def backwards(x):
    numbers, doubled = reversed([*positive(x), 7, 8]), map(lambda v: v * 2, [*positive(x), 1, 2])
    return next(numbers), sum(numbers), next(doubled), next(doubled), list(doubled)


def pairs(x):
    given = zip([*positive(x), 1, 2], "abcdef")
    for number, letter in given:
        if number > 0:
            break
    return number, letter, list(given)


def in_branches(x):
    numbers = iter([*positive(x), 7, 8, 9])
    if x[0] > 0:
        next(numbers)
    if x[1] > 0:
        next(numbers, None)
    return list(numbers), next(numbers, "end")


def in_loops(x):
    numbers, total = iter([*positive(x), 1, 2, 3, 4, 5]), 0
    while total < 3:
        total = total + next(numbers)
    for v in numbers:
        for w in numbers:
            total += v * w
            break
    return total, list(numbers)


def side_by_side(x):
    numbers = iter([*positive(x), 7, 8, 9, 10])
    first = list(zip(range(2), numbers))
    others = iter([*positive(x), 1, 2])
    return first, list(numbers), list(zip(others, range(2))), list(others)


def from_one(x):
    numbers = iter([*positive(x), 7, 8, 9, 10])
    counted = enumerate(numbers)
    return next(counted), next(numbers), next(counted), list(zip(numbers, numbers)), list(numbers)


def both_end(x):
    one, other = iter([*positive(x), 7]), iter([*positive(-x), 5, 6])
    found = []
    for i, (p, q) in enumerate(zip(one, other)):
        if i > 2:
            break
        found.append(p + q)
    return found, list(one), list(other)


def strictly(x):
    try:
        return list(zip(iter(positive(x)), positive(-x), strict=True))
    except ValueError as error:
        return str(error)


def until_it_ends(x):
    numbers, found = iter(positive(x)), []
    while True:
        try:
            found.append(next(numbers))
        except StopIteration:
            break
    return found


def grown_after_the_end(x):
    items = positive(x)
    numbers = iter(items)
    first = list(numbers)
    items.append(3)
    return first, list(numbers), next(numbers, None)


def chosen(x):
    given = {"a": iter([*positive(x), 1]), "b": iter([*positive(x), 2])}
    return next(given["a" if x[0] > 0 else "b"]), list(given["a"]), list(given["b"])


@pytest.mark.parametrize(
    "function",
    [first_and_rest, backwards, pairs, in_branches, in_loops, until_it_ends, grown_after_the_end, chosen, side_by_side, from_one,
     both_end, strictly],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_an_iterator_goes_on_where_it_stopped(function):
    agree(function, [(x,) for x in CALLS])
