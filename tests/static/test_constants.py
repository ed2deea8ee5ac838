"""Python constants that are equal and not the same: True, 1 and 1.0; signs of zeros, of complex numbers too; a nan is like any other."""

from __future__ import annotations

import types

import pytest
import torch

import dy2st

X = torch.ones(1)
NAN = float("nan")
VALUES = [0.0, -0.0, 0, False, True, 1, 1.0, complex(-1, 0.0), complex(-1, -0.0), complex(0.0, -0.0), NAN, float("inf")]
holder, table = types.SimpleNamespace(), {}
number = None


def of_global(x):
    return number, x


def of_attribute(x):
    return holder.value, holder.items, x


def of_item(x):
    return table["value"], table["nested"], x


def of_keys(x):
    return list(table["keys"].items()), x


def of_set(x):
    return sorted(map(repr, table["set"])), x


def of_long_list(x):
    return table["long"][0], x


def of_default(x, a=0.0):
    return a, x


def put(value):
    global number
    number, holder.value, holder.items, of_default.__defaults__ = value, value, [value, 2], (value,)
    table.update(value=value, nested=(1, (value, 2)), keys={value: 1}, set={value, 5}, long=[value] * 40)


@pytest.mark.parametrize("function", [of_global, of_attribute, of_item, of_keys, of_set, of_long_list, of_default])
def test_what_is_read_from_outside(function):
    static, counts = dy2st.to_static(function), []
    for _ in range(2):
        for value in VALUES:
            put(value)
            assert repr(static(X)) == repr(function(X))
        counts.append(len(static.program_cache))
    assert counts[0] == counts[1] <= len(VALUES)


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v, [v]), lambda v: {"a": v}, lambda v: {v: 1}, lambda v: slice(v, 1)])
def test_equal_arguments_that_are_not_the_same_are_told_apart(wrap):
    def f(x, a):
        return repr(a), x

    static = dy2st.to_static(f)
    for _ in range(2):
        for value in VALUES:
            assert static(X, wrap(value))[0] == f(X, wrap(value))[0]
    assert len(static.program_cache) <= len(VALUES)  # a number that is often another becomes an input


def test_a_nan_that_is_new_at_each_call_needs_no_new_program():
    def f(x, a):
        return a, x

    static = dy2st.to_static(f)
    for _ in range(3):
        static(X, (float("nan"), [complex(float("nan"), 0)]))
        static(X, slice(float("nan"), None))
    assert len(static.program_cache) == 2
    static = dy2st.to_static(of_attribute)
    for _ in range(3):
        put(float("nan"))
        static(X)
    assert len(static.program_cache) == 1
