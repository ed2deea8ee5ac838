"""Displays with starred parts that are taken apart at once, and items of what is empty."""

from __future__ import annotations

import contextlib

import pytest
import torch

from tests.oracle import agree

VALUES = [(torch.tensor(pair),) for pair in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [-1.0, -2.0])]


def grown(x):
    found = []
    for value in x:
        if value > 0:
            found.append(value)
    return found


def taken_apart(s, x):
    first, *rest = [x, *s]
    return first + len(rest), rest


def of_a_tuple(s, x):
    *rest, last = *s, x
    return rest, last


def in_a_branch(s, x):
    total = x
    if x.sum() > 1:
        first, *rest, last = [x, *s, x + 1]
        total = total + len(rest) + first + last
        for value in rest:
            total = total + value
    return total


def as_many(s, x):
    try:
        one, two = [x, *s]
    except ValueError as error:
        return str(error), x
    return one, two


@pytest.mark.parametrize("use", [taken_apart, of_a_tuple, in_a_branch, as_many])
def test_they_see_what_there_is(use):
    agree(lambda x: use(grown(x), x), VALUES)


def test_items_of_what_is_empty():
    def function(x):
        empty, total = [], x
        with contextlib.suppress(LookupError):
            total = total + empty[int(x[0])]
        try:
            total = total + ()[int(x[1])]
        except IndexError as error:
            return total, str(error), empty[int(x[0]) :], ""[: int(x[1])], ()[int(x[0]) :]
        return total

    agree(function, VALUES)


def test_an_item_of_an_empty_list_raises():
    agree(lambda x: [][int(x[0])], VALUES, programs=None)
