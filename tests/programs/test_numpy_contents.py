"""Functions of NumPy that refuse some contents: what they say of made-up ones is not what they say of the user's."""

import numpy as np
import pytest
import torch

import dy2st


def shares(y):
    return (y / y.sum()).numpy()


def chosen(x, y):
    return int(np.random.choice(len(y), p=shares(y)))


def several_chosen(x, y):
    return np.random.choice(np.array([5.0, 6.0, 7.0]), size=2, replace=False, p=shares(y))


def binomial(x, y):
    return np.random.binomial(5, shares(y))


def digitized(x, y):
    return np.digitize(x.numpy(), y.numpy().cumsum())


def quantiles(x, y):
    return np.quantile(x.numpy(), shares(y))


def does_not_fit(x, y):
    return x.numpy() + np.ones(7)


@pytest.mark.parametrize("function", [chosen, several_chosen, binomial, digitized, quantiles, does_not_fit])
def test_contents_decide(function):
    static = dy2st.to_static(function)
    for seed, weights in enumerate(([1.0, 2.0, 3.0], [9.0, 0.5, 0.5], [1.0, 1.0, -0.5])):
        seen = []
        for call in (function, static):
            np.random.seed(seed)
            try:
                seen.append(repr(call(torch.linspace(-3, 3, 6) * seed, torch.tensor(weights))))
            except Exception as error:
                seen.append((type(error), str(error)))
        assert seen[0] == seen[1]
    assert len(static.program_cache) == (function is not does_not_fit)
