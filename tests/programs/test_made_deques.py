"""Deques and lists that a branch or an iteration makes anew: others than before, or in one way only."""

from __future__ import annotations

import gc
from collections import deque

import pytest
import torch

import dy2st
from tests.oracle import agree

pytestmark = pytest.mark.usefixtures("quick_collections")

XS = [torch.tensor(v) for v in ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [2.0, -2.0, 2.0])]


def in_one_branch(x):
    window = None
    if x.sum() > 3:
        window = deque(maxlen=2)
    if window is not None:
        for t in range(3):
            window.append(x[t])
        return torch.stack(list(window)), window.maxlen
    return x


def other_contents(x):
    window = deque([x], maxlen=2) if x.sum() > 3 else deque(maxlen=2)
    window.append(x + 1)
    window.append(x + 2)
    return list(window), window


def other_limits(x):
    if x.sum() > 3:
        window = deque([x * 2, x * 3], maxlen=2)
    else:
        window = deque([x], maxlen=3)
    window.append(x + 1)
    while x.sum() < 6:
        x = x + 2
        window.append(x)
    return list(window), len(window), window.maxlen


def made_by_a_function(x):
    def make(k):
        return deque([x] * k, maxlen=4)

    items = make(1) if x.sum() > 3 else make(2)
    items.appendleft(x - 1)
    last = items.pop()
    return last, list(items), items.maxlen


def of_an_object(x):
    class Window:
        def __init__(self):
            self.items = deque(maxlen=2)

    window, out = Window(), []
    for t in range(3):
        if x[t] > 1:
            window.items = deque(maxlen=3)
        window.items.append(x[t])
        out.append(sum(window.items))
    return out


def begun_again(x):
    window, done = deque(maxlen=3), []
    while x.sum() < 10:
        x = x + 1
        window.append(x)
        if x[0] > 3:
            done.append(torch.stack(list(window)))
            window = deque(maxlen=3)
    return done, len(window)


def swapped(x):
    a, b = deque(), deque()
    for t in range(3):
        if x[t] > 0:
            a.append(x[t])
        else:
            b.append(x[t])
    while a and b:
        p, q = a.popleft(), b.popleft()
        a, b = b, a
        if p + q > 1:
            a.append(p)
    return list(a), list(b)


def chunks(x):
    out, buffer = [], []
    while x.sum() < 10:
        x = x + 1
        buffer.append(x)
        if x[0] > 3:
            out.append(torch.stack(buffer).sum(0))
            buffer = []
    return out, buffer


def chunks_in_a_dict(x):
    state, out = {"buffer": [], "n": 0}, []
    while x.sum() < 10:
        x = x + 1
        state["buffer"].append(x)
        if len(state["buffer"]) == 2:
            out.append(torch.stack(state["buffer"]))
            state = {"buffer": [], "n": state["n"] + 1}
    return out, state["n"], len(state["buffer"])


def another_list(x):
    a, b = [x], []
    while x.sum() < 10:
        x = x + 1
        a.append(x)
        if x[0] > 3:
            a = b
    return len(a), len(b)


def segments(x):
    current, found, i = [0.0], [], 0
    while i < x.numel():
        v = x[i].item()
        if v < current[-1]:
            found.append(current)
            current = [v]
        else:
            current.append(v)
        i += 1
    found.append(current)
    return found


@pytest.mark.parametrize(
    "program",
    [
        in_one_branch, other_contents, other_limits, made_by_a_function, of_an_object, begun_again, swapped, chunks, chunks_in_a_dict,
        another_list, segments,
    ],
)  # fmt: skip
def test_deques_and_lists_made_anew_are_those_of_eager(program):
    agree(program, XS)


def test_the_same_deque_by_two_names():
    def f(x):
        a = b = deque([x])
        if x.sum() > 3:
            b = deque()
        b.append(x * 2)
        a.append(x * 3)
        return list(a), list(b), a is b

    agree(f, XS)


def test_the_class_of_an_earlier_call_may_be_gone():
    static = dy2st.to_static(of_an_object)
    for x in XS:
        agreed = static(x), of_an_object(x)
        assert torch.equal(torch.stack(agreed[0]), torch.stack(agreed[1]))
        gc.collect()
    assert len(static.program_cache) == 1
