"""Numbers that NumPy's own generator draws: at each call, as eager draws them."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
import torch

import dy2st


def noisy(x):
    chance = np.random.uniform(0, 1)
    y = x * 2 if chance < 0.5 else x
    for _ in range(np.random.randint(1, 4)):
        y = y + np.random.randn() + np.random.rand()
    if x.sum() > 0:
        y = y * np.random.normal(0.0, scale=2.0)
    return y, chance, np.random.random() < 0.3


@pytest.mark.parametrize("backend", ["native", "python"])
def test_numbers_are_drawn_at_each_call(backend):
    static = dy2st.to_static(noisy, backend=backend)
    for seed in range(8):
        x = torch.ones(2) * (1 if seed % 2 else -1)
        results = []
        for run in (noisy, static):
            np.random.seed(seed)
            results.append((*run(x), np.random.rand()))
        assert torch.equal(results[0][0], results[1][0])
        assert results[0][1:] == results[1][1:]
        assert list(map(type, results[0])) == list(map(type, results[1]))
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("draw", [lambda: np.random.rand(2), lambda: np.random.uniform(0, 1, 3), lambda: np.random.normal(size=(1,)),
                                  lambda: np.random.uniform([0.0, 1.0], 2.0), lambda: np.random.randint(3, size=1)])  # fmt: skip
def test_arrays_of_them_are_refused(draw):
    def scaled(x):
        return x * float(draw()[0])

    with pytest.raises(dy2st.CaptureError, match="gives another value at each call"):
        dy2st.to_static(scaled)(torch.ones(2))


def normally(x):
    return x + statistics.NormalDist(0.0, 1.0).samples(1)[0]


def on_one_way(x):
    if x.sum() > 0:
        x = x * statistics.NormalDist(0.0, 1.0).samples(2)[1]
    return x


@pytest.mark.parametrize("function", [normally, on_one_way])
def test_numbers_that_a_library_draws_are_refused(function):
    state = random.getstate()
    with pytest.raises(dy2st.CaptureError, match="draws random numbers of Python or NumPy"):
        dy2st.to_static(function)(torch.ones(2))
    assert random.getstate() == state


def test_numbers_of_a_seed_are_taken_as_they_are():
    def seeded(x):
        return x + statistics.NormalDist(0.0, 1.0).samples(1, seed=3)[0]

    assert torch.equal(dy2st.to_static(seeded)(torch.ones(2)), seeded(torch.ones(2)))
