"""Bounds of slices that are no whole numbers raise what Python raises, where a tensor decides too."""

import pytest
import torch

from tests.oracle import agree


def by_a_number(x, n):
    return x[: x.sum().item()]


def by_a_tensor(x, n):
    return x[int(n) : x.sum()]


def on_some_ways(x, n):
    end = x.sum() if n > 0 else n + 2
    return x[int(n) : end] if n < 2 else x


def caught(x, n):
    try:
        return x[n : x.mean().item()]
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", [by_a_number, by_a_tensor, on_some_ways, caught])
def test_bounds(function):
    agree(function, [(torch.arange(4.0), torch.tensor(n)) for n in (-1, 1, 0, 2)], programs=None)
