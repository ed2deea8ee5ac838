"""What counts as true where a tensor decides what is in it."""

from __future__ import annotations

import collections

import pytest

from tests.oracle import agree
from tests.programs.values import signs


class Upside(dict):
    """Counts as true when it is empty."""

    def __bool__(self):
        return not len(self)


class Longer(dict):
    def __len__(self):
        return super().__len__() + 5


def filled(x, table):
    if x.sum() > 0:
        table["a"] = x
    return table


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.Counter, Upside, Longer])
def test_a_dict_is_true_as_its_class_says(kind):
    def f(x):
        d = filled(x, kind())
        taken = 1 if d else 2
        if not d:
            return taken, bool(d), len(d)
        return taken, bool(d), (d and 3), (d or 4) is d

    agree(f, signs())


def test_as_the_condition_of_a_loop():
    def f(x):
        d, taken = filled(x, {}), []
        while d:
            taken.append(d.popitem()[1])
        return taken, len(d)

    agree(f, signs())


def test_the_truth_of_a_dict_combines_with_other_conditions():
    def f(x):
        d, e = filled(x, {}), {}
        assert d or x[0] <= 0, "empty"
        if not d and not e:
            return 1
        return (d and e) is e, any([e, d]), all((d, {1: 2})), [v for v in (1, 2) if d]

    agree(f, signs())


def test_sets_tuples_and_views_have_the_truth_of_eager():
    def f(x):
        held, gone, box = set(), {"a": 1}, filled(x, {})
        if x.sum() > 0:
            held.add(1)
            gone.pop("a")
        return [1 if v else 0 for v in (held, gone, box, tuple(gone), frozenset(held))], not box.keys(), not box.items()

    agree(f, signs())
