"""Sets of the keys of one of two dicts, of which a tensor decides the keys as well."""

from __future__ import annotations

import pytest
import torch

from tests.worlds import World, agree


def of_several_keys(held, x):
    for number, key in enumerate("bc"):
        if x > number:
            held["d"][key] = number
    if x > 2:
        held["d"] = {"a": 1, "z": 2}
    return sorted(held["d"].keys() - {"a": 1})


def of_few_keys(held, x):
    if x > 1:
        held["d"].pop("a", None)
    elif x > 0:
        held["d"] = {"z": x}
    return sorted(held["d"].keys() ^ {"a": 1}), held["d"].keys() >= {"a"}


@pytest.mark.parametrize("function", [of_several_keys, of_few_keys])
def test_sets_of_keys(function):
    def world():
        held = {"d": {"a": 0, "b": 1}}
        return World(lambda x: function(held, x), [held], [lambda f, x=x: f(torch.tensor(x)) for x in (-1.0, 0.5, 1.5, 3.0, 4.5)])

    agree(world)
