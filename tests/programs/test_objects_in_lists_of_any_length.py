"""Objects from outside in lists whose length a tensor decides: they are themselves, and what is written to them is theirs."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dy2st
from dy2st import errors, to_static


class Box:
    def __init__(self, h: torch.Tensor, count: int = 0) -> None:
        self.h, self.count = h, count

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.h = self.h + x
        return self.h


class Slots:
    __slots__ = ("h",)

    def __init__(self, h: torch.Tensor) -> None:
        self.h = h


class Table(dict):  # type: ignore[type-arg]
    pass


@dataclasses.dataclass
class Record:
    h: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Frozen:
    h: torch.Tensor


def state() -> Any:
    result = torch.nn.Module()
    result.a, result.b = Box(torch.zeros(2)), Box(torch.ones(2))
    result.d, result.e = {"n": torch.zeros(2)}, {"n": torch.ones(2)}
    result.log = []
    return result


KINDS: dict[str, Any] = {
    "object": Box(torch.ones(2)),
    "slots": Slots(torch.ones(2)),
    "dict": {"a": torch.ones(2)},
    "dict of a class": Table(a=1),
    "OrderedDict": collections.OrderedDict(a=1),
    "defaultdict": collections.defaultdict(int),
    "Counter": collections.Counter("ab"),
    "dataclass": Record(torch.ones(2)),
    "frozen dataclass": Frozen(torch.ones(2)),
    "deque": collections.deque([1]),
    "set": {1},
    "frozenset": frozenset([1]),
    "method": Box(torch.ones(2)).step,
    "partial": functools.partial(torch.add, 1),
    "closure": (lambda k: lambda x: x + k)(3),
    "generator": torch.Generator(),
    "range": range(3),
    "complex": 1 + 2j,
    "ellipsis": ...,
}
other = Box(torch.zeros(2))
holder = torch.nn.Module()


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_from_outside_is_itself_in_a_list_of_any_length(kind: str):
    holder.kept = kept = KINDS[kind]

    def f(x, n):
        out = []
        while n > 0:
            if x.sum() > n:
                out.append(holder.kept)
            else:
                out.append(other)
            n = n - 1
        return out, [item is kept for item in out]

    static = to_static(f)
    for count in (2, 0, 3, 1):
        for x in (torch.ones(2), -torch.ones(2)):
            expected, result = f(x, torch.tensor(count)), static(x, torch.tensor(count))
            assert list(map(type, result[0])) == list(map(type, expected[0]))
            assert all(
                a is b or (kind in ("range", "complex", "method") and a == b) for a, b in zip(*(r[0] for r in (result, expected)))
            )
            assert result[1] == expected[1]
    assert len(static.program_cache) == 1


def write_each(m, x, n):
    out = []
    while n > 0:
        out.append(m.a if x.sum() > n else m.b)
        n = n - 1
    for box in out:
        box.h = box.h + x
    return len(out), m.a.h, m.b.h


def write_the_last(m, x, n):
    out = []
    while n > 0:
        out.append(m.a if x.sum() > n else m.b)
        out[-1].h = out[-1].h * 2
        n = n - 1
    first = out[0] if len(out) > 0 else None
    if first is not None:
        first.count = 5
    return len(out), first is m.a


def call_methods(m, x, n):
    out = []
    while n > 0:
        out.append(m.a.step if x.sum() > n else m.b.step)
        n = n - 1
    for method in out:
        x = x + method(x)
    return x


def write_dicts(m, x, n):
    out = []
    while n > 0:
        out.append(m.d if x.sum() > n else m.e)
        n = n - 1
    for table in out:
        table["n"] = table["n"] + x
    return [table is m.d for table in out]


def keep(m, x, n):
    while n > 0:
        m.log.append(m.a if x.sum() > n else m.b)
        n = n - 1
    return [box is m.a for box in m.log]


def find(m, x, n):
    out = []
    while n > 0:
        box = m.a if x.sum() > n else m.b
        if box not in out:
            out.append(box)
        n = n - 1
    return len(out), [box is m.a for box in out]


def use_as_a_stack(m, x, n):
    stack = [m.a]
    while n > 0:
        if x.sum() > n:
            stack.append(m.b)
        n = n - 1
    total = x
    while len(stack) > 0:
        box = stack.pop()
        total = total + box.h
        box.h = total
    return total


def nest(m, x, n):
    out = []
    while n > 0:
        out.append((m.a if x.sum() > n else m.b, {"v": x, "o": m.b}, [m.a]))
        n = n - 1
    for box, table, boxes in out:
        box.h = box.h + table["v"]
        table["o"].count = table["o"].count + 1
        boxes[0].count = 7
    return [box is table["o"] for box, table, _ in out]


def order(m, x, n):
    out = [m.a]
    while n > 0:
        out.append(m.b)
        n = n - 1
    return [box is m.a for box in sorted(out, key=lambda box: box.h.sum())]


@pytest.mark.parametrize(
    "function",
    [write_each, write_the_last, call_methods, write_dicts, keep, find, use_as_a_stack, nest, order],
    ids=lambda f: f.__name__,
)
def test_items_are_written_where_they_come_from(function: Callable[..., Any], request: pytest.FixtureRequest):
    static = to_static(function)
    eager_state, static_state = state(), state()
    for again in range(2):
        for count in (2, 0, 3, 1):
            for x in (torch.ones(2), -torch.ones(2), torch.tensor([2.0, 0.5])):
                expected = function(eager_state, x, torch.tensor(count))
                result = static(static_state, x, torch.tensor(count))
                assert str(result) == str(expected)
                assert _shown(static_state) == _shown(eager_state)
        for one in (eager_state, static_state):
            one.a, one.b = one.b, one.a
            one.e, one.log = one.d, []
        assert again or len(static.program_cache) <= (24 if function is keep else 4)


def _shown(m: Any) -> Any:
    boxes = [(box.h.tolist(), box.count) for box in (m.a, m.b)]
    return boxes, [(table["n"].tolist()) for table in (m.d, m.e)], [box is m.a for box in m.log]


def test_objects_that_each_call_is_given_are_those_of_the_call():
    def f(one, other, x, n):
        out = []
        while n > 0:
            out.append(one if x.sum() > n else other)
            n = n - 1
        return out

    static = to_static(f)
    for _ in range(3):
        given = Box(torch.ones(2)), Box(torch.ones(2))
        result = static(*given, torch.ones(2), torch.tensor(3))
        assert [item is given[0] for item in result] == [False, False, True]


class Chooses(torch.nn.Module):
    def __init__(self, *options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, x, n):
        out = []
        while n > 0:
            out.append(self.options[0] if x.sum() > n else self.options[1])
            n = n - 1
        return x + len(out), out


@pytest.mark.parametrize(("options", "kind"), [(({"n": 1}, {"n": 2}), "dict"), ((Box(torch.ones(2)), Box(torch.ones(2))), "Box")])
def test_objects_in_lists_of_any_length_are_not_saved(tmp_path: Any, options: Any, kind: str):
    with pytest.raises(errors.SaveError, match=f"a value of type {kind} exists only in this process"):
        dy2st.save(Chooses(*options), tmp_path / "model.dy2st", [torch.ones(2), torch.tensor(2)])
