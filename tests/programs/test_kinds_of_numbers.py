"""Numbers that are ints on one path and floats on another: what they are is asked."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree

NUMBERS = [torch.tensor([5.0, 1.0]), torch.tensor([-2.0, 1.0]), torch.tensor([1.0, -1.0]), torch.tensor([2.0, 1.0])]


def either(x):
    return 3 if x.sum() > 1 else 2.5


def asked(x):
    v = either(x)
    return isinstance(v, int), isinstance(v, float), type(v).__name__, type(v) is int, str(v), v * 2, {int: 1, float: 2}[type(v)]


def matched(x):
    v = either(x)
    match v:
        case int():
            found = "int"
        case _:
            found = "float"
    return found, v.is_integer() if isinstance(v, float) else v.bit_length()


def summed(x):
    total = 0
    while x.sum() < 3:
        x = x + 1
        total = total + float(x[0])
    return total, type(total).__name__


def extremes(x):
    v, w = max(3, float(x.sum())), min(int(x.sum()), 2.5)
    return type(v) is int, type(w) is int, type(abs(v)) is float, isinstance(sum([1, w]), int), v, w


@pytest.mark.parametrize("program", [either, asked, matched, summed, extremes])
def test_type_checks_of_numbers_follow_the_path_taken(program):
    agree(program, NUMBERS)


def test_lists_of_both_do_not_tell():
    def f(x):
        v = [3, 2.5][int(x[0] > 0)]
        return v, isinstance(v, int)

    with pytest.raises(dy2st.CaptureError, match="an int or a float"):
        dy2st.to_static(f)(NUMBERS[0])


def test_dtypes_made_from_a_number_follow_its_kind():
    def f(x):
        c = 3
        if x[0] > 2:
            c = c + x[1].item()
        return torch.tensor(c), torch.tensor([c, 1]), (x.int() + c).dtype, float(c), c

    agree(f, NUMBERS)


def test_attributes_of_one_kind_only():
    def f(x):
        c = 3
        if x[0] > 2:
            c = c + x[1].item()
        try:
            return c.is_integer()
        except AttributeError as error:
            return str(error)

    if hasattr(int, "is_integer"):
        pytest.skip("an int has it too")
    agree(f, NUMBERS)
