"""Numbers that a tensor gives to operations in place, and tensors where torch takes a number."""

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
