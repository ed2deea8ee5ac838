"""Tuples of a length that is known only at run time, and `*xs` of lists that grow."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch

import dy2st
from dy2st import InputSpec
from tests.oracle import agree, observe, same_outcome
from tests.programs.values import signs, vec

X = vec(1, 3, 2, grad=True)
NS = [(torch.tensor(n), X) for n in (2, 0, 1, 3, 5)]


def rows(n, x):
    return [x * k for k in range(n)]


def uses(n, x):
    items = (x, *rows(n, x))
    first, *rest = items
    total = first
    for item in items:
        total = total + item
    return total, len(items), items[-1], items[0:2], rest, items + (x,), (x,) + items, items * 2, [*reversed(items)], bool(items)


def made(n, x):
    return tuple(rows(n, x)), tuple(v + 1 for v in rows(n, x)), (*rows(n, x), x, *rows(n, x)), isinstance(tuple(rows(n, x)), tuple)


def index(n, x):
    items = tuple(rows(n, x))
    return items[1], items[n - 1], type(items) is tuple


def compared(n, x):
    items, others = tuple(range(n)), tuple([k for k in range(n)])
    return others == items, others == (0, 1), (0, 1) != others, 1 in others, [0, 1] == others, others != [0], others.count(0)


def grows_in_a_loop(n, x):
    states = ()
    for k in range(n):
        states = states + (x * k,)
        if k > 1:
            states += (x, x)
    return states, len(states), torch.stack(states) if states else x


def of_pairs(n, x):
    history, total = (), 0
    for k in range(n):
        history = (*history, (x * k, k))
    for h, k in history:
        total = total + h * k
    return history, total


def in_branches(n, x):
    items = tuple(rows(n, x))
    items = items + (x,) if n > 1 else items[1:]
    while len(items) > 2:
        items = items[:-1]
    return items


def in_a_dict(n, x):
    kept = {"states": ()}
    for k in range(n):
        kept["states"] += (x + k,)
    return kept


def matched(n, x):
    match tuple(rows(n, x)):
        case ():
            return x
        case (a,):
            return a + 1
        case (a, *rest):
            return a, len(rest), rest


FUNCTIONS = (uses, made, index, compared, grows_in_a_loop, of_pairs, in_branches, in_a_dict, matched)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tuples_of_unknown_length_agree_with_eager(function):
    agree(function, NS)


def test_grows_in_a_while_loop():
    def states(x):
        found = (x,)
        while x.sum() > 0:
            x = x - 1
            found += (x,)
        return found, found[-1], torch.cat(found)

    agree(states, signs(grad=True))


def test_a_loaded_function_makes_tuples_of_any_length(tmp_path):
    dy2st.save(made, tmp_path / "made.dy2st", input_spec=[InputSpec([], "int64"), InputSpec([3], "float64")])
    loaded = dy2st.load(tmp_path / "made.dy2st")
    calls = [(n, x.detach()) for n, x in NS]
    assert all(same_outcome(observe(made, call), observe(loaded, call)) for call in calls)


def to_rest(n, x):
    def total(*values):
        return sum(values), len(values), isinstance(values, tuple)

    def some(a, b=2, *rest, k=1):
        return a, b, rest, len(rest) * k

    return total(*rows(n, x)), total(x, *rows(n, x)), some(x, *rows(n, x), k=3), some(*rows(n, x), *rows(n, x), x)


def to_too_few(n, x):
    return (lambda a, b=2, *rest: (a, b, rest))(*rows(n, x))


def to_two(n, x):
    return (lambda a, b: a + b)(*rows(n, x))


def to_two_or_less(n, x):
    def add(a, b=5.0):
        return a + b

    return add(*rows(n, x))


def passed_on(n, x):
    def wrap(function):
        def inner(*given, **named):
            return function(*given, **named)

        return inner

    @wrap
    def last(a, *rest):
        return a, (lambda *values: sum(values))(*rest)

    return last(*rows(n, x), x)


class Product(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


PRODUCT = Product()


def to_a_module(n, x):
    return PRODUCT(*rows(n, x))


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: float = 1.0


class Total:
    def __init__(self, first, *rest):
        self.first, self.rest = first, rest

    def value(self, k=1, *more):
        return self.first * k + sum(self.rest), len(more)


def to_methods(n, x):
    return Total(*rows(n, x), x).value(*range(n)), functools.partial(Total, x)(*rows(n, x)).value()


def to_a_dataclass(n, x):
    return Pair(*rows(n, x))


def columns(n, x):
    a, b, c = zip(*[(x * k, k, x.sum()) for k in range(n)])
    return torch.stack(a), b, c, isinstance(a, tuple)


def stacked_columns(n, x):
    hs, cs = map(torch.stack, zip(*[(x * k, x[0] + k) for k in range(n)]))
    return hs, cs


def columns_in_a_loop(n, x):
    pairs = [(x * k, x + k) for k in range(n)]
    return [list(column) for column in zip(*pairs)], [torch.stack(column) for column in zip(*pairs)]


def largest(n, x):
    sums = [x.sum() * k for k in range(n)]
    return max(*sums, x[0], x[1]), min(3, *[k - 1 for k in range(n)]) if n > 0 else 0, max(*sums, x[0]) if n > 0 else 0


def largest_of_items_alone(n, x):
    return max(*[k - 1 for k in range(n)])


def smallest_of_items_alone(n, x):
    return min(*[x.sum() * k for k in range(n)])


CALLS = (
    to_rest, to_methods, to_a_dataclass, to_too_few, to_two, to_two_or_less, passed_on, to_a_module, columns, stacked_columns, columns_in_a_loop, largest,
    largest_of_items_alone, smallest_of_items_alone,
)  # fmt: skip


@pytest.mark.parametrize("function", CALLS)
def test_lists_of_unknown_length_are_spread_in_calls(function):
    agree(function, NS)


def torch_function(n, x):
    return torch.block_diag(*rows(n, x))


def tuples_in_a_list(n, x):
    return list(zip(*[(x, k) for k in range(n)]))


def rows_of_lists(n, x):
    return zip(*[[k] * n for k in range(n)])


def as_a_key(n, x):
    return {tuple(range(n)): x}


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (torch_function, "gets the items of a list as its arguments"),
        (tuples_in_a_list, "a tuple of a length that is known only at run time is put in a list"),
        (rows_of_lists, "make each row a tuple of the same length"),
        (as_a_key, "as the key of a dict"),
    ],
)
def test_uses_that_need_a_known_length_are_refused(function, says):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(function)(*NS[0])


def test_starred_target_of_columns():
    def f(n, x):
        a, *b = zip(*[(k, k * 2, x) for k in range(n)])
        return a, b[0], len(b)

    agree(f, NS)


def test_a_loop_over_columns_that_breaks():
    def f(n, x):
        total = 0
        for column in zip(*[(k, k * 2, 3) for k in range(n)]):
            total = total + sum(column)
            if total > 3:
                break
        else:
            total = -total
        return total

    agree(f, NS)


def test_growing_tuples_are_swapped_and_built_in_nested_loops():
    def f(n, x):
        a, b, stacked = (), (x,), ()
        for k in range(n):
            a, b = b, a + (x + k,)
            row = ()
            for _ in range(n):
                row += (x * k,)
            stacked += (torch.stack(row),)
        return a, b, stacked

    agree(f, NS)


def test_shrinks_in_a_loop():
    def f(n, x):
        items = (x, x + 1, x + 2)
        for _ in range(n):
            if len(items) > 0:
                items = items[1:]
        return items, len(items)

    agree(f, NS)
