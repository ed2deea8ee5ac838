"""Reading and writing parts of tensors at places that a tensor decides."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dy2st
from dy2st import InputSpec
from tests.devices import ends_the_process
from tests.oracle import agree, observe, same_outcome
from tests.programs.values import counts, num, signs, vec

M = torch.arange(24.0, dtype=torch.float64).view(2, 3, 4)


def places(*items):
    return [(M, count) for count in counts(*items)]


def test_a_number_of_a_tensor_reads_parts_of_every_dimension():
    def f(x, n):
        k = n.item()
        return x[k], x[:, k], x[..., k], x[k, k], x[None, k], x[-1 - k], x[0, :, n], x[n], x[k][k]

    agree(f, places(1, 0))


def test_a_number_of_a_tensor_writes_parts_of_every_dimension():
    def f(x, n):
        k = n.item()
        x = x.clone()
        x[k] = 1
        x[:, k] += 10
        x[..., k] = x[..., 0] * 2
        x[k, k, k] = k
        x[0, k] = torch.ones(4, dtype=x.dtype)
        return x

    agree(f, places(1, 0))


def test_slices_may_end_where_a_tensor_decides():
    def f(x, n):
        k = n.item()
        return x[:, :k], x[:, k:], x[:, k : k + 1], x[:, -k:], x[:, ::2], x[:, :k].sum(), x[:, : k - 1], x[0, k:, 1:k]

    agree(f, places(1, 0, 2, 3, 5))


def test_a_slice_that_a_tensor_bounds_is_written_to():
    def f(x, n):
        x = x.clone()
        x[:, n:] = 0
        x[:, :n] += 1
        return x

    agree(f, places(1, 0, 2, 3))


def test_a_mask_reads_and_writes_what_it_selects():
    def f(x):
        y = x.clone()
        y[x > 0] = 7
        y[x < 0] *= 2
        return y, x[x > 0], x[(x > 0).nonzero()[:, 0]], (x > 0).sum(), x[x > 100]

    agree(f, signs())


def test_mask_empty_and_full():
    def f(x):
        y = x[x > 0]
        return y.sum(), y.numel(), torch.cat([y, y]), y.unsqueeze(0), y * y

    agree(f, [vec(1, -1, 1), vec(-1, -1, -1), vec(1, 1, 1), vec(-1, 1, -1)])


def test_a_tensor_of_indices_selects_in_each_dimension():
    def f(x, i):
        return x[i], x[:, i], x[i, i], x.index_select(1, i)

    agree(f, [(M, torch.tensor([0, 1])), (M, torch.tensor([1, 1]))])


def test_an_argmax_indexes_the_tensor_it_comes_from():
    def f(x):
        i = x.argmax()
        return x[i], x[i.item()], x[: i + 1], i

    agree(f, [vec(1, 2, 3), vec(3, 2, 1), vec(1, 5, 2)])


def test_an_index_out_of_range_raises_as_in_eager():
    def f(x, n):
        return x[n.item()]

    agree(f, [(vec(1, 2, 3), c) for c in counts(2, 0, -3, 3, -4)])


def test_out_of_range_in_torchs_words(tmp_path):
    def parts(x, n, way):
        k, way = n.item(), way.item()
        cube = x.reshape(1, 3, 1).expand(2, 3, 4).clone()
        if way == 0:
            return cube[..., k]
        if way == 1:
            return cube[None, 0, :, n]
        if way == 2:
            return cube[0][k, 1]
        if way == 3:
            cube[:, k] = 1.0
            return cube
        return x.select(0, k)

    calls = [(vec(1, 2, 3), n, way) for n in counts(0, 7, -9) for way in counts(0, 1, 2, 3, 4)]
    agree(parts, calls)
    dy2st.save(parts, tmp_path / "parts.dy2st", input_spec=[InputSpec([3], "float64"), *[InputSpec([], "int64")] * 2])
    loaded = dy2st.load(tmp_path / "parts.dy2st")
    assert all(same_outcome(observe(parts, call), observe(loaded, call)) for call in calls)


def test_out_of_range_of_a_dynamic_size():
    def second(x):
        return x[1], x[-2]

    agree(second, [vec(1, 2, 3), vec(1), vec()], spec=[InputSpec([None], "float64")])


@pytest.mark.parametrize("rank", [0, 1])
def test_an_index_with_too_many_parts_raises_as_in_eager(rank):
    def number(x, n):
        return (x.sum() if rank == 0 else x[..., None])[n.item(), n.item(), n.item()]

    def one(x, n):
        return x.sum()[n]

    def one_number(x, n):
        return x.sum()[n.item()]

    for function in (number, one, one_number):
        agree(function, [(vec(1, 2, 3), n) for n in counts(0)], programs=None)


def test_write_in_a_loop():
    def f(x, n):
        y = torch.zeros(8, dtype=x.dtype)
        for i in range(n):
            y[i] = x[i % 3] + i
            y[i + 1 :] = i
        return y

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1, 7)])


def test_gradients_flow_through_items_read_and_written_at_dynamic_places():
    def f(x, n):
        y = x * 2
        total = y.sum() * 0
        for i in range(n):
            total = total + y[i % 3] * i
        z = y.clone()
        z[n % 3] = total
        return z

    agree(f, [(vec(1, 2, 3, grad=True), c) for c in counts()])


def test_items_are_swapped_in_place_where_a_tensor_decides():
    def f(x):
        x = x.clone()
        for i in range(2):
            if x[i] > x[i + 1]:
                t = x[i].clone()
                x[i] = x[i + 1]
                x[i + 1] = t
        return x

    agree(f, [vec(3, 2, 1), vec(1, 2, 3), vec(2, 3, 1)])


def test_swap_of_views_as_python_does_it():
    def f(x):
        x = x.clone()
        if x[0] > x[1]:
            x[0], x[1] = x[1], x[0]
        return x

    agree(f, [vec(3, 2, 1), vec(1, 2, 3)])


def test_a_bubble_sort_in_place_sorts_as_in_eager():
    def f(x, n):
        x = x.clone()
        for i in range(n):
            for j in range(n - 1 - i):
                if x[j] > x[j + 1]:
                    t = x[j].clone()
                    x[j] = x[j + 1]
                    x[j + 1] = t
        return x

    calls = [((3, 2, 1, 0), 4), ((1, 9, 3, 2), 4), ((1, 2, 3, 0), 0)]
    agree(f, [(vec(*items), num(n, torch.int64)) for items, n in calls])


def test_a_bool_tensor_of_no_dimension_is_an_index():
    def f(x):
        flag = x.sum() > 0
        return x[flag], x[~flag]

    agree(f, signs())


def test_truth_value_as_index():
    def f(x):
        flag = bool(x.sum() > 0)
        y = x.clone()
        y[flag] = 9
        return x[flag], x[None, flag], y

    agree(f, signs())


def test_an_index_of_dynamic_length_gathers_and_adds():
    def f(x, n):
        i = torch.arange(n.item()) % 3
        return x[i], torch.zeros(3, dtype=x.dtype).index_add(0, i, x[i])

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1, 7)])


def test_a_value_that_is_sometimes_no_container_raises_where_it_is_indexed():
    def masked(x):
        v = 0
        if x.sum() > 0:
            v = x * 2
        low = v > 1
        if not isinstance(v, torch.Tensor):
            return x
        return v[low].sum()

    def at_a_position(x):
        v = None if x.sum() > 0 else x
        return v[x.argmax()]

    def of_a_number(x):
        n = x.sum().item()
        return n[x > 0] if x[0] > 0 else x

    def caught(x):
        v = True if x.sum() > 0 else x
        try:
            return v[x > 0].sum()
        except TypeError:
            return x

    for function in (masked, at_a_position, of_a_number, caught):
        agree(function, signs())


def test_one_hot_has_as_many_classes_as_a_tensor_says():
    def found(i):
        return F.one_hot(i), F.one_hot(i, 5)

    def at_least(i):
        y = F.one_hot(i, max((i.max() + 1).item(), 3))
        return y[..., :3], y.sum(0), y.float() @ torch.ones(y.shape[-1], 2)

    def in_a_branch(i, n):
        k = n.item()
        return F.one_hot(i, k) * 2 if i.sum() > 3 else F.one_hot(i + 1, num_classes=k)

    def by_a_tensor(i):
        return F.one_hot(i, max(i.amax() + 1, 3))[..., :3].cumsum(0)

    several = [torch.tensor(items) for items in ([0, 2, 1], [1, 1], [[0, 4]], [0, 1, 0])]
    agree(found, several, programs=None)
    agree(at_least, several, programs=None)
    agree(by_a_tensor, several, programs=None)
    agree(in_a_branch, [(several[0], torch.tensor(n)) for n in (4, -1, 1, -2, 3)] + [(several[3], torch.tensor(4))])


def test_lists_and_tuples_of_numbers_of_tensors_are_indices():
    def program(x, places):
        rows, cols = zip(*places)
        y = x.clone()
        y[rows, cols] = 0.0
        y[list(rows), None] += 2.0
        return (
            y,
            x[rows, cols],
            x[list(rows), 1],
            x[:, list(cols)],
            x[rows, [0] * len(rows)],
            x[(places[0, 0].item(), 1), (0, cols[1])],
        )

    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    agree(program, [(x, torch.tensor(places)) for places in ([[0, 1], [3, -4], [0, 1]], [[1, 1], [2, -1], [-3, 0]])])


@ends_the_process
def test_numbers_of_tensors_that_are_no_indices():
    def program(x, places):
        rows, cols = zip(*places)
        return x[rows, cols]

    places = [[0, 1], [3, -4], [0, 1]], [[1, 1], [2, -1], [-3, 0]], [[0, 1], [1, 4], [0, 0]]
    agree(program, [(torch.randn(4, 4, requires_grad=True), torch.tensor(place)) for place in places])


MANY = torch.tensor([1, 2, -1]), torch.tensor([3, 0, 0]), torch.tensor([0, 0, 0])


def _rows_and_columns_of_numbers(x, places):
    kept = places[places > 0]
    both = torch.stack([kept, kept - 1]).tolist()
    y = x.clone()
    y[both] = 7.0  # torch takes a list of lists for a tuple
    return x[both], y


def _rows_and_columns_of_tensors(x, places):
    rows, cols = list(places[places > 0]), [place - 1 for place in places if place > 0]
    return x[rows, cols], x[:, rows]  # of an empty list, too, torch makes an index of integers


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("program", [_rows_and_columns_of_numbers, _rows_and_columns_of_tensors])
def test_lists_of_any_length_are_indices(program):
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    agree(program, [(x, places) for places in MANY])


def test_a_list_of_tensors_of_any_length_is_no_index_by_itself():
    @dy2st.to_static
    def program(x, places):
        return x[list(places[places > 0])]

    with pytest.raises(dy2st.CaptureError, match="takes one of less than 32 for a tuple"):
        program(torch.ones(4, 4), MANY[0])
