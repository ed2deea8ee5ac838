"""The order of a dict's keys after branches and loops: Python's, or refused where the program does not know it."""

from __future__ import annotations

import pytest

import dy2st
from tests.oracle import agree
from tests.programs.values import signs


def other_order_in_each_branch(x):
    d = {}
    if x.sum() > 0:
        d["a"], d["b"] = x, x * 2
    else:
        d["b"] = x
        d["a"] = x * 3
    return d


def written_again(x):
    d = {}
    if x.sum() > 0:
        d["a"] = x
    d["b"] = x
    d["a"] = x * 2
    return [v for v in d.values()]


def first_on_one_side(x):
    d = {}
    if x.sum() > 0:
        d["b"] = x
    else:
        d["a"] = x
        d["b"] = x
    return f"{list(d.items())}"


@pytest.mark.parametrize("program", [other_order_in_each_branch, written_again, first_on_one_side])
def test_order_known_at_run_time_only(program):
    with pytest.raises(dy2st.CaptureError, match="the order of a dict's keys depends on a branch or loop"):
        dy2st.to_static(program)(*signs()[:1])


def same_order(x):
    d = {"z": x}
    if x.sum() > 0:
        d["a"] = x
    d["a"] = x * 2
    if x.sum() > 1:
        d["b"] = x
        d["c"] = x
    else:
        d["c"] = x
    return d, list(d), [key for key in d]


def filled_by_a_loop(x):
    d = {"c": x.abs() + 1}
    while d["c"].sum() < 50:
        d["b"] = x
        d["c"] = d["c"] * 2
        d["a"] = x
    return d


def asked_for_no_order(x):
    d = {}
    if x.sum() > 0:
        d["a"] = x
    d["b"] = x
    d["a"] = x * 2
    return d["a"], d.get("b"), len(d), "c" in d, sorted(d)


@pytest.mark.parametrize("program", [same_order, filled_by_a_loop])
def test_order_that_is_known(program):
    agree(program, signs())


def test_order_that_nobody_asks_for():
    agree(asked_for_no_order, signs())
