"""Strings, tuples and iterators that are as long as a number of the program says."""

from __future__ import annotations

import itertools

import pytest
import torch

import dy2st
from tests.oracle import agree

X = torch.rand(6, generator=torch.Generator().manual_seed(0))
NUMBERS = [torch.tensor(number) for number in (2, 3, 0, 1)]

PROGRAMS = {
    "part of a tuple": lambda n: (1, 2, 3, 4)[n:],
    "kind of a part": lambda n: (type((1, 2)[:n]) is tuple, (1, 2)[:n] + (5,), len((X, X + 1)[n:])),
    "string": lambda n: "ab" * n + n * "-",
    "tuple": lambda n: (1, 2) * n + n * (3,),
    "words": lambda n: (hex(n), bin(n + 8), oct(n * 9), chr(n + 65), hex(-n)),
    "islice": lambda n: list(itertools.islice([1, 2, 3], n)),
    "islice of rows": lambda n: [row * 2 for row in itertools.islice(X, 1, n + 1)],
    "islice with a step": lambda n: list(itertools.islice(range(10), 1, 3 * n, 2)),
    "repeat": lambda n: [X * value for value in itertools.repeat(2, n)] + list(itertools.repeat(X, times=n)),
    "chain": lambda n: [value for value in itertools.chain(range(n), [5], X[:n])],
    "pairwise": lambda n: list(itertools.pairwise(range(n))) if hasattr(itertools, "pairwise") else n,
    "groupby": lambda n: [k for k, _ in itertools.groupby([v // 2 for v in range(n * 2)])],
    "groupby with a key": lambda n: [(k, sum(g)) for k, g in itertools.groupby(range(n * 3), key=lambda v: v // 2)],
    "groupby of rows": lambda n: [(k, [v * 2 for v in g]) for k, g in itertools.groupby(X[:n], key=lambda v: v > 0.5)],
    "product": lambda n: list(itertools.product(range(n), [1, 2])),
    "accumulate": lambda n: list(itertools.accumulate(range(n))) + list(itertools.accumulate(X[:n], lambda a, b: a * b)),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_is_as_long_as_in_eager(program):
    agree(lambda n: program(n.item()), NUMBERS)


@pytest.mark.parametrize("program", [lambda n: list(itertools.islice([1, 2], n)), lambda n: chr(n)], ids=["islice", "chr"])
def test_a_number_that_python_refuses(program):
    agree(lambda n: program(n.item()), [torch.tensor(number) for number in (2, -1)])


def test_an_iterator_that_may_have_no_end_is_refused():
    with pytest.raises(dy2st.CaptureError, match="as many items of an iterator as a tensor decides"):
        dy2st.to_static(lambda n: sum(itertools.islice(itertools.count(), n.item())))(torch.tensor(2))
