"""Numbers that a tensor gives to operations in place, and tensors where torch takes a number."""

import math

import pytest
import torch

from tests.oracle import agree

X = torch.tensor([1.0, float("nan"), -3.0])
LEVELS = [torch.tensor(level) for level in (2.0, 0.5, 1.0)]

IN_PLACE = {
    "uniform": lambda x, v: x.clone().uniform_(-v.item(), v.item()),
    "uniform of tensors": lambda x, v: x.clone().uniform_(-v, to=v),
    "normal": lambda x, v: x.clone().normal_(v.item(), v.item() * 2),
    "bernoulli": lambda x, v: x.clone().bernoulli_(v.item() / 2),
    "exponential": lambda x, v: x.clone().exponential_(v.item()),
    "geometric": lambda x, v: x.clone().geometric_(v.item() / 4),
    "init": lambda x, v: torch.nn.init.trunc_normal_(torch.nn.init.uniform_(x.clone(), -v.item(), v.item()), std=v.item()),
    "nan_to_num in place": lambda x, v: x.clone().nan_to_num_(v.item()),
    "nan_to_num of a tensor": lambda x, v: x.nan_to_num(v) + x.clone().nan_to_num_(posinf=v, nan=v),
    "of a view": lambda x, v: [part.nan_to_num_(v) for part in (x * 2).unbind()],
    "allclose": lambda x, v: torch.allclose(x, x + 0.7, atol=v.item(), equal_nan=True),
}


@pytest.mark.parametrize("case", IN_PLACE.values(), ids=IN_PLACE)
def test_a_number_of_the_program(case):
    agree(case, [(X, level) for level in LEVELS])


def test_gradients_of_what_is_written_in_place():
    def f(x, v):
        h = x * 2
        h[0].nan_to_num_(v)
        h.nan_to_num_(v.item())
        return h * h

    agree(f, [(torch.tensor([1.0, -2.0], requires_grad=True), level) for level in LEVELS])


def test_where_a_tensor_decides():
    def f(x, v):
        while x.abs().nan_to_num().max() < 8:
            x = x * 2
            x[1:].nan_to_num_(v.item())
            v = v + 1
        return x

    agree(f, [(X, level) for level in LEVELS])


def test_sequences_are_repeated_in_place_as_often_as_a_number_says():
    def f(t):
        n = int(t[0])
        many, some = n if n > 1 else None, n if n > 1 else "ab"
        text, pair, items = "x", (1, 2), n
        text *= n
        pair *= n
        items *= ["a"]
        try:
            many *= "a"
            rows = [1, 2] * many if n > 2 else ()
        except TypeError as error:
            return str(error), text, pair, items, some * 2
        return many, rows, text, pair, items, some * 2

    agree(f, [torch.tensor([n]) for n in (3, 2, 0, 1, -1)])


def test_a_clause_is_entered_where_a_function_of_numbers_gets_none():
    def f(t):
        n = int(t[0])
        one = n if n > 1 else None
        try:
            return math.atan2(one, n / 2), round(one, n - 2), pow(one, 2)
        except TypeError as error:
            return str(error)

    agree(f, [torch.tensor([n]) for n in (3, 2, 0, 1)])
