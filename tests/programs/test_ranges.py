"""Ranges: membership, positions, parts and equality without a walk through the numbers; bounds that a tensor decides."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree
from tests.programs.values import num

COUNTS = [num(v, torch.int64) for v in (4, 7, 0, -2, 20)]
LONG = 10**12


def test_a_long_range_and_a_number_of_the_program():
    def f(x):
        k = abs(int(x))
        numbers = range(0, LONG, 2)
        there = (k in numbers, k + 1 in numbers, -k in numbers, k in range(LONG, 0, -5), k / 2 in range(50), (k > 3) in range(2))
        part = range(LONG)[k : k + 3]
        return there, numbers[k], numbers[-1 - k], range(LONG).index(k), numbers.count(k), list(part), k in range(LONG)[5:]

    agree(f, COUNTS)


def test_floats_and_tensors_in_a_range():
    def f(x):
        return x.item() in range(10), x in range(10), x.item() in range(10, 0, -3)

    agree(f, [num(v) for v in (3.0, 2.5, float("nan"), float("inf"), -1.0, 1e30, 10.0)])


@pytest.mark.parametrize("message", ["index", "item"])
def test_what_is_not_in_a_range(message):
    def f(x):
        numbers, k = range(10, 50, 7), int(x)
        return numbers.index(k) if message == "index" else numbers[k - 16]

    agree(f, [num(v, torch.int64) for v in (17, 18, 24, -100, 100)])


def test_bounds_that_a_tensor_decides():
    def f(x):
        k = int(x)
        numbers = range(1, k, 3)
        found = numbers.index(4) if k > 4 else None
        return len(numbers), found, numbers.count(4), 4 in numbers, 5 in numbers, list(reversed(numbers)), list(numbers[1:])

    agree(f, COUNTS)


def test_ranges_are_compared_asked_for_their_truth_and_their_class():
    def f(x):
        numbers = range(int(x))
        alike = numbers == range(4), numbers != range(4), numbers == [0, 1, 2, 3], range(0, int(x), 9) == range(0, 1, 5)
        return alike, isinstance(numbers, range), type(numbers) is range, 1 if numbers else 0, numbers.start, numbers.stop

    agree(f, COUNTS)


def test_a_range_that_is_given_back_or_chosen():
    def f(x):
        k = int(x)
        chosen = range(k, -k, -2) if k > 0 else range(3)
        other = range(k)
        for _ in range(k):
            other = range(other.start + 1, other.stop + 3)
        return range(k), {"part": range(k)[1:3]}, list(chosen), 1 in chosen, len(chosen), list(other)

    agree(f, COUNTS)


def test_a_step_of_zero():
    def f(x):
        return list(range(0, 4, int(x)))

    agree(f, [num(v, torch.int64) for v in (1, 0, -1, 3)])


@pytest.mark.parametrize("given", [torch.tensor([1, 0]), torch.tensor(1.5), torch.tensor([0.5])])
@pytest.mark.parametrize(
    "use",
    [
        lambda n: [10, 20][n],
        lambda n: (1, 2, 3)[n],
        lambda n: "abc"[n],
        lambda n: [10, 20][n:],
        lambda n: list(range(n)),
        lambda n: [1, 2].insert(n, 3),
        lambda n: [1, 2].pop(n),
    ],
)
def test_tensors_that_are_no_index(use, given):
    agree(use, [given], programs=None)


def test_floats_that_are_no_index():
    for use in (lambda x: [1, 2][x.item()], lambda x: range(x.item()), lambda x: (1, 2)[x.item()], lambda x: "ab"[x.item()]):
        agree(use, [num(1.5)], programs=None)


def test_tensors_are_made_of_ranges():
    def program(x):
        n = len(x[x > 0])
        chosen = torch.tensor(range(n), dtype=torch.long)[x[x > 0] > 1]
        return chosen, torch.tensor(range(n, 2 * n)), torch.as_tensor(range(0, n, 2)), x.new_tensor(range(n))

    agree(program, [torch.tensor(row) for row in ([1.0, 2, -1], [3.0, 0, 0], [-1.0, 0, 0], [1.0, 2, 3])])
