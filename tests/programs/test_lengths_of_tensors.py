"""Lists of numbers as long as a tensor of which only the program knows the length, and tensors that are split by them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

import dy2st
from tests.devices import sums_in_any_order
from tests.oracle import agree

WAYS = [
    torch.tensor(bits)
    for bits in ([0, 1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1], [0] * 7, [0, 1, 0, 0, 0, 0, 0])
]


def as_lists(mask):
    return mask.nonzero().tolist(), mask[mask > 0].double().tolist(), (mask[mask > 0] > 0).tolist(), mask.nonzero().T.tolist()


def asked(mask):
    numbers = mask.nonzero()[:, 0].tolist()
    return len(numbers), sum(numbers), max(numbers, default=-1), 3 in numbers, sorted(numbers, reverse=True)


def added_up(mask):
    total = 0
    for number in mask.nonzero()[:, 0].tolist():
        if number > 2:
            total = total * 10 + number
    return total


@pytest.mark.parametrize("program", [as_lists, asked, added_up])
def test_numbers_of_a_tensor_of_any_length_are_those_of_eager(program):
    agree(program, [(way,) for way in WAYS], programs=1)


def pieces(x, mask):
    return [piece * 2 for piece in torch.split(x, mask.nonzero()[:, 0].tolist())]


def folded(x, mask):
    total = x.new_zeros(())
    for piece in x.split(mask.nonzero()[:, 0].tolist(), dim=0):
        total = total * 2 + piece.sum()
    return total


def by_columns(x, mask):
    parts = torch.split_with_sizes(x.expand(2, 6), split_sizes=mask.nonzero()[:, 0].tolist(), dim=-1)
    return torch.stack([part.sum(1) for part in parts]), len(parts)


def shown(result):
    """What is in a result, without its history."""
    if isinstance(result, (list, tuple)):
        return type(result), [shown(part) for part in result]
    return result.tolist() if isinstance(result, torch.Tensor) else result


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("program", [pieces, folded, by_columns])
def test_a_tensor_is_split_by_sizes_that_only_the_program_counts(program, backend):
    static = dy2st.to_static(program, backend=backend)
    for mask in WAYS:
        results, failures = [], []
        for function in (program, static):
            x = torch.arange(6.0, requires_grad=True)
            try:
                result = function(x, mask)
                first = result[0] if isinstance(result, (list, tuple)) else result
                results.append((shown(result), torch.autograd.grad((first * first).sum(), x)[0].tolist()))
            except RuntimeError as error:
                failures.append(str(error).splitlines()[0])
        assert not failures or failures[0] == failures[1]
        assert not results or results[0] == results[1]
    assert len(static.program_cache) == 1


def doubled_in_place(x, mask):
    for piece in torch.split(x * 1, mask.nonzero()[:, 0].tolist()):
        piece.mul_(2)
    return x


@pytest.mark.parametrize("backend", ["native", "python"])
def test_pieces_are_views_that_cannot_be_changed_where_there_are_gradients(backend):
    static = dy2st.to_static(doubled_in_place, backend=backend)
    for function in (doubled_in_place, static):
        with pytest.raises(RuntimeError, match="of SplitWithSizes.* is a view and is being modified inplace"):
            function(torch.ones(6, requires_grad=True), WAYS[0])
    x = torch.arange(6.0)
    assert torch.equal(static(x, WAYS[0]), doubled_in_place(x, WAYS[0]))


@pytest.mark.parametrize("backend", ["native", "python"])
def test_attention_takes_a_mask_that_may_have_to_be_broadcast(backend):
    def program(q, k, mask, bias):
        if mask.all():
            scores = bias
        else:
            scores = torch.where(mask[:, None, None, :], bias, -1e9)
        return torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=scores)

    static = dy2st.to_static(program, backend=backend)
    for is_full in (True, False):
        q, k, mask = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 7, 4), torch.ones(2, 7, dtype=torch.bool)
        mask[0, -1] = is_full
        biases = [torch.ones(1, 2, 4, 7, requires_grad=True) for _ in range(2)]
        results = [function(q, k, mask, bias) for function, bias in zip((program, static), biases)]
        assert torch.equal(*results)
        assert torch.equal(*(torch.autograd.grad(result.sin().sum(), bias)[0] for result, bias in zip(results, biases)))
    assert len(static.program_cache) == 1


def test_a_test_and_what_is_false_is_false_on_all_ways():
    def program(x, is_wanted):
        kept = None if x.sum() > 0 else x
        both = kept is None and is_wanted
        either = kept is None or not is_wanted
        if both:
            x = x[:1]
        return both is False, either is True, x.shape[0] == 3, x

    agree(program, [(sign * torch.ones(3), is_wanted) for sign in (1, -1) for is_wanted in (False,)], programs=1)
    agree(lambda x: program(x, True), [(torch.ones(3),), (-torch.ones(3),)], programs=1)


def distances(x, step, rows):
    padding = (torch.tensor(x.shape[-1]) / step).ceil().to(torch.int64) * step - x.shape[-1]
    points = torch.nn.functional.pad(x, (0, padding)).view(-1, 4)
    return torch.cdist(points[None], rows[None], p=2)[0], torch.cdist(x, x, p=1).sum()


def test_distances_of_as_many_points_as_the_program_counts():
    rows = torch.randn(7, 4, requires_grad=True)
    calls = [(torch.randn(2, 2 * k - 1), torch.tensor(4), rows) for k in (3, 4, 80)]  # from 26 points on by products of matrices
    agree(distances, calls, spec=[dy2st.InputSpec([None, None]), dy2st.InputSpec([], "int64"), dy2st.InputSpec([7, 4])])


def resized(x, mask, mode, aligned):
    sizes = mask.sum(0).max(), mask.sum(1).max()
    image = torch.nn.functional.interpolate(x, size=sizes, mode=mode, align_corners=aligned)
    if mode == "bicubic":
        image = torch.nn.functional.interpolate(image, size=(sizes[1].item(), 3), mode=mode, antialias=True)
    return torch.nn.functional.pad(image, (0, 8, 0, 8 - sizes[0])), image


@sums_in_any_order
@pytest.mark.parametrize(
    ("mode", "aligned"), [("bilinear", True), ("bilinear", False), ("bicubic", True), ("area", None), ("nearest", None)]
)
def test_images_of_sizes_that_tensors_tell(mode, aligned):
    masks = [torch.tensor([[1] * n + [0] * (6 - n)] * m + [[0] * 6] * (6 - m)) for n, m in ((3, 2), (1, 1), (6, 5))]
    image = torch.randn(1, 3, 4, 5, requires_grad=True)
    agree(resized, [(image, mask, mode, aligned) for mask in masks])
    line = torch.randn(2, 3, 5, requires_grad=True)
    agree(
        lambda x, n: torch.nn.functional.interpolate(x, size=n.item(), mode="linear", align_corners=True),
        [(line, torch.tensor(n)) for n in (3, 1)],
    )


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_over_as_many_words_as_the_program_counts_takes_a_row_for_a_mask(kind):
    def program(x, n):
        x = x[:, : n.item()]
        heads = x.view(*x.shape[:2], 2, 8).transpose(1, 2)
        mask = (x[:, :, 0] > -1)[:, None, None, :]
        if kind == "float":
            mask = torch.zeros(mask.shape).masked_fill(~mask, -1e9)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)

    agree(program, [(torch.randn(2, 6, 16, requires_grad=True), torch.tensor(n)) for n in (5, 1, 3)])


ROWS = [
    torch.tensor([1.0, 2.0, -1.0]),
    torch.tensor([3.0, -1.0, 0.5]),
    torch.tensor([1.0, -1.0, -2.0]),
    torch.tensor([1.0, 2.0, 3.0]),
]


def test_rows_of_a_mask_are_unpacked_or_raise():
    def f(x):
        a, b = x[x > 0]
        return a * b, a.dim()

    agree(f, [row.clone().requires_grad_() for row in ROWS])


def test_rows_are_unpacked_in_nested_targets_and_branches():
    def f(x):
        first, (a, b) = x, torch.stack([x, x * 2]).view(-1, 3)[x[:2].abs() > 0]
        if x.sum() > 0:
            [(c, d)] = [x[x != 0.5][:2]]
            a = a + c
        return first, a, b

    agree(f, ROWS)


def test_sequences_of_any_lengths_are_padded():
    def f(x):
        parts = [x[x > 0], x * 2, x[x < 0]]
        padded = pad_sequence(parts, batch_first=True, padding_value=-1.0)
        mask = padded != -1
        return padded, pad_sequence([part[:, None] for part in parts[::2]]), mask.sum(1), padded.shape[1]

    agree(f, [row.clone().requires_grad_() for row in ROWS])
