"""Lists from outside in lists whose length a tensor decides: each stays the object that it is."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch

from tests.worlds import World, agree, calls, registry

P, N = torch.ones(2), -torch.ones(2)
WORLDS, world = registry()
Row = collections.namedtuple("Row", "name values")


class Box:
    """An object of the user's."""


@dataclasses.dataclass
class Episode:
    steps: list
    done: bool = False


def boxed(items, *more):
    """A box with a list of lists, and all that the user holds."""
    box = Box()
    box.items = items
    return box, [box, *more]


@world
def appended_where_a_tensor_decides():
    row = [torch.zeros(2)]
    box, roots = boxed([row], row)

    def f(x):
        if x.sum() > 0:
            box.items.append([x])
        return len(box.items)

    return World(f, roots, calls(N, P, N, P))


@world
def the_row_of_this_call_joins_those_of_earlier_ones():
    box, roots = boxed([])

    def f(x):
        box.row = [x]
        if x.sum() > 0:
            box.items.append(box.row)
        return len(box.items)

    return World(f, roots, [lambda f: (f(P), roots.append(box.row)), lambda f: f(N), lambda f: f(P), lambda f: f(P)])


@world
def popped():
    rows = [[1], [2.5], [torch.zeros(2)]]
    box, roots = boxed([*rows], rows)

    def f(x):
        while box.items and x.sum() > 0:
            x = x - 1
            box.items.pop(0)
        return len(box.items)

    return World(f, roots, calls(N, P, 2 * P))


@world
def popped_and_changed():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([*rows], rows)

    def f(x):
        if x.sum() > 0:
            box.last = box.items.pop()
            box.last.append(x)
        else:
            box.items[0].append(x)
        return box.items

    return World(f, roots, calls(N, P))


@world
def inserted_and_added():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([*rows], rows)

    def f(x):
        if x.sum() > 0:
            box.items.insert(0, [x])
        else:
            box.items += [[x], rows[0]]
        return box.items[0]

    return World(f, roots, calls(N, P, N))


@world
def in_tuples():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([(rows[0], 1), (rows[1], 2)], rows)

    def f(x):
        if x.sum() > 0:
            box.items.append(([x], 3))
        return len(box.items)

    return World(f, roots, calls(N, P, N))


@world
def in_named_tuples():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([Row("a", rows[0]), Row("b", rows[1])], rows)

    def f(x):
        while box.items and x.sum() > 0:
            box.items.pop(0)
            x = x - 1
        return [row.values for row in box.items]

    return World(f, roots, calls(N, P, P))


@world
def three_deep():
    inner = [torch.zeros(2)]
    middle = [inner]
    box, roots = boxed([middle], inner, middle)

    def f(x):
        if x.sum() > 0:
            box.items.append([[x]])
        return len(box.items)

    return World(f, roots, calls(N, P, N))


@world
def one_row_twice_and_in_two_lists():
    row = [torch.zeros(2)]
    box, roots = boxed([row, row], row)
    box.others = [row]

    def f(x):
        if x.sum() > 0:
            box.items.append(row)
            box.others.append([x])
        row.append(x)
        return box.others

    return World(f, roots, calls(N, P, N))


@world
def rows_are_arguments():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([], rows)

    def f(x, row):
        if x.sum() > 0:
            box.items.append(row)
        return row

    return World(f, roots, [lambda f: f(N, rows[0]), lambda f: f(P, rows[0]), lambda f: f(P, rows[1]), lambda f: f(N, rows[1])])


@world
def the_list_is_an_argument():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    items = [*rows]

    def f(x, items):
        if x.sum() > 0:
            items.append([x])
        return items[0]

    return World(f, [rows, items], [lambda f: f(N, items), lambda f: f(P, items), lambda f: f(N, items)])


@world
def a_new_list_holds_rows():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed(rows)

    def f(x):
        kept = []
        for row in box.items:
            if row[0].sum() < x.sum():
                kept.append(row)
        box.kept = kept
        return kept[:1]

    return World(f, roots, calls(N, P, 2 * P))


@world
def a_row_is_chosen_by_a_tensor():
    rows = [[torch.zeros(2)], [torch.ones(2)]]
    box, roots = boxed([*rows], rows)

    def f(x):
        if x.sum() > 0:
            box.items.append([x])
        box.best = box.items[(x[0] > 1).long()]
        return box.best

    return World(f, roots, calls(N, P, 2 * P))


@world
def in_a_dict_that_is_put_in():
    rows = [[torch.zeros(2)]]
    box, roots = boxed([], rows)

    def f(x):
        kept = []
        while x.sum() > 0:
            kept.append({"rows": rows[0], "x": x})
            x = x - 1
        return kept

    return World(f, roots, calls(N, P, 2 * P))


@world
def in_a_dataclass_that_is_put_in():
    rows = [[torch.zeros(2)]]
    box, roots = boxed([], rows)

    def f(x):
        kept = []
        while x.sum() > 0:
            kept.append(Episode(rows[0]))
            x = x - 1
        return kept

    return World(f, roots, calls(N, P, 2 * P))


@world
def left_by_an_exception():
    row = [torch.zeros(2)]
    box, roots = boxed([row], row)

    def f(x):
        while x.sum() > 0:
            box.items.append([x])
            x = x - 1
        if x.sum() < -3:
            raise ValueError("too small")
        return len(box.items)

    return World(f, roots, calls(N, P, 0.2 * P, -2 * P, 2 * P))


@pytest.mark.parametrize("make", WORLDS)
def test_lists_from_outside_stay_the_same_objects(make):
    agree(make)
