"""Variables of enclosing functions that nested functions rebind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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
