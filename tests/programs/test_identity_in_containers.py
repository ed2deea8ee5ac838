"""Objects, modules and bound methods that Python's own containers hash and compare by identity; calls where they are others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dy2st import to_static


class Item:
    pass


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Holder:
    pass


a, b, c = Item(), Item(), Item()
p, q = Scale(2), Scale(3)
m, n = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
kept = p.apply
first, second = [1], [1]
X = torch.ones(2)
SEEN = {a}
ORDER = {a: 1, b: 2}
METHODS = {p.apply: 1}
MODULES = {m: 1}
holder = Holder()


def counted(one: Any, other: Any, x: torch.Tensor) -> torch.Tensor:
    counts = {one: 1}
    counts[other] = counts.get(other, 0) + 5
    return x + counts[one]


def popped(one: Any, other: Any, x: torch.Tensor) -> Any:
    table = {one: 1}
    return table.pop(other, None), x + len(table)


def discarded(one: Any, other: Any, x: torch.Tensor) -> Any:
    members = {one, None}
    members.discard(other)
    return x + len(members)


def on_one_way(one: Any, other: Any, x: torch.Tensor) -> Any:
    result = {}
    if x.sum() > 0:
        result[one] = 1
    result[other] = 2
    return x + len(result)


ASKED = {
    "equal": lambda one, other, x: (one == other, one != other, x),
    "hashes": lambda one, other, x: (hash(one) == hash(other), x),
    "members of a set": lambda one, other, x: x + len({one, other}),
    "keys": counted,
    "keys of tuples": lambda one, other, x: x + len({(one, 1): 1, (other, 1): 2}),
    "keys on one way": on_one_way,
    "pop": popped,
    "discard": discarded,
    "fromkeys": lambda one, other, x: x + len(dict.fromkeys([one, other])),
    "tuples": lambda one, other, x: ((one, 1) == (other, 1), x),
    "lists": lambda one, other, x: ([one] == [other], x),
    "dicts": lambda one, other, x: ({1: one} == {1: other}, x),
    "in": lambda one, other, x: (one in [other], one in {other}, one in (None, other), x),
    "index": lambda one, other, x: x + [None, one, other].index(other),
    "count": lambda one, other, x: x + [one, other].count(one),
}
PAIRS = {
    "objects": [(a, b), (a, a), (b, b), (b, a)],
    "methods": [(p.apply, q.apply), (p.apply, p.apply), (q.apply, q.apply), (kept, kept)],
    "methods of lists": [(first.append, second.append), (first.append, first.append)],
    "modules": [(m, n), (m, m), (n, n)],
    "functions": [(counted, popped), (counted, counted)],
    "partial functions": [(functools.partial(p.apply), functools.partial(p.apply))],
    "the same first": [(a, a), (a, b), (b, b)],
}


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=list(PAIRS))
@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_whether_two_arguments_are_one_object_is_asked_at_each_call(asked: Callable[..., Any], pairs: list[Any]):
    if asked is ASKED["hashes"] and pairs is PAIRS["methods of lists"]:
        pairs = pairs[:1]
    static = to_static(asked)
    for one, other in pairs * 2:
        expected, result = asked(one, other, X), static(one, other, X)
        assert str(result) == str(expected)


LOOKED_UP = {
    "member": (lambda one, x: (one in SEEN, x), [a, b, a, c]),
    "key": (lambda one, x: x + ORDER[one], [a, b, a]),
    "key with a default": (lambda one, x: x + ORDER.get(one, 0), [c, a, b, c]),
    "method": (lambda one, x: x + METHODS.get(one, 0), [p.apply, q.apply, kept]),
    "module": (lambda one, x: (MODULES.get(one), one in MODULES, one(x).shape), [m, n, m]),
    "module that is not there": (lambda one, x: (MODULES.get(one), one in MODULES, one(x).shape), [n, m, n]),
}


@pytest.mark.parametrize(("lookup", "arguments"), LOOKED_UP.values(), ids=list(LOOKED_UP))
def test_an_object_is_looked_up_at_each_call(lookup: Callable[..., Any], arguments: list[Any]):
    static = to_static(lookup)
    for one in arguments:
        assert str(static(one, X)) == str(lookup(one, X))


def keep(one: Any, x: torch.Tensor) -> torch.Tensor:
    holder.callback = one
    return x + 1


def choose(one: Any, x: torch.Tensor) -> Any:
    return one if x.sum() > 0 else None


RETURNED = {
    "itself": lambda one, x: one,
    "in containers": lambda one, x: {"a": one, "b": [one, (one,)]}["b"][1][0],
    "on one way": choose,
    "kept": lambda one, x: (keep(one, x), holder.callback)[1],
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=list(RETURNED))
@pytest.mark.parametrize(
    "methods",
    [(p.apply, q.apply, kept), (m.forward, n.forward), (first.append, second.append), (kept, kept, p.apply)],
    ids=["of objects", "of modules", "of lists", "one object"],
)
def test_a_bound_method_that_is_given_is_given_back(returned: Callable[..., Any], methods: tuple[Any, ...]):
    static = to_static(returned)
    for method in methods:
        assert static(method, X) is method


def test_a_method_is_bound_to_the_object_of_each_call():
    static = to_static(lambda owner, x: (owner.apply, x))
    for owner in (p, q, p):
        assert static(owner, X)[0] == owner.apply


def test_a_dict_with_keys_that_are_tensors_is_asked_for_an_argument():
    one, other = torch.ones(2), torch.ones(2)
    table = {one: 1}
    static = to_static(lambda key, x: (table.get(key), x))
    for key in (other, one, torch.ones(2)):
        assert static(key, X)[0] == table.get(key)
    assert len(static.program_cache) == 1
    table[other] = 2
    for key in (other, one, torch.ones(2)):
        assert static(key, X)[0] == table.get(key)
