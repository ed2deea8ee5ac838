"""Each construct of the syntax page, for several examples at once: each does what it does alone."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
from typing import Any

import pytest
import torch

import dy2st
from tests.syntax.case import Case, Outcome
from tests.syntax.page import chapters

CASES = [
    pytest.param(case, id=f"{chapter.title}: {case.title}")
    for chapter in chapters()
    for case in chapter.cases
    if case.outcome in (Outcome.CAPTURED, Outcome.UNROLLED)
]


def arguments(call: Any) -> tuple[Any, ...]:
    return copy.deepcopy(call) if isinstance(call, tuple) else (copy.deepcopy(call),)


def alone(program: Any, call: Any) -> tuple[Any, bool]:
    """What eager gives for one call, or raises; and whether it draws random numbers."""
    program = copy.deepcopy(program)  # a function is itself, a module begins with its state
    before = torch.get_rng_state()
    try:
        result = program(*arguments(call))
    except Exception as error:
        result = error
    return result, not torch.equal(before, torch.get_rng_state())


def close(one: Any, two: Any) -> None:
    """Check that two results are the same, up to the rounding of products and sums."""
    assert type(one) is type(two), (one, two)
    if isinstance(two, torch.Tensor):
        assert one.shape == two.shape
        torch.testing.assert_close(one, two, equal_nan=True, rtol=1e-6, atol=1e-9)
    elif isinstance(two, (tuple, list)):
        assert len(one) == len(two)
        for a, b in zip(one, two):
            close(a, b)
    elif isinstance(two, dict):
        assert list(one) == list(two)
        for key in two:
            close(one[key], two[key])
    elif isinstance(two, float):
        assert one == pytest.approx(two, rel=1e-6, nan_ok=True)
    elif isinstance(two, (bool, int, str, type(None))):
        assert one == two


@pytest.mark.parametrize("case", CASES)
def test_examples_together_do_what_each_does_alone(case: Case) -> None:
    torch.manual_seed(0)
    program = case.program() if inspect.isclass(case.program) else case.program
    with contextlib.redirect_stdout(io.StringIO()):
        expected = [alone(program, call) for call in case.calls]
        try:
            found = list(dy2st.batch(program, errors="return").stream(map(arguments, case.calls)))
        except dy2st.BatchError as error:
            pytest.skip(str(error).splitlines()[0])
    for (result, draws), one in zip(expected, found, strict=True):
        if isinstance(one, dy2st.BatchError):
            pytest.skip(str(one).splitlines()[0])
        if isinstance(result, Exception) or isinstance(one, Exception):
            assert type(one) is type(result), (one, result)
        elif not draws:
            close(one, result)
