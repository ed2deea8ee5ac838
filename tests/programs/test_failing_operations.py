"""``try`` statements around what fails only when the program runs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dy2st import CaptureError, to_static
from tests.oracle import agree


def written_out(x: Any, i: Any) -> Any:
    try:
        return torch.linalg.cholesky(torch.diag(x), out=torch.empty(3, 3))
    except RuntimeError:
        return x


def one_number(x: Any, mask: Any) -> Any:
    try:
        return x[mask].item()
    except RuntimeError:
        return x


@pytest.mark.parametrize("function", [one_number, written_out])
def test_a_clause_around_what_may_fail_at_run_time_is_refused(function: Any) -> None:
    with pytest.raises(CaptureError, match="may fail when the program runs, and no program enters the except clause") as caught:
        to_static(function)(torch.ones(3), torch.ones(3) > 0)
    assert f"in {function.__name__}" in str(caught.value)


def test_clauses_for_other_errors() -> None:
    def f(x: Any, i: Any) -> Any:
        try:
            y = torch.linalg.solve(torch.diag(x), x)
        except KeyError:
            y = x
        try:
            y = y + x[i]  # nobody catches Exception because of a subscript
        except Exception:
            y = -y
        return y

    agree(f, [(torch.full((3,), scale), torch.tensor(1)) for scale in (1.0, 2.0)])


def test_what_the_message_says_to_write() -> None:
    def f(x: Any) -> Any:
        factor, info = torch.linalg.cholesky_ex(torch.diag(x))
        if info.any():
            return x, "not positive"
        return factor @ x, "positive"

    agree(f, [torch.ones(3), -torch.ones(3)])


@pytest.mark.parametrize("function", [math.gamma, math.lgamma])
def test_a_function_of_a_number_that_fails_in_its_own_way_is_refused(function):
    def f(x):
        try:
            return function(x.item())
        except ValueError as error:
            return str(error)

    with pytest.raises(CaptureError, match=f"math.{function.__name__} may fail"):
        to_static(f)(torch.tensor(0.5))


def test_an_exception_with_values_of_a_block_that_has_ended():
    def f(x):
        error = None
        for i in range(2):
            try:
                if x < i:
                    raise ConnectionError(f"try {x.item()}")
                return x
            except ConnectionError as one:
                error = one
        raise error

    with pytest.raises(CaptureError, match="outside of the block that made it"):
        to_static(f)(torch.tensor(5.0))


def test_a_clause_for_one_item_of_a_batch_is_refused():
    def item(a):
        try:
            return torch.linalg.cholesky(a)
        except RuntimeError:
            return a

    def f(x):
        return torch.func.vmap(item)(x)

    with pytest.raises(CaptureError, match="put the try statement around vmap"):
        to_static(f)(torch.stack([torch.eye(3), torch.eye(3)]))
