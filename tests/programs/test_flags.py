"""Bools of the program where a function of torch wants one of Python's: it is called in a branch for each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.oracle import agree

ROWS = [torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)).abs() * sign for sign in (1, -1)]


def test_a_flag_of_a_length_is_passed_in_a_loop():
    def grow(x, n):
        while x.shape[2] < n:
            y = F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[2] > 1)
            x = torch.cat([x, y[:, :, -1:]], 2)
        return x

    agree(grow, [(ROWS[0][None, :, :1], torch.tensor(n)) for n in (6, 1, 4)])


def test_operators_take_a_flag_that_a_tensor_decides():
    def f(x):
        flag = (x.sum() > 0).item()
        ordered = torch.sort(x.flatten(), descending=flag)[0]
        return ordered, x.sum(-1, keepdim=flag), x.std(unbiased=not flag), torch.full((2,), flag), x.argmax(-1, keepdim=flag)

    agree(f, ROWS)


def test_the_correction_of_a_deviation_is_a_flag():
    def f(x):
        return x.std(correction=x.sum() > 0), torch.var(x, dim=0, correction=bool(x[0, 0] > 0))

    agree(f, [x.flatten(1) for x in ROWS])


def test_functions_take_a_flag_that_a_tensor_decides():
    def f(x):
        flag = (x.sum() > 0).item()
        y = x * 1
        F.relu(y, inplace=flag)
        wide = F.interpolate(x, scale_factor=2, mode="linear", align_corners=flag)
        return y, wide, F.dropout(x * 1, 0.5, flag, flag), F.max_pool1d(x[0], 3, ceil_mode=flag), F.gumbel_softmax(x, hard=flag)

    agree(f, ROWS)


def test_flags_in_a_loop():
    def f(x):
        for k in range(3):
            x = F.dropout(x, 0.5, training=bool(x.sum() > k))
        return x

    agree(f, ROWS)
