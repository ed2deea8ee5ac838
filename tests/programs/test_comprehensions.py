"""Comprehensions and folds over what a tensor decides the length of."""

import pytest
import torch

import dy2st
from tests.oracle import agree

SIGNS = [torch.tensor(values) for values in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0], [1.0, 2.0, 3.0])]


def test_over_a_dynamic_tensor():
    def f(x):
        return torch.stack([row * 2 for row in x])

    agree(f, [torch.randn(3, 2), torch.randn(1, 2), torch.randn(9, 2)], spec=[dy2st.InputSpec([None, 2])])


def test_condition_on_a_tensor():
    def f(x):
        positive = [value * 2 for value in x if value > 0]
        return len(positive), positive

    agree(f, SIGNS)


def test_list_with_a_condition_is_iterated():
    def f(x):
        total = 0
        for value in [value * 2 for value in x if value > 0]:
            total = total + value
        return total

    agree(f, SIGNS)


def test_comprehensions_unpack_targets_and_nest():
    def f(x):
        pairs = [i * v for i, v in enumerate(x)], [a + b for a, b in zip(x, x)]
        return *pairs, {v for v in (1, 2)}, {k: v for k, v in zip("ab", x)}, [[w + v for w in (1, 2)] for v in (3, 4)]

    agree(f, [torch.tensor(items) for items in ([1.0, -2.0, 3.0], [0.5, 4.0, -1.0])])


def test_unpacking_error_is_pythons():
    def f(x):
        return [a for a, b in ((1, 2, 3),)]

    agree(f, [torch.ones(1), -torch.ones(1)], programs=None)


def test_folds_over_a_growing_list():
    def f(x):
        found = []
        for value in x:
            if value > 0:
                found.append(value)
        return sum(found), any([v > 2 for v in found]), all([v > 2 for v in found])

    agree(f, [*SIGNS, torch.tensor([5.0, 6.0, 7.0])])


@pytest.mark.parametrize("fold", [sum])
def test_fold_over_a_dynamic_tensor(fold):
    def f(x):
        return fold(x)

    agree(f, [torch.randn(3), torch.randn(0), torch.randn(1)], spec=[dy2st.InputSpec([None])])


def test_set_over_a_dynamic_tensor_is_refused():
    def f(x):
        return len({row.sum() for row in x})

    with pytest.raises(dy2st.CaptureError, match="known only at run time") as caught:
        dy2st.to_static(f, input_spec=[dy2st.InputSpec([None, 2])])(torch.ones(2, 2))
    assert "test_comprehensions.py" in str(caught.value) and "list" in str(caught.value)


def test_generators_are_as_lazy_as_python():
    def f(x):
        seen = []

        def note(v):
            seen.append(float(v))
            return v > 0

        found = any(note(v) for v in x)
        for v in (w * 2 for w in x if w > 1):
            if v > 5:
                break
            found = v
        return found, seen, x

    agree(f, [*SIGNS, torch.tensor([5.0, 6.0, 7.0])])


def test_clauses_that_depend_on_each_other():
    def f(n):
        pairs = [a * 10 + b for a in range(n) for b in range(a) if a % 2 for c in [1, 2] if c > b]
        return pairs, sum(a * b for a in range(n) for b in range(a, n)), [[b for b in range(a)] for a in range(3)]

    agree(f, [torch.tensor(n) for n in (4, 0, 1, 6)])


def test_a_generator_that_is_consumed_in_parts():
    def f(x):
        items = (v * 2 for v in x)
        first = next(items)
        total = first
        for v in items:
            total = total + v
        return first, total, list(items)

    agree(f, SIGNS)


def test_map_and_filter_are_streams():
    def f(x):
        total = x.sum() * 0
        for a, b in zip(map(lambda v: v + 1, x), filter(lambda v: v > 0, x)):
            total = total + a * b
        for k, v in enumerate(filter(None, x)):
            total = total + k * v
        return total, list(map(lambda a, b: a - b, x, filter(lambda v: v > 0, x)))

    agree(f, [*SIGNS, torch.tensor([5.0, 0.0, 7.0])])


def test_a_generator_of_two_loops_that_is_left_early():
    def f(x):
        rows = [[x[0], x[1]], [x[1] + 1]]
        y = x * 0
        for v in (item * 2 for row in rows for item in row):
            y = y + v
            if v > 2.5:
                break
        n = int(x.sum().clamp(min=0))
        for k in (10 * i + j for i in range(n) for j in range(i + 1)):
            y = y + k
            if k > 10:
                break
        found = all(v > 1.5 for row in rows for v in row), any(v > 1.5 for row in rows for v in row)
        return y, found, any(1 / (v - 1) > 0 for row in rows if x.sum() > 0 for v in row if v < 2.5)

    agree(f, [torch.tensor(v) for v in ([1.25, 2.0], [2.0, 1.25], [-1.0, 0.5], [3.0, 0.0])])
