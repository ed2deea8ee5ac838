"""Items of lists that iterations replace, and objects from before a loop in what its iterations make: which objects are one."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree as same_result
from tests.worlds import World, agree

P, N = torch.ones(2), -torch.ones(2)
WAYS = [(x, torch.tensor(n)) for n in (2, 0, 1, 3) for x in (P, N)]


class Box:
    """An object of the user's."""

    def __init__(self, h, parts=None):
        self.h = h
        self.parts = parts


def state(body, shared=False):
    """A world whose object holds two lists of lists, which may share their first one."""
    box = Box([[torch.zeros(2)], [torch.ones(2)]], [[torch.zeros(2)], 1])
    box.first, box.node = box.parts[0], Box(torch.ones(2), Box(torch.zeros(2)))
    if shared:
        box.h[0] = box.parts[0]

    def program(x, n):
        return body(box, x, n)

    return World(program, [box], [lambda function, way=way: function(*way) for way in WAYS])


def _item(box, x, n):
    while n > 0:
        n = n - 1
        box.h[0] = [x * 2]
    return box.h[0] is box.parts[0], box.h


def _another_item(box, x, n):
    while n > 0:
        n = n - 1
        box.parts[1] = box.parts[1] + 1
    return box.parts[0] is box.first


def _item_and_what_it_held(box, x, n):
    while n > 0:
        n = n - 1
        box.h[0] = [x * 2]
        box.parts[0][0] = x + 1
    return box.parts


def _replaced_or_written(box, x, n):
    while n > 0:
        n = n - 1
        if x.sum() > 0:
            box.h[0] = [x * 2]
        else:
            box.h[0][0] = x * 3
    return x


def _moved_up(box, x, n):
    while n > 0:
        n = n - 1
        box.h[0], box.h[1] = [x * 2], box.h[0]
    return box.h[1] is box.first, box.h[0] is box.first


def _moved_over(box, x, n):
    while n > 0:
        n = n - 1
        box.parts[0] = box.h[0]
        box.h[0] = [x * 2]
    return box.parts[0] is box.h[0]


def _made_before(box, x, n):
    held = [[x], [x + 1]]
    first, second = held
    while n > 0:
        n = n - 1
        held[0] = [x * 2]
    first[0] = x * 7
    return held, held[0] is first, held[1] is second


def _older_object_in_new_one(box, x, n):
    inner = Box(x)
    while n > 0:
        n = n - 1
        box.node = Box(x * 0, inner)
    inner.h = x * 7
    return inner


def _older_list_in_new_one(box, x, n):
    inner, outer = [x], [[x]]
    while n > 0:
        n = n - 1
        outer = [inner]
    inner[0] = x * 7
    box.h = outer
    return inner, outer


def _older_object_behind_a_break(box, x, n):
    inner = Box(x)
    for _ in range(2):
        if x.sum() > 0:
            box.node = Box(x * 0, inner)
        if x[0] > n:
            break
    return inner


def _on_one_way_of_two(box, x, n):
    if x.sum() < 5:
        if n > 1:
            box.h = [[x * 1]]
        while n > 0:
            n = n - 1
            box.h = [box.parts[0]]
    return box.h


BODIES = [
    value for name, value in sorted(globals().items()) if name.startswith("_") and getattr(value, "__module__", "") == __name__
]


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__[1:])
def test_objects_in_items_are_those_of_eager(body, shared, backend):
    agree(lambda: state(body, shared), backends=(backend,))


def test_which_item_is_which_of_a_list_on_one_way_only():
    def f(x, y, n):
        b = []
        while n > 0:
            n = n - 1
            b.append([y])
        if x.sum() > 0:
            b.append([x])
        else:
            b = [[x], [y]]
        return b[0] is b[0], b[0] is b[-1], b[0] is b[1] if len(b) > 1 else None

    same_result(f, [(x, N, torch.tensor(n)) for n in (1, 0, 3) for x in (P, -P)])


def put_in(value, n):
    values = []
    while n > 0:
        n = n - 1
        values.append(value)
    return values


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize(
    "values",
    [
        [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)],
        [lambda x: x, lambda x: x + 1],
        [torch.relu, torch.tanh],
        [torch.float32, torch.float64],
        [int, float],
        [P.add],
    ],
    ids=["module", "function", "function_of_torch", "dtype", "class", "bound_method"],
)
def test_an_object_in_a_list_of_any_length_is_that_of_the_call(values, backend):
    static = dy2st.to_static(put_in, backend=backend)
    for value in (*values, *values):
        for n in (2, 0, 3):
            results = static(value, torch.tensor(n))
            assert len(results) == n and all(one is value for one in results)
