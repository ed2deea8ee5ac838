"""Lists that loops fill and empty: what an iteration takes out an earlier one has put in; one look finds all lists of a block."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from dy2st.capture.looping import loop
from tests.oracle import agree
from tests.programs.values import vec

COUNTS = [torch.tensor(n) for n in (5, 0, 1, 2, 7)]


def recent(x, n):
    steps = 0
    while n > 0:
        steps += 1
        if steps == 1:
            old, seen = [], []
        else:
            if len(old) == 2:
                old.pop(0)
                seen.pop(0)
            old.append(x * n)
            seen.append(n)
        n = n - 1
    return steps


def recent_kept(x, n):
    state, steps, total = {}, 0, x
    while n > 0:
        steps += 1
        if steps == 1:
            old = []
        else:
            if len(old) == 2:
                total = total - old.pop(0)
            old.append(x * n)
            total = total + old[-1]
        state["old"] = old
        n = n - 1
    return total, state


def recent_by_another_name(x, n):
    old = []
    other = old
    while n > 0:
        if len(other) == 2:
            x = x - other.pop(0)
        if n % 2 == 0:
            old.append(x * n)
        n = n - 1
    return x, old


def recent_of_rows(x, n):
    old, k = None, 0
    while n > 0:
        if k == 0:
            old = []
        for value in x:
            if len(old) == 3 and value > 0:
                old.pop(0)
            old.append(value * n)
        k += 1
        n = n - 1
    return old


def best(x, n):
    found, history = [], []
    while n > 0:
        if len(history) > 0 and history[-1] > 4:
            history.pop()
            found.pop()
        elif x[n % 3] > 0:
            history.append(n)
            found.append(x * n)
        n = n - 1
    return found, history


@pytest.mark.parametrize("function", [recent, recent_kept, recent_by_another_name, recent_of_rows, best])
def test_what_an_iteration_takes_out_an_earlier_one_has_put_in(function):
    agree(function, [(vec(1, -2, 3), n) for n in COUNTS])


def emptied(x, n):
    old = []
    held = [old]
    while n > 0:
        if x.sum() > 10:
            held[0].pop()
        n = n - 1
    return old


def test_nothing_to_take_out_raises():
    agree(emptied, [(vec(1, 2), torch.tensor(2)), (vec(10, 20), torch.tensor(2)), (vec(10, 20), torch.tensor(0))])


def swapped(x, n):
    a, b, c, d = [x.sum(), x.mean()], [0, 1], [x, x * 2], [1.0, 2.0]
    low, high = 0, 1
    while n > 0:
        if x[n % 3] > 0:
            low, high = (0, 1) if a[0] < a[1] else (1, 0)
            a[high] = a[low] * 0.5
            b[high] = b[low] + 1
            c[high] = c[low] - n
            d[high] = d[low] * 0.5
        n = n - 1
    return a, b, c, d


def appended(x, n):
    a, b, c = [], [], []
    while n > 0:
        a.append(n)
        b.append(x * n)
        c.append((n, x))
        n = n - 1
    return a, b, c


@pytest.mark.parametrize("function", [swapped, appended])
def test_one_look_finds_all_lists_of_a_block(function, monkeypatch):
    looks, attempt = [], loop._attempt
    monkeypatch.setattr(loop, "_attempt", lambda *args: looks.append(args) or attempt(*args))
    agree(function, [(vec(1, -2, 3), n) for n in COUNTS])
    assert len(looks) <= 3


def test_lists_of_several_blocks():
    def f(x, n):
        outer, kept = [], []
        while n > 0:
            inner, k = [0, 0], n
            while k > 0:
                place = 1 if x[k % 3] > 0 else 0
                inner[place] = inner[place] + k
                outer.append(x * k)
                k = k - 1
            kept.append(inner)
            n = n - 2
        return outer, kept

    agree(f, [(vec(1, -2, 3), n) for n in COUNTS])


def test_states_of_modules_in_lists():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 1)

        def forward(self, x, kept):
            if x.sum() > 0:
                kept.append(copy.deepcopy(self.linear.state_dict()))
            else:
                kept.append(self.linear.state_dict())
            if len(kept) > 2:
                kept.pop(0)
            return kept[-1]["weight"] * x, len(kept)

    agree(Kept(), [(vec(1, 2), []), (vec(-1, 0), []), (vec(1, 2), [])])


def test_the_best_state_is_put_back():
    def f(x, n):
        linear = nn.Linear(3, 1)
        states = []
        while n > 0:
            with torch.no_grad():
                linear.weight.mul_(x[n % 3])
            states.append(copy.deepcopy(linear.state_dict()))
            n = n - 1
        if len(states) > 1 and linear(x) < 0:
            linear.load_state_dict(states[0])
        return linear(x), len(states)

    agree(f, [(vec(1, -2, 3), n) for n in COUNTS])
