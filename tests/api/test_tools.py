"""Tools that people run their code under: coverage and IPython. Tests of a tool that is not installed are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dy2st import CaptureError, to_static

CELL = """
from dy2st import to_static

def shifted(x):
    while x.sum() > 10:
        x = x / 2
    return x

@to_static
def f(x):
    return shifted(x) if x.sum() > 0 else -x
"""


def branched(x):
    total = x * 0
    for _ in range(3):
        if x.sum() > 0:
            total = total + x
        else:
            total = total - x
    return total


def test_coverage_sees_the_users_lines() -> None:
    coverage = pytest.importorskip("coverage")
    measured = coverage.Coverage(data_file=None, include=[__file__])
    static = to_static(branched)
    measured.start()
    try:
        static(torch.ones(3))
    finally:
        measured.stop()
    first = branched.__code__.co_firstlineno
    lines = set(measured.get_data().lines(str(Path(__file__).resolve())) or ())
    assert {first + 1, first + 2, first + 3, first + 4, first + 6, first + 7} <= lines


def test_functions_of_ipython_cells_are_captured() -> None:
    shell_class = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    shell = shell_class()
    shell.run_cell(CELL).raise_error()
    for value in (1.0, 100.0, -1.0):
        x = torch.full((3,), value)
        expected = -x if value < 0 else shell.user_ns["shifted"](x)
        assert torch.equal(shell.user_ns["f"](x), expected)
    shell.run_cell("@to_static\ndef g(x):\n    return x.backward()").raise_error()
    with pytest.raises(CaptureError, match=r"return x\.backward\(\)"):
        shell.user_ns["g"](torch.ones(()))
    shell.run_cell("def shifted(x):\n    return x + 5").raise_error()  # a cell that is run again
    assert torch.equal(shell.user_ns["f"](torch.ones(3)), torch.full((3,), 6.0))
