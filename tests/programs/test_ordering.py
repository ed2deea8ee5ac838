"""Sorting, searching and editing lists by values that are known only at run time."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree

XS = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([1.0, 3.0, 2.0], [-1.0, -2.0, -3.0], [5.0, -9.0, 5.0])]
NS = [torch.tensor(n) for n in (2, 0, 1, 5)]


def test_sorted_is_stable() -> None:
    def f(x):
        pairs = [(v.item(), k) for k, v in enumerate(x)]
        rows = sorted(x, key=lambda v: -v.abs())
        return sorted(pairs), sorted(pairs, key=lambda p: -p[0], reverse=True), rows, sorted([v.item() for v in x], reverse=True)

    agree(f, XS)


def test_sort_in_place_through_an_alias() -> None:
    def f(n):
        items = [3]
        other = items
        for k in range(n):
            items.append((k * 7) % 5)
        items.sort()
        other.remove(3)
        other.sort(key=lambda v: -v)
        return items, other is items, items.count(2), 2 in other

    agree(f, NS)


def test_methods_of_a_list_of_known_length() -> None:
    def f(x):
        items = [v.item() for v in x]
        items.sort()
        place = items.index(x.max().item())
        items.remove(items[0])
        return items, place, items.count(5.0)

    agree(f, XS)


def test_what_is_not_there_raises() -> None:
    def f(n):
        items = [3]
        for k in range(n):
            items.append(k)
        return items.index(4)

    agree(f, [torch.tensor(5), torch.tensor(2), torch.tensor(0)])


def test_items_out_of_an_empty_list() -> None:
    def f(n):
        items = []
        last = -1
        for k in range(n):
            if k > 1:
                last = items[-1]
            items.append(k * 2)
        return last, items

    agree(f, NS)


@pytest.mark.parametrize("function", [min, max])
def test_min_and_max_take_keys_and_defaults(function) -> None:
    def f(n, x):
        rows = torch.cat([x, x[:n] * 2])
        pairs = [(row, k) for k, row in enumerate(rows)]
        best, place = function(pairs, key=lambda pair: pair[0].abs())
        return function(rows), best, place, function(x[:n], default=None), function(row * 2 for row in rows)

    agree(f, [(n, x) for n in NS for x in XS])


def test_extreme_of_nothing_raises() -> None:
    def f(n, x):
        return max(x[:n])

    agree(f, [(n, XS[0]) for n in NS])


def test_lists_of_tuples_are_filled_changed_and_unpacked() -> None:
    def f(n, x):
        items = [(x, 0, (x.sum(), 1.5))]
        for k in range(n):
            items.append((x * k, k, (x.sum() * k, float(k))))
            if k == 3:
                items.pop(0)
        total = x
        for row, k, (s, f) in items:
            total = total + row * k + s * f
        last, number, (s, f) = items[-1]
        items[0] = (x, 7, (s, f))
        return total, last, number, s, f, items, len(items), [row.sum() for row, _, _ in items]

    agree(f, [(n, x) for n in NS for x in XS[:1]])


def test_slices_are_replaced_and_deleted() -> None:
    def f(n, x):
        items = [x]
        for k in range(n):
            items.append(x * k)
        items[1:] = [x, x * 9]
        items[0:0] = items[-1:]
        del items[1], items[-1]
        copies = items * 2 + [x] * n
        del copies[::2]
        return items, copies, [0] * int(n), (2 * [n.item()])

    agree(f, [(n, x) for n in NS for x in XS[:1]])


def test_membership_of_tensors_and_numbers_is_that_of_eager() -> None:
    def f(n, x):
        items = []
        for k in range(n):
            items.append(x[k % 3] * k)
        return x[1] in items, 0.0 in items, n.item() in range(1, n + 2), x in [x, x * 2], n.item() in {1: 2, 5: 3}.keys()

    agree(f, [(n, x) for n in NS for x in XS])
