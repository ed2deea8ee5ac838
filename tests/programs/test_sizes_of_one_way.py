"""Sizes that are none on the way that is not taken: nobody asks for them there."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree

XS = [torch.tensor(v) for v in ([3, 1, 5, 4], [2, 0, 0, 0], [0, 7, 7, -3], [4, 5, 6, 7])]


def one_less(t):
    n, r = len(t[t > 2]), None
    if n > 0:
        r = torch.arange(n - 1)
    return r


def other_rank(t):
    p = t[t > 2]
    return p.unfold(0, 2, 1) if len(p) > 1 else p


def divided(t):
    p, m, r = t[t > 2], int(t[1]), None
    if m > 0 and len(p) % m == 0:
        r = p.view(m, -1)
    return r


def a_number(t):
    n, r = int(t[0]) - 3, None
    if n > 0:
        r = torch.zeros(n)
    return r


def the_last(t):
    best = None
    for v in t.tolist():
        if v > 1:
            best = torch.ones(v - 1)
    return best


def in_a_list(t):
    n = len(t[t > 2])
    return [torch.ones(n - 1)] if n else []


def of_a_helper(t):
    def pick(n):
        if n <= 0:
            return None
        return torch.full((n - 1,), 1.0)

    r = pick(len(t[t > 2]))
    return r if r is None else r + 1


def in_an_attribute(t):
    class Box:
        pass

    box, n = Box(), len(t[t > 2])
    box.w = torch.zeros(1)
    if n > 1:
        box.w = torch.eye(n - 2)
    return box.w


def stacked(t):
    p = t[t > 2]
    return torch.stack([p[:-1], p[1:]], 1) if len(p) else None


def used_further(t):
    n, r = len(t[t > 2]), None
    if n > 0:
        r = torch.arange(n - 1)
    if r is not None:
        return r + torch.arange(n - 1), r.shape
    return None


def appended(t):
    rows = []
    for v in t.tolist():
        rows.append(torch.zeros(v - 1) if v > 0 else None)
    return rows


@pytest.mark.parametrize(
    "program",
    [one_less, other_rank, divided, a_number, the_last, in_a_list, of_a_helper, in_an_attribute, stacked, used_further, appended],
)
def test_sizes_of_one_way(program):
    agree(program, XS)
