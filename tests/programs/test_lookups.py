"""Lookups where only the program knows the key."""

from __future__ import annotations

import collections
from typing import Any

import torch

from dy2st import to_static
from tests.oracle import agree

CALLS = [(sign * torch.ones(2), torch.tensor(key)) for sign in (1, -1) for key in (0, 1, 2, -3)]


def test_item_that_may_be_there() -> None:
    def f(x: Any, n: Any) -> Any:
        table = {0: x * 2, True: x * 4}
        if x.sum() > 0:
            table[2] = x * 3
        return table[n.item()]

    agree(f, CALLS)


def test_get_returns_the_item_or_the_default() -> None:
    def f(x: Any, n: Any) -> Any:
        table = {0: x, "name": -x}
        if x.sum() > 0:
            table[1] = x * 5
        return table.get(n.item(), x * 7), table.get(n.item()), n.item() in table

    agree(f, CALLS)


def test_what_a_lookup_gives_is_there() -> None:
    def f(x: Any, n: Any) -> Any:
        table, rows = {1: x * 2}, torch.zeros(4, 2)
        table.pop(n.item() - 2, None)
        rows[abs(n.item())] = table.get(n.item(), x)
        try:
            rows[3] = table[n.item()]
        except KeyError:
            rows[3] = -x
        return rows

    agree(f, CALLS)


def test_keys_by_what_is_under_them_behind_a_loop_that_is_left() -> None:
    def f(x: Any, n: Any) -> Any:
        sizes: dict[Any, Any] = {}
        for step in range(4):
            for key in range(3):
                sizes[key] = len(x[x > key - step])
            if x.sum() > step + n:
                break
        return sorted(sizes, key=sizes.get), max(sizes, key=sizes.get)  # type: ignore[arg-type]

    agree(f, [(torch.tensor(values), torch.tensor(n)) for values in ([1.0, 2.0, 3.0], [0.0, 5.0, 2.0]) for n in (0, 7)])


def test_counter_has_zero_of_what_is_missing() -> None:
    def f(x: Any, n: Any) -> Any:
        counts = collections.Counter([0, 0, 1])
        return counts[n.item()] + 1, len(counts), x

    agree(f, CALLS)


def test_a_defaultdict_without_a_factory_raises_for_missing_keys() -> None:
    def f(x: Any, n: Any) -> Any:
        table = collections.defaultdict(None, {0: x, 1: -x})
        return table[n.item()]

    agree(f, CALLS)


def test_lookups_see_later_changes_of_a_table_from_outside() -> None:
    table = {0: torch.ones(2), 1: torch.zeros(2)}
    static = to_static(lambda x, n: table[n.item()] + table.get(n.item(), x))
    for change in (lambda: None, lambda: table[1].add_(4), lambda: table.update({1: torch.full((2,), 3.0)})):
        change()
        for key in (0, 1):
            assert torch.equal(static(torch.ones(2), torch.tensor(key)), table[key] * 2)


def test_dicts_that_put_in_what_is_missing() -> None:
    def f(x: Any, lengths: Any) -> Any:
        groups = collections.defaultdict(list)
        for row, length in zip(x, lengths):
            groups[length.item()].append(row)
        return dict(groups)

    agree(f, [(torch.ones(2), torch.tensor([1, 1])), (torch.ones(2), torch.tensor([2, 1]))])
