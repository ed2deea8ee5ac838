"""The executor ``"cpp"``: whole loops, with all that is in them, as one function without dispatch or allocation.

Parts of a program become *units*. When a unit runs with shapes, strides and dtypes that are new to it, C++ is generated for exactly
those and compiled by the user's own compiler; later calls run what was compiled. What cannot be a unit, or declines at run time,
runs on the python executor, and :func:`report` says which parts that are, and why.

A unit computes without gradients, on the CPU. Its answers are those of the other executors up to the rounding of floating-point
numbers: sums are made in another order, and functions like ``tanh`` may differ in the last two bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.executors import python
from dy2st_runtime.executors.cpp.outline import outlined
from dy2st_runtime.executors.cpp.unit import Unit
from dy2st_runtime.ir.program import Block, Program

__all__ = ["Runner", "runner"]

Run = Callable[[Sequence[Any]], tuple[Any, ...]]


class Runner:
    """Runs one program.

    Args:
        program: any program.
        rest: makes the runner of what is not in units, and of units that decline.

    Attributes:
        program: it, with calls of units in it.
        units: the units.
        left: the branches and loops that are in no unit, and why.
    """

    def __init__(self, program: Program, rest: Callable[[Program], Run]) -> None:
        self.units: list[Unit] = []
        self.left: list[str] = []
        self.program = outlined(program, self._make, self._note)
        self._run = rest(self.program)

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Run the program; see :data:`dy2st_runtime.executors.Runner`."""
        return self._run(values)

    def report(self) -> str:
        """Return which parts ran in C++, and why others did not."""
        used = [unit.report() for unit in self.units if unit.ran or unit.declined]
        return "\n".join([*used, *self.left]) or ("not run yet" if self.units else "no part of it can run in C++")

    def _make(self, block: Block, first: fx.Node, nested: bool) -> Callable[..., tuple[Any, ...]]:
        self.units.append(Unit(block, first.meta.get("location"), nested))
        return self.units[-1]

    def _note(self, node: fx.Node, reason: str) -> None:
        location = node.meta.get("location")
        where = f"{os.path.basename(location.file)}:{location.line}" if location else "?"
        self.left.append(f"{where}: not in C++: {reason}")


def runner(program: Program) -> Runner:
    """Return what runs a program; see :data:`dy2st_runtime.executors.BACKENDS`. The reference executor runs what has no C++."""
    return Runner(program, python.runner)
