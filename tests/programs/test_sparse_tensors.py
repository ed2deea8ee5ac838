"""Sparse tensors in a program: how many items they have only the program knows."""

from __future__ import annotations

import pytest
import torch

import dy2st
from dy2st import errors
from tests.oracle import agree

CALLS = [torch.tensor(rows) for rows in ([[3.0, 0, 2], [0, 1, 0]], [[0.0, 0, 0], [0, 0, 0]], [[3.0, 1, 2], [4, 1, 5]])]


def test_parts_have_as_many_items_as_there_are():
    def f(x):
        s = x.to_sparse()
        total = x.new_zeros(())
        for place, value in zip(s.indices().T, s.values()):
            total = total + value * (place.sum() + 1)
        return total, s.values() if s.values().numel() else None, s.indices().shape[1], s._nnz(), s._values() * 2

    agree(f, CALLS)


def test_compressed_rows_have_as_many_columns_as_there_are_items():
    def f(x):
        s = x.to_sparse_csr()
        return s.values(), s.col_indices(), s.crow_indices(), s.values().shape[0], s._nnz(), (s * 2).to_dense()

    agree(f, CALLS)


def test_the_number_of_items_decides():
    def f(x):
        s = x.to_sparse()
        return s.to_dense() * 2 if s._nnz() > 2 else x

    agree(f, CALLS)


def test_items_given_twice_are_summed_where_the_code_says_so():
    def f(x):
        s = x.to_sparse()
        places, values = torch.cat([s.indices(), s.indices()], 1), torch.cat([s.values(), s.values()])
        twice = torch.sparse_coo_tensor(places, values, x.shape)
        summed = twice.coalesce()
        known = [twice.is_coalesced(), summed.is_coalesced(), s.T.is_coalesced(), s.T.coalesce().is_coalesced()]
        return summed.values(), summed._nnz(), twice._nnz(), s.T.coalesce().indices(), known

    agree(f, CALLS)


def test_operations_that_part_by_rows_keep_the_items():
    def f(x):
        s = x.to_sparse()
        return torch.sparse.softmax(s, 1).to_dense(), torch.sparse.log_softmax(s, 0).to_dense(), torch.sparse.mm(s, x.T)

    agree(f, CALLS)


def test_gradients_go_through_the_items():
    def f(x):
        values = x.to_sparse().coalesce().values()
        return (values**2).sum() if values.numel() > 2 else x.sum()

    agree(f, [x.clone().requires_grad_() for x in CALLS])


def chosen(x):
    s = None
    if x.sum() > 2:
        s = x.to_sparse()
    return x if s is None else s.to_dense()


def doubled(x):
    s = x.to_sparse()
    for _ in range(int(x.sum())):
        s = s * 2
    return s.to_dense()


def kept(x):
    several = [x.to_sparse()]
    for _ in range(int(x.sum())):
        several.append(several[-1] * 2)
    return several[-1].to_dense()


@pytest.mark.parametrize("function", [chosen, doubled, kept], ids=lambda function: function.__name__)
def test_one_of_several_is_refused(function):
    with pytest.raises(errors.CaptureError, match="a sparse tensor, which no branch, loop or list passes on"):
        dy2st.to_static(function)(CALLS[0])
