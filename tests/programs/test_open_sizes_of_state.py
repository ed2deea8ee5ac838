"""A tensor of the state that grows from call to call, and goes through branches, loops and containers as it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import dy2st


def optional(state, x):
    y = None
    if x.sum() > 0:
        y = state.k
    return 0 if y is None else len(y)


def one_of_two(state, x):
    y = state.k if x.sum() > 0 else torch.ones(3, 2)
    return y.shape[0], torch.arange(len(y)), y


def in_a_loop(state, x):
    y = torch.zeros(1, 2)
    for row in x:
        if row.sum() > 0:
            y = state.k
    return torch.zeros(len(y)), y * 2


def in_a_dict(state, x):
    found = {}
    if x.sum() > 0:
        found["k"] = state.k
    return len(found["k"]) if "k" in found else -1


def in_a_list(state, x):
    rows = [torch.zeros(1, 2)]
    if x.sum() > 0:
        rows.append(state.k)
    return [len(row) for row in rows]


def in_an_attribute(state, x):
    state.last = None
    if x.sum() > 0:
        state.last = state.k
    return state.last.shape[0] if state.last is not None else 0


USES = [optional, one_of_two, in_a_loop, in_a_dict, in_a_list, in_an_attribute]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_its_size_is_that_of_each_call(use):
    def f(state, x):
        result = use(state, x)
        if len(state.k) > 5:
            state.k = state.k[:3]
        state.k = torch.cat([state.k, x])
        return result

    static = dy2st.to_static(f)
    ones = torch.ones(1, 2)
    calls = [ones, ones, ones, -ones, ones, ones, ones, -ones, ones]
    eager_state, static_state = (SimpleNamespace(k=torch.ones(2, 2), last=None) for _ in range(2))
    for x in calls:
        torch.testing.assert_close(static(static_state, x), f(eager_state, x), rtol=0, atol=0)
        assert torch.equal(static_state.k, eager_state.k)
    assert len(static.program_cache) <= 4
