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


ARRAYS = {
    "rand": lambda n: np.random.rand(n + 1, 2),
    "randn": lambda n: np.random.randn(2),
    "uniform": lambda n: np.random.uniform(0, 1, 3),
    "uniform of lists": lambda n: np.random.uniform([0.0, 1.0], 2.0),
    "normal": lambda n: np.random.normal(0.0, n + 1.0, size=(n, 2)),
    "randint": lambda n: np.random.randint(n + 3, size=n),
    "one of no size": lambda n: np.random.randint(0, n + 3, size=None),
    "choice": lambda n: (np.random.choice(5, n + 1), np.random.choice([1.5, 2.5])),
    "permutation": lambda n: np.random.permutation(n),
}


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("draw", ARRAYS.values(), ids=ARRAYS)
def test_arrays_of_them_are_drawn_at_each_call(draw, backend):
    def program(x, n):
        drawn = draw(n.item())
        return x * 2 if x.sum() > 0 else x, drawn

    static = dy2st.to_static(program, backend=backend)
    for seed, number in enumerate((2, 3, 0, 1)):
        results = []
        for run in (program, static):
            np.random.seed(seed)
            results.append((run(torch.ones(2), torch.tensor(number))[1], np.random.rand()))
        assert repr(results[0]) == repr(results[1])
    assert len(static.program_cache) == 1


def test_arrays_of_them_are_drawn_by_a_loaded_program(tmp_path):
    def noisy(x, n):
        return x + torch.from_numpy(np.random.rand(n.item())).sum()

    static = dy2st.to_static(noisy)
    static(torch.ones(2), torch.tensor(3))
    dy2st.save(static, tmp_path / "noisy.dy2st")
    results = []
    for run in (noisy, dy2st.load(tmp_path / "noisy.dy2st")):
        np.random.seed(0)
        results.append(run(torch.ones(2), torch.tensor(4)))
    assert torch.equal(*results)


drawn = eval("lambda: random.gauss(0.0, 1.0)", {"random": random})  # it has no source


def normally(x):
    return x + drawn()


def on_one_way(x):
    if x.sum() > 0:
        x = x * drawn()
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
