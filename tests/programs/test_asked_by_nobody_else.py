"""Methods with which a class of the user's follows reads: they run where the code reads, and never where a program is looked up."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from tests.programs.state import agree_with_state


class Counted:
    def __init__(self):
        self.reads, self.level = 0, 1

    def __getattribute__(self, name):
        if name == "level":
            object.__setattr__(self, "reads", object.__getattribute__(self, "reads") + 1)
        return object.__getattribute__(self, name)


class CountedModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.reads, self.level, self.scale = 0, 1, torch.nn.Parameter(torch.tensor(2.0))

    def __getattribute__(self, name):
        if name in ("level", "scale"):
            self.__dict__["reads"] += 1
        return super().__getattribute__(name)


class Fallback:
    def __init__(self):
        self.level, self.asked = 1, []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked.append(name)
        return 7


class Items(list):
    steps = 0

    def __iter__(self):
        self.steps += 1
        return super().__iter__()

    def __len__(self):
        self.sizes = getattr(self, "sizes", 0) + 1
        return super().__len__()

    def __getitem__(self, key):
        self.steps += 10
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self.steps += 100
        super().__setitem__(key, value)


class Window(deque):
    steps = 0

    def __iter__(self):
        self.steps += 1
        return super().__iter__()

    def __len__(self):
        self.steps += 10
        return super().__len__()

    def __getitem__(self, key):
        self.steps += 100
        return super().__getitem__(key)


class Made(list):
    made = 0

    def __init__(self, *items):
        Made.made += 1
        super().__init__(items)


def numbers():
    return [torch.tensor(number) for number in (2, 0, 1, 3, -1, 2)]


def of_object(kind):
    def make():
        box = kind()

        def f(n):
            if n > 1:
                return n * box.level
            box.level = box.level + 1
            return n

        return f, lambda: object.__getattribute__(box, "__dict__"), numbers()

    return make


@pytest.mark.parametrize("kind", [Counted, CountedModule, Fallback])
def test_attributes(kind):
    agree_with_state(of_object(kind))


def test_an_attribute_that_is_gone_at_a_later_call():
    def make():
        box = Fallback()

        def f(n):
            return n * box.level

        def state():
            value = dict(vars(box))
            if len(box.asked) == 0:
                vars(box).pop("level", None)
            return value

        return f, state, numbers()

    agree_with_state(make)


@pytest.mark.parametrize("kind", [Items, Window])
def test_items(kind):
    def make():
        items = kind([1, 2, 3])

        def f(n):
            if n > 1:
                items[0] = n
            total = items[1]
            for item in items:
                total = total + item
            return total, len(items)

        return f, lambda: vars(items), numbers()

    agree_with_state(make)


def test_nothing_is_made_to_choose_an_item():
    def make():
        Made.made = 0
        items = Made(1, 2, 3)

        def f(n):
            if n > 1:
                items[0] = "first"
            return items.count(3), [*items], items == [1, 2, 3], len(items)

        return f, lambda: Made.made, numbers()

    agree_with_state(make)
