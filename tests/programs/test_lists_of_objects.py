"""Objects of the user's classes in lists whose length a tensor decides: made, taken out, compared, sorted, given back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dy2st


class H:
    def __init__(self, s, toks=(), parent=None):
        self.s, self.toks, self.parent = s, toks, parent


class Slots:
    __slots__ = ("s", "n")

    def __init__(self, s, n):
        self.s, self.n = s, n


def survivors(x):
    live = [H(torch.zeros(()))]
    for t in range(3):
        kept = []
        for h in live:
            if h.s + x[t] < 5:
                kept.append(H(h.s + x[t]))
            if x[t] > 1:
                kept.append(H(h.s - x[t]))
        live = kept
    return len(live), [h.s for h in live]


def beam(x):
    live = [H(torch.zeros(()))]
    done = []
    for t in range(3):
        new = []
        for h in live:
            for k in (0.5, -0.25):
                c = H(h.s + x[t] * k)
                if c.s > 2:
                    done.append(c)
                else:
                    new.append(c)
        new = sorted(new, key=lambda h: float(h.s), reverse=True)[:2]
        live = new
    return [h.s for h in live], [h.s for h in done], len(done)


def slots(x):
    items = []
    while x.sum() < 6:
        x = x + 1
        if x[0] > 2:
            items.append(Slots(x, len(items)))
    total = 0
    for it in items:
        total = total + it.s * it.n
    return total, len(items)


def given(x):
    items = []
    for t in range(3):
        if x[t] > 0:
            items.append(H(x[t], (t,)))
    return items


def mixed(x):
    items = [None, "a"]
    for t in range(3):
        if x[t] > 0:
            items.append(H(x[t]))
        elif x[t] < -1:
            items.append(x[t])
    n = 0
    for it in items:
        if isinstance(it, H):
            n = n + it.s
        elif isinstance(it, torch.Tensor):
            n = n - it
    return n, len(items)


def picked(x):
    items = []
    for t in range(3):
        if x[t] > 0:
            items.append(H(x[t], (t,)))
    if items:
        best = max(items, key=lambda h: h.s)
        return best.s, items[-1].s, [h for h in items if h.s > 1.5]
    return None


def shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [shown(part) for part in value]
    return f"H{vars(value)}" if isinstance(value, H) else str(value)


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("program", [survivors, beam, slots, given, mixed, picked])
def test_lists_of_objects_match_eager_in_one_program(program, backend):
    static = dy2st.to_static(program, backend=backend)
    for values in ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [2.0, -2.0, 2.0]):
        assert shown(static(torch.tensor(values))) == shown(program(torch.tensor(values)))
    assert len(static.program_cache) == 1
