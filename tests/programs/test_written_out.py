"""Functions of libraries that call the user's: a tensor may decide what they give."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils import _pytree as pytree

from dy2st import to_static

INPUTS = [(1.0, 2.0, 3.0), (-1.0, -2.0, 3.0), (0.0, 0.0, 0.0), (5.0, -5.0, 1.0)]
FUNCTIONS = {
    "takewhile": lambda x: list(itertools.takewhile(lambda v: v > 0, x)),
    "takewhile in a loop": lambda x: sum(v * 2 for v in itertools.takewhile(lambda v: v > x.mean(), x)),
    "takewhile of numbers": lambda x: list(itertools.takewhile(lambda n: n < 3, itertools.count())) + [x],
    "dropwhile": lambda x: list(itertools.dropwhile(lambda v: v > 0, x)),
    "filterfalse": lambda x: list(itertools.filterfalse(lambda v: v > 0, x)),
    "filterfalse of values": lambda x: [v for v in itertools.filterfalse(None, x)],
    "compress": lambda x: list(itertools.compress(x, x > 0)),
    "tree_map": lambda x: pytree.tree_map(lambda a: a * 2 if a.sum() > 0 else a, {"a": x, "b": [x - 1, (x,)]}),
    "tree_map of two": lambda x: pytree.tree_map(lambda a, b: a if a.sum() > 0 else b, [x, (x,)], [x + 1, (x + 2,)]),
    "tree_map_only": lambda x: pytree.tree_map_only(torch.Tensor, lambda a: -a if a.sum() > 0 else a, {"a": x, "b": 1}),
    "tree_map_only where": lambda x: pytree.tree_map_only(lambda a: a.sum() > 0, lambda a: -a, [x, x - 9]),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_library_functions_with_callbacks_agree_with_eager(function):
    static = to_static(function)
    for values in INPUTS:
        x = torch.tensor(values)
        torch.testing.assert_close(static(x), function(x), rtol=0, atol=0)
