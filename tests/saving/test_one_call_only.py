"""What only one call can do (taking from an iterator that was there before) is refused by what makes programs for others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dy2st


class Taking(nn.Module):
    """Takes from an iterator that was there before the call."""

    def __init__(self, items: Iterator[int]) -> None:
        super().__init__()
        self.items = items

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + 1
        return x * next(self.items)


class Exhausting(Taking):
    """Takes all that is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for item in self.items:
            x = x * item
        return x


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        *((kind, items) for kind in (Taking, Exhausting) for items in (lambda: iter([1, 2, 3]), lambda: (n for n in (1, 2, 3)))),
        (Exhausting, lambda: itertools.count(1)),
    ],
)
def test_nothing_is_taken_and_no_file_is_left(kind: type[Taking], items: Callable[[], Iterator[int]], tmp_path: Path) -> None:
    model = kind(items())
    with pytest.raises(dy2st.CaptureError, match=r"(?s)self.items.*only this call.*pass it in as an argument"):
        dy2st.save(model, tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([2])])
    assert not list(tmp_path.iterdir())
    assert next(model.items) == 1, "the user's iterator is where it was"


def test_numbers_of_a_counter_are_not_in_a_file(tmp_path: Path) -> None:
    model = Taking(itertools.count(1))
    with pytest.raises(dy2st.SaveError, match="the program calls the Python function next"):
        dy2st.save(model, tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([2])])
    assert not list(tmp_path.iterdir())
    assert next(model.items) == 1


def test_an_export_refuses_it_too(tmp_path: Path) -> None:
    model: Any = Taking(iter([1, 2, 3]))
    with pytest.raises(dy2st.Dy2stError, match="only this call"):
        dy2st.export(model, tmp_path / "model.pt2", input_spec=[dy2st.InputSpec([2])])
    assert next(model.items) == 1
