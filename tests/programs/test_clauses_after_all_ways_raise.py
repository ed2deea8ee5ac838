"""A ``finally`` clause or context manager that raises, or leaves, where every way through its ``try`` has raised."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree
from tests.programs.values import vec

XS = [vec(*items) for items in ((1, 1), (-1, -1), (6, 6), (0, 0), (7, -9))]


def _both(x):
    if x[0] > 5:
        raise ValueError("high")
    else:
        raise KeyError("low")


class _Manager:
    def __init__(self, swallows):
        self.swallows = swallows

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.swallows is None:
            raise TypeError("exit") from error
        return self.swallows


def in_a_branch(x):
    if x.sum() > 0:
        try:
            _both(x)
        finally:
            raise TypeError("clause")
    return x + 1


def an_operation_that_fails(x):
    if x.sum() > 0:
        try:
            _both(x)
        finally:
            x @ torch.ones(3, dtype=x.dtype)
    return x + 1


def at_the_end_of_the_function(x):
    try:
        _both(x)
    finally:
        x @ torch.ones(3, dtype=x.dtype)


def in_a_loop(x):
    for i in range(int(x[0].abs())):
        try:
            _both(x)
        finally:
            {}[i]
    return x + 1


def caught_around_the_clause(x):
    try:
        if x.sum() > 0:
            try:
                _both(x)
            finally:
                {}["none"]
    except KeyError as error:
        return x * 2, str(error), type(error.__context__).__name__
    return x + 1


def in_an_inner_loop_of_the_clause(x):
    if x.sum() > 0:
        try:
            _both(x)
        finally:
            for item in ("one", "two"):
                raise IndexError(item)
    return x


def of_the_exit_of_a_manager(x):
    if x.sum() > 0:
        with _Manager(None):
            _both(x)
    return x + 1


def swallowed_by_a_manager(x):
    if x.sum() > 0:
        with _Manager(True):
            _both(x)
    return x + 1


def a_clause_that_returns(x):
    if x.sum() > 0:
        try:
            _both(x)
        finally:
            return x * 2  # noqa: B012
    return x + 1


@pytest.mark.parametrize(
    "function",
    [
        in_a_branch, an_operation_that_fails, at_the_end_of_the_function, in_a_loop, caught_around_the_clause,
        in_an_inner_loop_of_the_clause, of_the_exit_of_a_manager, swallowed_by_a_manager, a_clause_that_returns,
    ],
)  # fmt: skip
def test_what_a_clause_raises_after_all_ways_have_raised_is_on_those_ways_only(function):
    agree(function, XS)
