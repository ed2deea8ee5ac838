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


def test_targets_and_nesting():
    def f(x):
        pairs = [i * v for i, v in enumerate(x)], [a + b for a, b in zip(x, x)]
        return *pairs, {v for v in (1, 2)}, {k: v for k, v in zip("ab", x)}, [[w + v for w in (1, 2)] for v in (3, 4)]

    agree(f, [torch.tensor([1.0, -2.0, 3.0])])


def test_unpacking_error_is_pythons():
    def f(x):
        return [a for a, b in ((1, 2, 3),)]

    agree(f, [torch.ones(1)], programs=None)


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
    assert "test_comprehensions.py" in str(caught.value) and "for statement" in str(caught.value)
