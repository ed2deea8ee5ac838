"""Dimensions of tensors that only the program knows, and numbers whose value can be shown where torch has to know it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dy2st
from tests.oracle import agree

X = torch.arange(24.0).view(2, 3, 4)
DIMENSIONS = [torch.tensor(dim) for dim in (1, 0, 2, -1, -3, 3, -7)]

BY_DIMENSION = {
    "sum": lambda x, n: x.sum(n.item()),
    "softmax": lambda x, n: torch.softmax(x, dim=n.item()),
    "functional.softmax": lambda x, n: F.softmax(x, n.item()),
    "normalize": lambda x, n: F.normalize(x, dim=int(n)),
    "cat": lambda x, n: torch.cat([x, x], n.item()),
    "stack": lambda x, n: torch.stack([x, x], dim=n.item()),
    "unsqueeze": lambda x, n: x.unsqueeze(n.item()),
    "squeeze": lambda x, n: x[:, :1].squeeze(n.item()),
    "size": lambda x, n: x.size(n.item()),
    "select": lambda x, n: x.select(n.item(), 0),
    "index_select": lambda x, n: x.index_select(n.item(), torch.tensor([0])),
    "split": lambda x, n: torch.split(x, 1, dim=n.item()),
    "unbind": lambda x, n: x.unbind(n.item()),
    "sort": lambda x, n: x.sort(n.item(), descending=True),
    "cumsum_": lambda x, n: x.clone().cumsum_(n.item()),
    "flatten": lambda x, n: x.flatten(n.item()),
    "diff": lambda x, n: torch.diff(x, dim=n.item()),
    "two": lambda x, n: x.amax((n.item(), 0)),
    "twice": lambda x, n: x.sum(n.item()).sum(n.item()),
    "permute": lambda x, n: torch.permute(x, [n.item(), 0, 2]),
}


@pytest.mark.parametrize("program", BY_DIMENSION.values(), ids=BY_DIMENSION)
def test_a_dimension_from_a_tensor_is_the_one_of_eager(program):
    agree(program, [(X.clone().requires_grad_(), dim) for dim in DIMENSIONS])


def reordered(x, order):
    dims = order.tolist()
    return x.permute(dims), x.argmax(dim=dims[0])


def test_several_dimensions_from_one_tensor():
    agree(reordered, [(X, torch.tensor(order)) for order in ([1, 0, 2], [2, 1, 0], [0, -2, 2], [0, 0, 1], [3, 0, 1])])


def caught(x, n):
    try:
        return x.sum(n.item())
    except IndexError as error:
        return str(error), error.__context__


def test_a_dimension_that_a_tensor_does_not_have_reaches_handlers():
    agree(caught, [(X, dim) for dim in DIMENSIONS])


def over_most(x):
    dims = torch.arange(1, len(x.shape)).tolist()
    order = torch.tensor([2, 0, 1])
    return x.sum(dim=dims), x.permute(*order.tolist()), x.mean(int(order[1]))


def windows(x):
    sizes = torch.tensor(x.shape)
    kernel = torch.tensor([2, 3]) - 1
    return F.max_pool2d(x, kernel.tolist()), F.adaptive_avg_pool2d(x, (sizes[1:] // 2).tolist()), x.reshape(sizes.flip(0).tolist())


def in_loops_and_branches(x, n):
    kernel, total = torch.tensor([2, 3]), x.new_zeros(())
    for step in range(n):
        if x.sum() > step:
            total = total + F.max_pool2d(x, kernel.tolist()).sum()
    return total


@pytest.mark.parametrize("program", [over_most, windows])
def test_numbers_that_are_computed_of_constants_are_constants_where_torch_has_to_know_them(program):
    agree(program, [X, X + 1])


def test_constants_of_outer_blocks():
    agree(lambda x, n: F.max_pool2d(x, torch.tensor([2, 3]).tolist()) if n > 0 else x, [(X, torch.tensor(i)) for i in (1, 0)])
    agree(in_loops_and_branches, [(X, torch.tensor(number)) for number in (2, 0, 1)])


def written_between(x):
    t = torch.tensor([0, 1])
    view = t[1:]
    before = t[1].item()
    view.add_(1)
    return x.sum(before), x.sum(t[1].item())


def written_in_a_branch(x, n):
    t = torch.arange(3)
    if n > 1:
        t[1] = 2
    return x.sum(t[1].item())


def written_in_a_loop(x, n):
    t, total = torch.tensor(0), x
    for _ in range(n):
        total = total + x.sum(t.item(), keepdim=True)
        t.add_(1)
    return total


STATE = torch.tensor(1)


def from_outside(x, n):
    STATE.copy_(n)
    return x.sum(STATE.item())


@dy2st.not_to_static
def changed(t):
    t.fill_(2)


def changed_by_an_island(x, n):
    t = torch.tensor(1)
    changed(t)
    return x.sum(t.item())


@pytest.mark.parametrize("program", [written_in_a_branch, written_in_a_loop, from_outside, changed_by_an_island])
def test_what_is_written_is_no_constant(program):
    agree(program, [(X, torch.tensor(n)) for n in (0, 1, 2)])
    agree(written_between, [X])


def drawn(x):
    return x.sum(torch.randint(0, 3, ()).item())


def test_what_is_drawn_is_no_constant():
    agree(drawn, [X] * 5)


def test_a_number_that_is_no_dimension():
    agree(lambda x, n: torch.matrix_power(x, n.item()), [(torch.eye(2) * 2, torch.tensor(number)) for number in (2, 3, 0, -1)])


def frames(x):
    lying = x.contiguous()
    strides = [lying.stride(dim) for dim in range(lying.dim())]
    return torch.fft.rfft(lying.as_strided((2, 5, 4), [*strides[:-1], 3, 1]), dim=-1)


def alike(x):
    made = torch.empty_strided(x.shape, x.stride()).copy_(x)
    turned = made.as_strided(x.shape, (made.stride(1), made.stride(0)), made.storage_offset())
    return torch.fft.fft2(made), made.stride(), turned.contiguous().stride(), turned.flatten()


def test_strides_where_an_operation_asks_which_is_larger():
    wide = torch.arange(80.0).view(2, 40)
    agree(frames, [torch.arange(40.0).view(2, 20), wide[:, ::2], wide[:, 20:]])
    square = torch.arange(16.0).view(4, 4)
    agree(alike, [square, square.T, torch.arange(32.0).view(4, 8)[:, ::2]], programs=None)


def test_a_number_of_parts_is_no_dimension():
    with pytest.raises(dy2st.DataDependentError):
        dy2st.to_static(lambda x, n: torch.hsplit(x, int(n)))(torch.ones(6), torch.tensor(2))

    def split(x, n):
        return torch.tensor_split(x, int(n))

    static = dy2st.to_static(split)
    for parts in (2, 1, 3, 6, 8):
        found, expected = static(torch.arange(6.0), torch.tensor(parts)), split(torch.arange(6.0), torch.tensor(parts))
        assert len(found) == len(expected) and all(map(torch.equal, found, expected))
    assert len(static.program_cache) == 1
