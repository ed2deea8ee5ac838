"""Attempts: operations whose exceptions are values of the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dy2st_runtime.primitives.transforms import transformed

LIKE = ((torch.float64, 2),)


def attempted(error: Exception | None) -> Any:
    def function(x: torch.Tensor) -> tuple[torch.Tensor]:
        if error is not None:
            raise error
        return (x * 2,)

    return transformed("attempt", function, (torch.ones(3),), kinds=("IndexError", "RuntimeError", "LinAlgError"), like=LIKE)


def test_an_attempt_that_succeeds_gives_its_results() -> None:
    number, text, result = attempted(None)
    assert (number, text) == (0, "") and torch.equal(result, torch.full((3,), 2.0))


@pytest.mark.parametrize(("number", "kind"), enumerate([IndexError, RuntimeError, torch.linalg.LinAlgError], 1))
def test_an_attempt_that_fails_tells_the_exception_and_gives_tensors_without_items(number: int, kind: Any) -> None:
    found, text, result = attempted(kind("said"))
    assert (found, text) == (number, "said")
    assert result.dtype == torch.float64 and result.shape == (0, 0)


@pytest.mark.parametrize("kind", [ValueError, NotImplementedError, KeyboardInterrupt])
def test_an_exception_that_an_attempt_is_not_for_leaves_it(kind: Any) -> None:
    with pytest.raises(kind):
        attempted(kind("said"))
