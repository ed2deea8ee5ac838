"""Whether two lists are one, after a loop that makes another one at each iteration, or does not run."""

from __future__ import annotations

import torch

from tests.oracle import agree

ROWS = [(torch.tensor(row),) for row in ([1.0, 2.0, 0.3], [-0.1, 0.2, 0.3], [-1.0, -1.0, -1.0])]


def test_while_loop():
    def grow(x):
        start = [x[0]]
        found, count = start, 0
        while count < x.sum():
            found = found + [x[1]]
            count += 1
        found.append(x[1])
        if found is start:
            x = x + 1
        return start, found, found is start, found is not start, x

    agree(grow, ROWS)


def test_loop_over_a_list_of_any_length():
    def flatten(x):
        rows = []
        for row in x:
            if row > 0:
                rows.append([row])
        start = [x[0]]
        found = sum(rows, start)
        return found is start, rows is found, start is start

    agree(flatten, ROWS)


def test_branch_and_loop():
    def grow(x):
        start = [x[0]]
        found = start
        for row in x:
            if row > 0:
                found = found + [row]
        other, count = found, 0
        while count < x.sum():
            other = other + [x[1]]
            count += 1
        return found is start, other is start, other is found

    agree(grow, ROWS)


class Owner(torch.nn.Module):
    """Has a list from outside."""

    def __init__(self):
        super().__init__()
        self.rows = [torch.ones(2), torch.ones(2)]

    def forward(self, x):
        found, count = self.rows, 0
        while count < x.sum():
            found = found + [x[:2]]
            count += 1
        return found is self.rows, len(found)


def test_list_from_outside():
    agree(Owner(), ROWS)
