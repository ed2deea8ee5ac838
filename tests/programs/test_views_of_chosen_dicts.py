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


def numbered(held, x):
    rows = held["d"]
    rows[f"row{int(x) % 2}"] = [x]
    for number, row in enumerate(rows.values()):
        if x > 1 and isinstance(row, list):
            row.append(x + number)
    return [(place, key) for place, key in zip(range(10), rows.keys())], {key: row for key, row in zip(rows, range(3))}


def test_numbered_values_of_a_dict_that_may_lack_some():
    def world():
        held = {"d": {"a": 0}}
        return World(lambda x: numbered(held, x), [held], [lambda f, x=x: f(torch.tensor(x)) for x in (0.5, 1.5, 2.0, 3.0)])

    agree(world)
