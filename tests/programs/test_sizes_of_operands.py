"""Operands with a size that only the program knows: it may be 1 where another is larger, or 0."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.oracle import agree

CALLS = [torch.tensor(row) for row in ([1.0, 2, 3], [1.0, -2, -3], [-1.0, -2, -3], [1.0, 2, -3])]
A = torch.arange(18.0).view(2, 3, 3)
W = torch.arange(9.0).view(3, 3)

STRETCHED = {
    "assigned": lambda p, x: torch.zeros(3).copy_(p),
    "added_to_products": lambda p, x: (torch.addbmm(p, A, A), torch.baddbmm(p, A, A), torch.addr(p, x, x)),
    "einsum": lambda p, x: (torch.einsum("i,i->", p, x), torch.einsum("i,ij->j", p, W), torch.einsum("i,j", p, x)),
    "tensordot": lambda p, x: (torch.tensordot(p, x, 1), torch.tensordot(p, p, 1), torch.inner(p, p)),
    "batches": lambda p, x: p[:, None, None] @ W[:, None, :],
}
EMPTY = {
    "logsumexp": lambda p, x: torch.logsumexp(p, 0),
    "local_response_norm": lambda p, x: F.local_response_norm(p[None, :, None], 2),
    "gradient": lambda p, x: torch.gradient(torch.cat([p, x])),
    "qr": lambda p, x: torch.linalg.qr(torch.diag(p)).R,
}


def assigned(x):
    p = x[x > 0]
    row, rows = torch.zeros(3), torch.zeros(3, 3)
    row[:] = p
    rows[0] = p
    rows[:, 1] = p
    rows[2:, ...] = p
    return row, rows


@pytest.mark.parametrize("operation", STRETCHED.values(), ids=STRETCHED)
def test_an_operand_is_stretched_where_its_size_is_one(operation):
    agree(lambda x: operation(x[x > 0], x), CALLS[:2])


def test_what_is_put_in_is_stretched_where_its_size_is_one():
    agree(assigned, CALLS[:2])


@pytest.mark.parametrize("operation", EMPTY.values(), ids=EMPTY)
def test_an_operand_may_be_empty(operation):
    agree(lambda x: operation(x[x > 0], x), CALLS)


NORMS = {
    "batch": lambda p: F.batch_norm(p[:, None].expand(-1, 4), None, None, training=True),
    "instance": lambda p: F.instance_norm(p[None, None].expand(2, 3, -1)),
    "group": lambda p: F.group_norm(p[:, None, None].expand(-1, 3, 1), 3),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_one_value_per_channel_is_refused_in_the_words_of_eager(norm):
    def f(x):
        try:
            return norm(x[x > 0])
        except ValueError as error:
            return str(error)

    agree(f, [CALLS[0], CALLS[1], CALLS[3]])


REFUSING = {
    "max": lambda p: p.max(),
    "min_along": lambda p: p.min(dim=0).values,
    "amax": lambda p: p.amax(0),
    "argmax": lambda p: p.argmax(),
    "median_along": lambda p: p.median(0).values,
    "mode": lambda p: p.mode().values,
    "kthvalue": lambda p: p.kthvalue(2).values,
    "narrow": lambda p: p.narrow(0, 1, 1),
    "bernoulli": lambda p: torch.bernoulli(p / 2),
    "put": lambda p: torch.zeros(3).index_put((torch.tensor([0, 1, 2]),), p),
    "scatter": lambda p: torch.zeros(3).slice_scatter(p, 0),
    "stack": lambda p: torch.stack([p, torch.ones(3)]),
    "convolution": lambda p: F.conv1d(p[None, None], torch.ones(1, 1, 2)),
    "pool": lambda p: F.adaptive_avg_pool1d(p[None, None], 2),
    "interpolate": lambda p: F.interpolate(p[None, None], scale_factor=2.0),
    "einsum": lambda p: torch.einsum("i,i->", p, torch.ones(3)),
    "fft": lambda p: torch.fft.rfft(p).real,
}


@pytest.mark.parametrize("operation", REFUSING.values(), ids=REFUSING)
@pytest.mark.parametrize("caught", [(RuntimeError, IndexError), Exception], ids=["named", "any"])
def test_a_clause_is_entered_where_the_operation_refuses_a_size(operation, caught):
    def f(x):
        p = x[x > 0]
        try:
            q = operation(p)
        except caught as error:
            return p, type(error).__name__
        return q, p

    agree(f, CALLS)


SMALL = {
    "tensor": lambda n: torch.tensor(n * 100, dtype=torch.int8),
    "rows": lambda n: torch.tensor([n * 100, 1], dtype=torch.uint8),
    "as_tensor": lambda n: torch.as_tensor(n * 100, dtype=torch.int8),
    "full": lambda n: torch.full((2,), n * 100, dtype=torch.int8),
    "fill": lambda n: torch.zeros(2, dtype=torch.int8).fill_(n * 100),
    "masked": lambda n: torch.zeros(2, dtype=torch.int8).masked_fill(torch.tensor([True, False]), n * 100),
    "division": lambda n: torch.tensor([4, 5]) // (n - 1),
    "remainder": lambda n: torch.tensor([4, 5]) % (n - 1),
    "stack": lambda n: torch.stack([torch.ones(2)] * (n - 1)),
    "cat": lambda n: torch.cat([torch.ones(2)] * (n - 1)),
}


@pytest.mark.parametrize("operation", SMALL.values(), ids=SMALL)
def test_a_clause_is_entered_where_a_number_does_not_fit(operation):
    def caught(t):
        n = int(t)
        try:
            return operation(n)
        except (RuntimeError, ValueError) as error:
            return type(error).__name__

    agree(caught, [torch.tensor(n) for n in (0, 1, 2, 3)])
