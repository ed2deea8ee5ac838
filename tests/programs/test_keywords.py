"""`**mapping` in calls: mappings that a tensor chooses, whose keys or their order differ from way to way."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree, calls

UP, DOWN, ZERO = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0]), torch.zeros(2)


def named(a: Any = 0.0, b: Any = 1.0, **more: Any) -> Any:
    return a + 2 * b + sum(more.values()), list(more)


class Pair:
    def __init__(self, first: Any, second: Any = 1.0) -> None:
        self.first, self.second = first, second


class Mapping:
    """A mapping of the user's own."""

    def __init__(self, table: Any) -> None:
        self.table, self.asked = table, 0

    def keys(self) -> Any:
        self.asked += 1
        return list(self.table)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key] * 2


def check(function: Any, *roots: Any, programs: int | None = 1) -> None:
    agree(lambda: World(function, roots, calls(UP, DOWN, ZERO, UP)), programs=programs)


def test_one_of_two_dicts():
    def function(x):
        chosen = {"a": x} if x.sum() > 0 else {"b": x, "c": x + 1}
        return named(**chosen)

    check(function)


def test_dicts_from_outside_are_changed_and_spread_as_keywords():
    def make():
        one, other = {"a": torch.ones(2)}, {"c": torch.zeros(2), "b": torch.ones(2)}

        def function(x):
            chosen = one if x.sum() > 0 else other
            chosen["c"] = x
            return named(**chosen)

        return World(function, (one, other), calls(UP, DOWN, UP, ZERO))

    agree(make)


def test_the_order_is_that_of_the_way():
    def function(x):
        table = {}
        if x.sum() > 0:
            table["u"] = x
            table["v"] = x
        else:
            table["v"] = x
            table["u"] = x + 1
        return named(**table), named(w=x, **table), list(dict(**table)), list({**table})

    check(function)


def test_items_that_are_there_on_some_ways():
    def function(x):
        table = {"q": x}
        if x.sum() > 0:
            table["a"] = x
            table.pop("q")
        if x.sum() >= 0:
            table["q"] = x + 1
        return named(**table)

    check(function)


def test_several_mappings_join_or_clash_in_one_call():
    def function(x):
        one = {"u": x} if x.sum() > 0 else {"v": x}
        other = {"a": x, "w": 1.0} if x.sum() >= 0 else {}
        return named(0.5, **one, z=x, **other)

    with pytest.raises(TypeError, match="multiple values"):
        function(UP)

    def fitting(x):
        return named(**({"u": x} if x.sum() > 0 else {"v": x}), z=x, **({"a": x, "w": 1.0} if x.sum() >= 0 else {}))

    check(function)
    check(fitting)


def test_classes_partial_functions_and_methods():
    def function(x):
        chosen = {"second": x} if x.sum() > 0 else {}
        made = Pair(x, **chosen)
        table = {"b": x} if x.sum() > 0 else {"c": x}
        partial = functools.partial(named, a=x)
        dims = {"dim": 0} if x.sum() > 0 else {"dim": 0, "keepdim": True}
        return made.first, made.second, partial(**table), x.sum(**dims), torch.sum(x, **dims)

    check(function)


def test_mappings_of_the_users():
    def function(x):
        mapping = Mapping({"a": x, "c": x + 1}) if x.sum() > 0 else Mapping({"b": x})
        user = collections.UserDict(a=x)
        return named(**mapping), mapping.asked, named(**user), named(**collections.OrderedDict(c=x, b=x))

    check(function)


def test_what_is_no_mapping():
    def function(x):
        chosen = {"a": x} if x.sum() > 0 else None
        return named(**chosen)

    check(function)


def test_a_keyword_that_is_given_twice():
    def function(x, log):
        log.append(x)
        return named(a=x, **{"a": x}) if x.sum() > 0 else named(**{"a": x}, **{"b": x})

    outcomes = []
    for used in (function, dy2st.to_static(function)):
        log: list[Any] = []
        with pytest.raises(TypeError, match=r"test_keywords.named\(\) got multiple values for keyword argument 'a'"):
            used(UP, log)
        outcomes.append((used(DOWN, log), len(log)))
    assert str(outcomes[0]) == str(outcomes[1])


def test_keys_that_are_no_strings():
    def function(x):
        return named(**({1: x} if x.sum() > 0 else {"a": x}))

    check(function)
