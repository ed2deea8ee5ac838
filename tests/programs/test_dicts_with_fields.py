"""Dicts that are dataclasses at once, as the outputs of models are: made in loops and branches, with items beside their fields."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest
import torch

from tests.worlds import World, agree

X = torch.tensor([1.0, -2.0, 3.0])


@dataclasses.dataclass
class Out(collections.OrderedDict):
    """Has its fields as items, too."""

    loss: Any = None
    logits: Any = None
    cache: Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclasses.dataclass
class Apart(dict):
    """Has other items than fields."""

    a: Any = None
    b: Any = None


def made_in_each_iteration(x, n):
    out = Out(logits=x)
    while n > 0:
        out = Out(logits=out.logits * 2 + 1)
        n = n - 1
    return out, list(out)


def made_from_the_second_iteration_on(x, n):
    out, again = Out(logits=x), False
    while n > 0:
        if again:
            out = Out(logits=out.logits * 2, loss=x.sum())
        again = True
        x = x + out.logits[:1]
        n = n - 1
    return x, list(out.items())


def items_in_another_order(x, n):
    out = Out(logits=x)
    out["loss"] = x.sum()
    while n > 0:
        new = Out(logits=out.logits * 2 + 1)
        new["loss"] = x.sum() * 2 + out["loss"]
        out = new
        n = n - 1
    return out.loss, list(out.items())


def an_item_that_is_no_field(x, n):
    out = Out(logits=x)
    out["more"] = x + 1
    while n > 0:
        new = Out(logits=out.logits + out.more)
        new["more"] = out["more"] * 2
        out = new
        n = n - 1
    return out.more, len(out), list(out.items())


def a_field_set_in_a_branch(x, n):
    out = Out(logits=x)
    out["extra"] = x * 2
    if n > 1:
        out.loss = x.sum()
    return out, out.loss


def fields_that_are_no_items(x, n):
    out = Apart(a=x)
    while n > 0:
        out = Apart(a=out.a + 1, b=x)
        n = n - 1
    return out, out.a, len(out), list(out.items())


def items_under_the_names_of_fields(x, n):
    out = Apart(a=x)
    out["a"] = x * 5
    while n > 0:
        new = Apart(a=out.a + 1)
        new["a"] = out["a"] + out.a
        out = new
        n = n - 1
    return out.a, list(out.items())


@pytest.mark.parametrize(
    "f",
    [
        made_in_each_iteration, made_from_the_second_iteration_on, items_in_another_order, an_item_that_is_no_field,
        a_field_set_in_a_branch, fields_that_are_no_items, items_under_the_names_of_fields,
    ],
)  # fmt: skip
def test_dicts_that_are_dataclasses(f: Any) -> None:
    def make() -> World:
        counts = [torch.tensor(count) for count in (1, 0, 3, 2)]
        return World(f, [], [lambda g, n=n: [(type(v), vars(v)) if isinstance(v, dict) else v for v in g(X, n)] for n in counts])

    agree(make, programs=1)
