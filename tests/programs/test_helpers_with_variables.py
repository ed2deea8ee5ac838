"""Functions with variables of a function around them, called first where a tensor decides: the variables are guarded all the same."""

from __future__ import annotations

import torch

import dy2st
from tests.programs.state import agree_with_state


def signs():
    return [torch.tensor([v, 1.0]) for v in (1.0, -2.0, 1.0, 3.0)]


def test_dicts_that_they_write():
    def make():
        known = {}

        def count(x):
            known["count"] = known.get("count", 0) + 1
            return x

        def f(x):
            return count(x) * 2 if x.sum() > 0 else x

        return f, lambda: known, signs()

    agree_with_state(make)


def test_lists_that_they_fill_in_a_loop():
    def make():
        taken, scale = [], 2.0

        def take(x):
            taken.append(x * scale)

        def f(x):
            while x.sum() < 3:
                take(x)
                x = x + 1
            return x, len(taken)

        return f, lambda: taken, signs()

    agree_with_state(make)


def switched(of_branch):
    """A function, and what changes a variable of its helper."""
    is_loud, weight = False, torch.ones(2)

    def act(x):
        return x * 10 if is_loud else x + weight

    def f(x):
        if of_branch:
            return act(x) if x.sum() > 0 else x
        for i in range(2):
            if x[0] > i:
                x = act(x)
        return x

    def switch(loud, new):
        nonlocal is_loud, weight
        is_loud, weight = loud, new

    return f, switch


def test_variables_that_change_between_calls():
    for of_branch in (True, False):
        expected, change = switched(of_branch)
        written, change_too = switched(of_branch)
        static = dy2st.to_static(written)
        for loud, new in ((False, torch.ones(2)), (True, torch.ones(2)), (False, torch.zeros(2)), (False, torch.ones(2))):
            change(loud, new)
            change_too(loud, new)
            for x in signs():
                assert torch.equal(static(x), expected(x)), (of_branch, loud, new)
