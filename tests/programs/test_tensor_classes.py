"""Tensors that their classes make of numbers of the program, and ``x.new``."""

import pytest
import torch

from tests.oracle import agree

MAKERS = {
    "of_numbers": lambda x, n: torch.Tensor([n.item(), x.sum().item(), 2]),
    "of_tensors": lambda x, n: torch.Tensor([x[0], x[1]]),
    "of_another_dtype": lambda x, n: (torch.LongTensor([[n.item()], [x[0].item()]]), torch.DoubleTensor([n.item()])),
    "of_bools": lambda x, n: (torch.BoolTensor([n.item() > 1, True]), torch.ByteTensor([n.item()] * 2)),
    "of_sizes": lambda x, n: torch.Tensor([x[x > 0].shape[0], len(x)]),
    "like_another": lambda x, n: (x.double().new([n.item(), 2.5]), x.long().new([n.item()])),
    "of_a_size": lambda x, n: (torch.Tensor(n.item(), 2).fill_(1.0), x.new(n.item()).fill_(0.0), torch.LongTensor(2, 1).shape),
    "of_constants": lambda x, n: (torch.Tensor([1, 2.5]) + n, torch.Tensor((1, 2)), torch.Tensor(), torch.Tensor(x), x.new([1])),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_class_makes_a_tensor(make):
    x = torch.tensor([1.5, -2.25, 3.0])
    agree(make, [(x, torch.tensor(3)), (-x, torch.tensor(1))])


def test_a_class_makes_a_tensor_of_a_list_that_grows():
    def f(x, n):
        rows = []
        while n > 0:
            rows.append(n.item() * 1.5)
            n = n - 1
        return torch.Tensor(rows), torch.LongTensor(rows), x.new(rows)

    agree(f, [(torch.ones(2), torch.tensor(3)), (torch.ones(2), torch.tensor(0))])


def test_it_has_no_gradient():
    agree(lambda x: torch.Tensor([x.sum(), 2]).requires_grad, [(torch.ones(2, requires_grad=True),)])
