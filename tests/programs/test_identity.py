"""Which values are one object: what is changed through one name is seen through every other, and results keep it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import dy2st
import dy2st_runtime
from tests.oracle import agree

UP, DOWN = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([-1.0, -2.0], dtype=torch.float64)
CALLS = [UP, DOWN]
TRIPS = [(UP, torch.tensor(n)) for n in (3, 0, 1, 2)]


def test_a_list_in_the_result_twice() -> None:
    def f(x):
        items = [x]
        if x.sum() > 0:
            items[0] = x + 1
        return items, [items], {"k": items}, (items[0],)

    agree(f, CALLS)


def test_argument_containers_come_back() -> None:
    def f(items, table):
        if items[0].sum() > 0:
            items.append(items[0] * 2)
            table["b"] = items[0]
        else:
            items.append(items[0])
            table["b"] = table["a"] * 2
        return items, table, items[0], table["b"]

    agree(f, [([UP], {"a": DOWN}), ([DOWN], {"a": UP})])


def test_a_list_of_the_module_comes_back() -> None:
    class Logger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log = [UP]

        def forward(self, x):
            self.last = self.log
            return self.log, x

    static = dy2st.to_static(Logger())
    assert static(UP)[0] is static.log is static.last


def test_one_of_two_lists_made_in_branches() -> None:
    def f(x):
        if x.sum() > 0:
            items = [x]
            same, table = items, {"k": items}
        else:
            items = [x + 1]
            same, table = items, {"k": items}
        same[0] = same[0] * 2
        table["k"].append(x)
        return items, same, table

    agree(f, CALLS)


def test_an_older_list_or_a_new_one() -> None:
    def f(x):
        items = [x]
        other = items if x.sum() > 0 else [x + 1]
        other.append(x * 3)
        other[0] = other[0] * 2
        return items, other, len(items)

    agree(f, CALLS)


def test_lists_that_are_swapped_and_changed() -> None:
    def f(x):
        a, b = [x], [x + 1]
        first = a
        if x.sum() > 0:
            a, b = b, a
            a[0] = a[0] * 10
        b[0] = b[0] + 1
        for item in a:
            x = x + item
        (only,) = b
        return a, b, first, x, only, len(a)

    agree(f, CALLS)


def test_objects_that_are_swapped_and_changed() -> None:
    @dataclasses.dataclass
    class Cell:
        h: Any

    def f(x):
        a, b = Cell(x), Cell(x + 1)
        first, table = a, {"k": x}
        other = table if x.sum() > 0 else {"k": x * 2}
        if x.sum() > 0:
            a, b = b, a
        a.h = a.h * 10
        other["k"] = other["k"] + 1
        return a.h, b.h, first.h, table, other

    agree(f, CALLS)


def test_lists_of_other_lengths() -> None:
    def f(x):
        short, long = [x], [x, x + 1]
        chosen = short if x.sum() > 0 else long
        return len(chosen), chosen[0] * len(chosen), chosen

    agree(f, CALLS)


def test_what_a_branch_writes_before_it_raises_is_not_there() -> None:
    class Box:
        pass

    def f(x):
        box, table = Box(), {}
        if x.sum() > 0:
            box.h = x
            table["h"] = x
            raise ValueError("up")
        box.g = x
        return table, box.g

    agree(f, CALLS)


def test_lambdas_of_a_comprehension_share_its_variable() -> None:
    def f(x):
        made = [lambda y: y * i for i in range(3)]
        own = [lambda y, i=i: y * i for i in range(3)]
        if x.sum() > 0:
            made = made[::-1]
        return [g(x) for g in made], [g(x) for g in own]

    agree(f, CALLS)


def test_containers_shared_in_a_saved_model(tmp_path: Any) -> None:
    def f(x):
        items = [x * 2]
        return items, (items, [items[0]])

    dy2st.save(f, tmp_path / "f.dy2st", [dy2st.InputSpec([2], "float64")])
    one, (two, three) = dy2st_runtime.load(tmp_path / "f.dy2st")(UP)
    assert one is two
    assert one is not three
    assert one[0] is three[0]


@pytest.mark.parametrize("kind", [torch.int64, torch.bfloat16])
def test_a_tensor_changed_in_place_through_every_name(kind: torch.dtype) -> None:
    class Box:
        pass

    def f(x, n):
        box, items, table = Box(), [x], {"k": x}
        box.h, row, same = x, x[0], x
        for i in range(n):
            if x.sum() > 0:
                same -= 1
                row -= 1
            else:
                items[0] += 2
                table["k"] *= 2
                box.h[1] -= i
        return x, same, items, table, box.h

    agree(f, [(x.to(kind), n) for x, n in TRIPS] + [(DOWN.to(kind), torch.tensor(2))])


def after_a_loop(x, n):
    a = [x]
    c = a
    for _ in range(n):
        a = [a[0] + 1]
    a[0] = a[0] * 10
    return a, c


def inside_a_loop(x, n):
    a, b = {"h": x}, {"h": x + 5}
    for _ in range(n):
        a = {"h": a["h"] + 1}
        b = a
    a["h"] = a["h"] * 10
    return a, b


def of_the_caller(items, n):
    for _ in range(n):
        items = [items[0] + 1]
    items[0] = items[0] * 10
    return items


@pytest.mark.parametrize("function", [after_a_loop, inside_a_loop, of_the_caller])
def test_a_list_that_a_loop_replaces_and_that_is_changed_under_another_name(function: Any) -> None:
    first = [UP] if function is of_the_caller else UP
    with pytest.raises(dy2st.CaptureError, match="may be the same object as one that is changed"):
        dy2st.to_static(function)(first, torch.tensor(2))


def test_a_list_that_a_loop_replaces_and_that_nobody_else_holds() -> None:
    def f(x, n):
        state, best = [x, x + 1], {"h": x}
        for i in range(n):
            state = [state[1], state[0] + 1]
            best = {"h": state[0] + i}
        state[0] = state[0] * 2
        best["h"] = best["h"] - 1
        state.append(x)
        return state, best, len(state)

    agree(f, TRIPS)
