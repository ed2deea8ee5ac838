"""Views of keys and items as sets, with members that only the program knows: a tensor or string of which a branch decides which."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dy2st
from tests.oracle import agree as alike
from tests.worlds import World, agree, called

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
A, B, C = torch.ones(2), torch.zeros(2), torch.full((2,), 3.0)

EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "and a set": lambda d, k: d.keys() & {k},
    "and a list": lambda d, k: d.keys() & [k],
    "and a generator": lambda d, k: d.keys() & (q for q in [k]),
    "and other keys": lambda d, k: d.keys() & {k: 1}.keys(),
    "a set and": lambda d, k: {k} & d.keys(),
    "or a tuple": lambda d, k: d.keys() | (k,),
    "or other keys": lambda d, k: d.keys() | {k: 1}.keys(),
    "without a set": lambda d, k: d.keys() - {k},
    "without a dict": lambda d, k: d.keys() - {k: 1},
    "a set without": lambda d, k: {k} - d.keys(),
    "disjoint to a list": lambda d, k: d.keys().isdisjoint([k]),
    "disjoint to a set": lambda d, k: d.keys().isdisjoint({k}),
    "disjoint to a dict": lambda d, k: d.keys().isdisjoint({k: 1}),
    "own keys": lambda d, k: {k: 1}.keys() & [*d],
    "own keys, disjoint": lambda d, k: {k: 1}.keys().isdisjoint(d),
    "part of": lambda d, k: {k} <= d.keys(),
    "part of, and less": lambda d, k: {k} < d.keys(),
    "has a part": lambda d, k: d.keys() >= {k},
    "equal": lambda d, k: d.keys() == {k, *d},
    "not equal": lambda d, k: d.keys() != {k, *d},
    "equal keys": lambda d, k: d.keys() == {k: 1, **dict.fromkeys(d, 2)}.keys(),
    "a pair in items": lambda d, k: ((k, 1) in d.items(), (k, 2) in d.items()),
    "of an ordered dict": lambda d, k: collections.OrderedDict(d).keys() & {k},
    "in place": lambda d, k: in_place(d.keys(), k),
    "a frozen set, disjoint": lambda d, k: frozenset(d).isdisjoint([k]),
    "a frozen set with a list": lambda d, k: frozenset(d).intersection([k]),
    "a frozen set is a part": lambda d, k: frozenset(d).issubset([k, *d]),
    "a set is a part": lambda d, k: {k}.issubset(d),
}
OF_STRINGS: dict[str, Callable[[Any, Any], Any]] = {
    "symmetric difference": lambda d, k: d.keys() ^ {k},
    "symmetric difference to a list": lambda d, k: d.keys() ^ [k],
    "and items": lambda d, k: d.items() & {(k, 1)},
    "disjoint to items": lambda d, k: d.items().isdisjoint([(k, 1)]),
}


def in_place(names: Any, k: Any) -> Any:
    names &= {k}
    return names


def _shown(result: Any, members: list[Any]) -> Any:
    """A result in terms of what has no order."""
    if not isinstance(result, (set, frozenset)):
        return result
    return type(result), len(result), [member in result for member in members]


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_tensors(expression: Any) -> None:
    def make() -> World:
        d = {A: 1, B: 2}
        return called(lambda x: _shown(expression(d, A if x.sum() > 0 else C), [A, B, C]), [], P, N, P)

    agree(make, programs=1)


@pytest.mark.parametrize("expression", [*EXPRESSIONS.values(), *OF_STRINGS.values()], ids=[*EXPRESSIONS, *OF_STRINGS])
def test_strings(expression: Any) -> None:
    def make() -> World:
        d = {"a": 1, "b": 2}
        return called(lambda x: _shown(expression(d, "a" if x.sum() > 0 else "c"), ["a", "b", "c"]), [d], P, N, P)

    agree(make, programs=1)


def test_items_that_are_there_on_some_ways() -> None:
    def make() -> World:
        needed = {"a": 1, "b": 2}

        def f(x):
            given = {"a": x}
            if x.sum() > 0:
                given["b"] = x + 1
            missing = needed.keys() - given
            missing.add("z")
            return sorted(missing), needed.keys() <= given.keys(), sorted(given.keys() & needed), needed.keys().isdisjoint(given)

        return called(f, [needed], P, N, P)

    agree(make, programs=1)


def test_other_operands() -> None:
    """What the operators do of tensors, numbers and what is no set stays as it is."""

    def make() -> World:
        d = {"a": 1}

        def f(x):
            n = int(x.sum())
            try:
                d.keys() & n
            except TypeError as error:
                told = str(error)
            mask = (x > 0) & (x < 2)
            return told, mask ^ (x > 1), x - mask.float(), n ^ n, n - (n & n), d.items() == {("a", 1)}, sorted(d.keys() | "bc")

        return called(f, [d], P, N)

    agree(make)


def test_a_set_is_looked_for_in_sets_as_a_frozen_one():
    def f(x):
        known, n, pair = frozenset([1, 2, 3]), int(x.sum()), {1, 2}
        nested = {frozenset([1, 2]), 5}
        parts = known.issubset(pair), known.issuperset(pair), known >= pair, pair <= known, known == {3, 2, 1}
        return parts, {1, 2} in known, pair in nested, {1, 2} in nested, sorted(known ^ {1}), list(enumerate("ab", x[0])), [1] * n

    alike(f, [torch.tensor(row) for row in ([1, 2], [0, 1], [0, 0])])


def test_a_set_is_taken_out_as_a_frozen_one():
    def f(x):
        nested, pair, seen = {frozenset([1, 2]), frozenset([3]), 5}, {2, 1}, []
        if x[0] > 0:
            nested.discard(pair)
        try:
            nested.remove({3})
            nested.remove({1, 2})
        except KeyError as error:
            seen.append(str(error))
        for item in ([1], {4}, {1: 2}):
            try:
                nested.discard(item)
            except TypeError as error:
                seen.append(str(error))
        return seen, len(nested), pair

    alike(f, [torch.tensor(row) for row in ([1, 2], [0, 1])])


def test_a_counter_has_the_order_of_a_set_that_only_python_knows():
    for use in (collections.Counter, lambda items: collections.Counter([7]).update(items)):
        with pytest.raises(dy2st.CaptureError, match="their order is one of Python's own"):
            dy2st.to_static(lambda x, use=use: use(set(x.tolist())))(torch.tensor([3, 1]))
