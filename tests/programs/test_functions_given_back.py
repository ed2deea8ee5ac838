"""Functions that a static function makes and gives back: what their variables hold may be known only when the program runs."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.programs.state import agree_with_state
from tests.worlds import World, agree


class Box:
    """An object of the user's."""


def counter(n):
    count = 0

    def step():
        nonlocal count
        count += 1
        return count + n

    if n > 1:
        step()
    return step, count


def attribute(n):
    box = Box()
    box.level = n
    if n > 1:
        box.more = n * 2
    return (lambda: box), box


def own_attribute(n):
    box = Box()
    box.get = lambda: (box, n)
    if n > 1:
        box.more = n * 2
    return box


def key(n):
    table = {"a": 1}
    if n > 0:
        table["b"] = n
    return (lambda: table), table


def text(n):
    shown = f"{n}!"
    box = Box()
    box.shown = shown + "?"
    return (lambda: (shown, box)), box


def growing(n):
    items = []
    for k in range(int(n)):
        items.append(n * k)
    return (lambda: items), items


def members(n):
    seen, last = {1}, collections.deque([1], maxlen=2)
    if n > 0:
        seen.add("b")
        last.append(n)
    return (lambda: (seen, last)), seen


def caught(n):
    try:
        if n > 0:
            raise ValueError(f"not {n}")
        said = None
    except ValueError as error:
        said = str(error)
    return lambda: said


def told(value):
    """What a result holds, and what the functions in it give now and after that."""
    if isinstance(value, tuple):
        return [told(part) for part in value]
    if callable(value):
        return value(), value()
    if isinstance(value, Box) and hasattr(value, "get"):
        return value.get()[0] is value, value.get()[1], [*vars(value)]
    return value


@pytest.mark.parametrize("function", [counter, attribute, own_attribute, key, text, growing, members, caught])
def test_what_their_variables_hold(function):
    agree(lambda: World(function, [], [lambda f, n=n: told(f(torch.tensor(n))) for n in (2, 0, 1, 3)]))


def test_variables_with_equal_contents():
    def make():
        total = 0

        def f(n):
            count = 0

            def step():
                nonlocal count, total
                count, total = count + 1, total + 1
                return count, total

            if n > 0:
                step()
            return step

        return f, lambda: total, [torch.tensor(n) for n in (2, 0, 1, 3)]

    agree_with_state(make)
