"""Variables of enclosing functions that nested functions rebind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dy2st import to_static
from tests.oracle import EXECUTORS
from tests.programs.state import agree_with_state

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    CASES.append(make)
    return make


@case
def nonlocal_two():
    t = torch.zeros(2)
    n = 0

    def f(x):
        def a(v):
            def b(w):
                nonlocal t, n
                t = t + w
                n += 1

            b(v)
            b(v)

        a(x)
        return x

    return f, lambda: (t, n), [P, N]


@case
def nonlocal_branch():
    t = torch.zeros(2)

    def f(x):
        def a(v):
            nonlocal t
            t = t + v

        if x.sum() > 0:
            a(x)
        return t * 1

    return f, lambda: t, [P, N, P]


@case
def nonlocal_passed():
    t = torch.zeros(2)

    def f(x):
        def a(v):
            nonlocal t
            t = t + v
            return v

        return [y for y in map(a, [x, x * 2])]

    return f, lambda: t, [P, N, P]


@case
def nonlocal_outside_callee():
    t = torch.zeros(2)

    def g(x):
        def a(v):
            nonlocal t
            t = t + v

        return a

    def f(x):
        if x.sum() > 0:
            g(x)(x)
        return x

    return f, lambda: t, [P, N, P]


@case
def nonlocal_gen():
    t = torch.zeros(2)

    def f(x):
        def gen():
            nonlocal t
            for i in range(2):
                t = t + x
                yield t

        return list(gen())

    return f, lambda: t, [P, N, P]


@case
def nonlocal_loop():
    t = torch.zeros(2)

    def f(x):
        def a(v):
            nonlocal t
            t = t + v

        while x.sum() < 20 and x.sum() > 0:
            a(x)
            x = x * 2
        return x

    return f, lambda: t, [P, N, P]


@case
def nonlocal_local_and_outer():
    t = torch.zeros(2)

    def f(x):
        s = x

        def a(v):
            nonlocal t, s
            t = t + v
            s = s + t

        a(x)
        if x.sum() > 0:
            a(x)
        return s

    return f, lambda: t, [P, N, P]


@case
def nonlocal_del():
    t = torch.zeros(2)

    def f(x):
        def a():
            nonlocal t
            t = None

        if x.sum() > 0:
            a()
        return x

    return f, lambda: t, [N, P]


@case
def nonlocal_class_body():
    t = torch.zeros(2)

    def f(x):
        class A:
            def go(self, v):
                nonlocal t
                t = t + v

        A().go(x)
        return x

    return f, lambda: t, [P, N]


@case
def nonlocal_walrus_lambda():
    t = torch.zeros(2)

    def f(x):
        def add(v):
            nonlocal t
            [t := t + u for u in (v, v)]

        add(x)
        return x

    return f, lambda: t, [P, N]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_rebound_outer_variables_are_those_of_eager(make):
    agree_with_state(make)


def in_a_branch(x, turn):
    if x.sum() < 0:
        turn()


def in_a_loop(x, turn):
    for i in range(2):
        if x.sum() < i - 1:
            turn()


def in_a_while_loop(x, turn):
    total = x.sum()
    while total < 0:
        turn()
        total = total + 5


def in_an_expression(x, turn):
    return x.sum() < 0 and turn()


def in_a_handler(x, turn):
    try:
        if x.sum() < 0:
            raise ValueError
    except ValueError:
        turn()


WAYS = [in_a_branch, in_a_loop, in_a_while_loop, in_an_expression, in_a_handler]


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("new", [1.5, 7, "s", True, None], ids=repr)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_variable_that_a_helper_rebinds_on_one_way_stays_on_the_other(way: Any, new: Any, backend: str) -> None:
    held = 2.0

    def turn() -> None:
        nonlocal held
        held = new

    def program(x: torch.Tensor) -> None:
        way(x, turn)

    static = to_static(program, backend=backend)
    for x, before in ((N, 2.0), (N, new), (P, 3.0), (P, 4), (N, new), (P, new), (P, 9.0)):
        held = before
        static(x)
        assert (type(held), held) == ((type(new), new) if x is N else (type(before), before))
