"""Attributes of which the user's code says, where a tensor decides, that there are none."""

from __future__ import annotations

import typing

import torch

from tests.programs.state import agree_with_state


class Open:
    """Has what is in its table."""

    def __init__(self):
        self.table, self.asked = {}, []

    def __getattr__(self, name):
        if name in ("table", "asked"):
            raise AttributeError(name)
        if name in self.table:
            return self.table[name]
        self.asked.append(name)
        raise AttributeError(name)


class Half:
    """Has a property only while something is positive."""

    level = torch.tensor(0.0)

    @property
    def height(self):
        if self.level > 0:
            return self.level
        raise AttributeError("no height")


class Whole(Half):
    def __getattr__(self, name):
        return f"instead of {name}"


class Followed:
    def __init__(self):
        self.level = torch.tensor(0.0)

    def __getattribute__(self, name):
        if name == "height" and object.__getattribute__(self, "level") > 0:
            return 1
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        return f"instead of {name}"


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.level = torch.tensor(0.0)

    height = Half.height


@typing.runtime_checkable
class High(typing.Protocol):
    height: typing.Any


def signs():
    return [torch.tensor([-1.0, 0.5]), torch.tensor([1.0, 2.0]), torch.tensor([-2.0, 1.0])]


def asking(kind, use):
    def make():
        box = kind()

        def f(x):
            box.level = x.sum()
            return use(box)

        return f, lambda: vars(box), signs()

    return make


def test_tables_of_the_users():
    def make():
        box = Open()

        def f(x):
            if x.sum() > 0:
                box.table["z"] = x
            else:
                box.table.pop("z", None)
            return hasattr(box, "z"), getattr(box, "z", None), len(box.asked)

        return f, lambda: (box.table, box.asked), signs()

    agree_with_state(make)


def caught(box):
    try:
        return box.height
    except AttributeError as error:
        return str(error)


def test_a_property_that_raises_attribute_error_counts_as_absent():
    agree_with_state(asking(Half, lambda box: (getattr(box, "height", None), hasattr(box, "height"))))


def test_a_property_that_fails_gives_way_to_the_fallback():
    agree_with_state(asking(Whole, lambda box: (box.height, getattr(box, "height", None), hasattr(box, "height"))))


def test_own_ways_give_way_to_the_fallback():
    agree_with_state(asking(Followed, lambda box: (box.height, getattr(box, "other", None))))


def test_a_property_of_a_module_that_raises_counts_as_absent():
    agree_with_state(asking(Module, lambda box: (getattr(box, "height", 3), caught(box))))
