"""``itertools`` and ``functools.reduce`` over lists that a tensor makes longer, and over dicts in which it decides the keys."""

from __future__ import annotations

import functools
import itertools
import operator

import pytest
import torch

import dy2st
from tests.oracle import agree

VALUES = [(torch.tensor(pair),) for pair in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [-1.0, -2.0])]


def keys(x):
    table = {"a": 1, "b": 2}
    if x[0] > 0:
        table["c"] = 3
    if x[1] > 0:
        del table["a"]
    return table


def items(x):
    table = keys(x)
    return table.items()


def numbers(x):
    found = [1]
    for value in x:
        if value > 0:
            found.append(int(value) + 1)
    return found


USES = {
    "islice": lambda s: (list(itertools.islice(s, 2)), list(itertools.islice(s, 1, None)), list(itertools.islice(s, 0, 5, 2))),
    "chain": lambda s: (list(itertools.chain(s, [0], s)), list(itertools.chain.from_iterable([s, s]))),
    "filterfalse": lambda s: list(itertools.filterfalse(lambda item: item in ("b", 2), s)),
    "takewhile": lambda s: list(itertools.takewhile(lambda item: item not in ("b", 2), s)),
    "dropwhile": lambda s: list(itertools.dropwhile(lambda item: item in ("a", 1), s)),
    "compress": lambda s: list(itertools.compress(s, [1, 0, 1])),
    "starmap": lambda s: list(itertools.starmap(lambda place, item: (item, place), enumerate(s))),
    "zip_longest": lambda s: list(itertools.zip_longest(s, [1, 2, 3, 4], fillvalue=None)),
    "accumulate": lambda s: list(itertools.accumulate(s)),
    "combinations": lambda s: (list(itertools.combinations(s, 2)), list(itertools.combinations_with_replacement(s, 2))),
    "permutations": lambda s: list(itertools.permutations(s, 2)),
    "product": lambda s: list(itertools.product(s, [1, 2])),
    "pairwise": lambda s: list(itertools.pairwise(s)),
    "groupby": lambda s: [(key, list(group)) for key, group in itertools.groupby(s, key=lambda item: item in ("b", 2))],
    "tee": lambda s: [list(one) for one in itertools.tee(s, 2)],
    "reduce": lambda s: functools.reduce(operator.add, s),
}


@pytest.mark.parametrize("make", [keys, numbers])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_they_see_what_there_is(make, use):
    agree(lambda x: (use(make(x)), x), VALUES)


@pytest.mark.parametrize("name", ["islice", "chain", "zip_longest", "combinations", "pairwise", "tee"])
def test_of_a_view(name):
    agree(lambda x: (USES[name](items(x)), x), VALUES)


def test_an_endless_counter_next_to_a_list_of_any_length():
    def function(x):
        total = x.sum()
        for number, value in zip(itertools.count(2, 3), numbers(x)):
            total = total + number * value
        return total, list(zip(numbers(x), itertools.repeat("r")))

    agree(function, VALUES)


def test_what_goes_round_is_refused():
    with pytest.raises(dy2st.CaptureError, match=r"itertools.cycle\(\) of an iterable whose length is known only at run time"):
        dy2st.to_static(lambda x: [item for _, item in zip(range(5), itertools.cycle(numbers(x)))])(*VALUES[0])


def test_reduce_from_a_start():
    agree(lambda x: functools.reduce(lambda total, item: total + item * x, numbers(x), x * 0), VALUES)


def test_a_literal_beside_a_list_that_a_branch_replaces():
    def function(x, rows):
        if x[0] > 0:
            rows.append(x)
        if x[1] > 0:
            rows = list(rows)
        return {name: row * 2 for name, row in zip("pq", rows)}

    agree(lambda x: function(x, [x + 1]), VALUES)


def test_parameters_beside_a_list_that_a_branch_replaces():
    layer = torch.nn.Linear(2, 1)

    def function(x):
        steps = [x[:1] * torch.ones(1, 2), x[:1]]
        if x.sum() > 1:
            steps = [step / x.sum() for step in steps]
        return [parameter.detach() - step for parameter, step in zip(layer.parameters(), steps)]

    agree(function, VALUES)


def test_one_of_many_lists():
    def function(x):
        rows = {place: [] for place in range(12)}
        for value in x:
            rows[int(value) % 12].append(value)
        return rows

    agree(function, VALUES)
