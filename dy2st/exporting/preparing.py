"""What is done to a program before it is lowered to ONNX, whose runtimes take it as it is: each operation costs, each branch more.

* What follows a branch that tells the way moves into it (:mod:`dy2st_runtime.passes.jump_threading`): an early ``return`` is one
  branch then, not two.
* What is the same at every iteration of a loop is computed before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dy2st.errors import ExportError
from dy2st_runtime.ir.program import Program
from dy2st_runtime.passes.dead_code import remove_dead_code
from dy2st_runtime.passes.jump_threading import thread_jumps
from dy2st_runtime.passes.loop_invariants import hoist_invariants

_DEEPEST = 12
"""Branches inside of branches: the time that PyTorch's exporter takes grows with the third power of their number."""

Result = TypeVar("Result")


def lower_prepared(program: Program, lower: Callable[[Program], Result]) -> Result:
    """Lower a program in the form that runs fastest, or else as it is.

    Args:
        program: any program; no gradients go through what is made of it.
        lower: makes something of a program with the same inputs, state and results.

    Raises:
        ExportError: it makes nothing of this one.
    """
    threaded = thread_jumps(program, deepest=_DEEPEST)
    if threaded is not program:
        try:
            return lower(_lean(threaded))
        except ExportError:  # what was checked in the root block may be in a branch now, which has less room for it
            pass
    return lower(_lean(program))


def _lean(program: Program) -> Program:
    return remove_dead_code(hoist_invariants(program, gradients=False))
