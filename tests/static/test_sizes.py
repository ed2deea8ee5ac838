"""Sizes for which a program is not made get a program of their own; one that may be stretched from 1 is checked by the program."""

import pytest
import torch

import dy2st
from tests.oracle import agree


def test_broadcast_of_a_dynamic_size():
    def f(x):
        y = x + torch.zeros(3, 4)
        return y, y.shape[0]

    calls = [torch.ones(3, 4), torch.ones(1, 4), torch.ones(3, 4) * 2, torch.ones(1, 4) * 2]
    agree(f, calls, spec=[dy2st.InputSpec([None, 4])], programs=1)


def test_two_dynamic_sizes_that_broadcast():
    def f(x, y):
        if x.sum() > 0:
            return (x + y).sum(0), (x + y).shape[0]
        return x.sum(0), 7

    calls = [(torch.ones(n, 2), torch.ones(m, 2)) for n, m in ((3, 3), (1, 3), (4, 4), (5, 1), (1, 1), (5, 5))]
    agree(f, calls, spec=[dy2st.InputSpec([None, 2]), dy2st.InputSpec([None, 2])], programs=None)


def test_sizes_that_do_not_fit_fail_as_in_eager():
    def f(x):
        return x + torch.zeros(3)

    static = agree(f, [torch.ones(3), torch.ones(1)], spec=[dy2st.InputSpec([None])], programs=1)
    with pytest.raises(RuntimeError):
        f(torch.ones(5))
    with pytest.raises(RuntimeError):
        static(torch.ones(5))
    agree(f, [torch.ones(1), torch.ones(3)], static=static, programs=1)


def test_no_row_and_one_row_get_programs_of_their_own():
    def f(x):
        n = x.shape[0]
        total = 0
        for row in x:
            total = total + row.sum() * n
        if n > 2:
            return x.view(-1), total
        return x.reshape(n * 2), total

    calls = [torch.ones(3, 2), torch.ones(0, 2), torch.ones(1, 2), torch.ones(9, 2)]
    agree(f, calls, spec=[dy2st.InputSpec([None, 2])])
