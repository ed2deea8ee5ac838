"""``torch.diff`` along a size that a tensor decides."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree

WAYS = [
    torch.tensor(row, requires_grad=True)
    for row in ([1.0, 2.0, 4.0, 9.0], [-1.0, -1.0, -1.0, -2.0], [3.0, -1.0, -1.0, -5.0], [3.0, 2.0, -1.0, -5.0])
]


@pytest.mark.parametrize(
    "differences",
    [
        lambda y: torch.diff(y),
        lambda y: y.diff(n=2),
        lambda y: torch.diff(y, prepend=y[:1]),
        lambda y: torch.diff(y, prepend=torch.zeros(1), append=y[-1:]),
        lambda y: torch.diff(y[:, None] * torch.ones(2), dim=0, n=3),
        lambda y: torch.diff(y > 2).to(torch.int32) * y.sum(),
    ],
    ids=["plain", "twice", "prepend", "both", "rows", "bool"],
)
def test_differences_of_as_many_as_there_are(differences):
    def f(x):
        return differences(x[x > 0])

    agree(f, WAYS)
