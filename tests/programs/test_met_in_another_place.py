"""A tensor in two attributes, met first where a branch may have put another object, before an operation that may not be repeated."""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any

import pytest
import torch

from tests.worlds import World, agree


@dataclasses.dataclass
class Box:
    value: Any


class Owner:
    def __init__(self, box: Any) -> None:
        self.total, self.weight, self.box = torch.zeros(1), torch.ones(1, requires_grad=True), box


def of_an_object(owner, x):
    if x.max() > 1:
        owner.box = Box(x)
    random.random()
    owner.total = owner.total + owner.weight
    owner.box.value = owner.total


def of_what_is_in_a_list(owner, x):
    if x.max() > 1:
        owner.box = Box([x, x])
    print(x.sum().item())
    owner.total = owner.total + owner.weight
    owner.box.value[0] = owner.total
    owner.box.value[1] = owner.total + 1


def of_one_that_raises(owner, x):
    if x.max() > 1:
        owner.box = Box(x)
    drawn = random.random()
    owner.total = owner.total + owner.weight
    if drawn > 0.7:
        raise ValueError("drawn")
    owner.box.value = owner.total


@pytest.mark.parametrize("function", [of_an_object, of_what_is_in_a_list, of_one_that_raises])
def test_it_is_read_at_each_call(function):
    def world():
        owner = Owner(Box([torch.ones(1), torch.ones(1)] if function is of_what_is_in_a_list else torch.ones(1)))

        def call(run, number, value):
            random.seed(number)
            return run(owner, torch.tensor([value]))

        values = (0.8, -0.1, -0.5, -2.0, 2.0, 0.3)
        return World(function, [owner], [functools.partial(call, number=n, value=v) for n, v in enumerate(values)])

    agree(world)
