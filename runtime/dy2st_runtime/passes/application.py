"""Applies passes that somebody else wrote, and checks what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dy2st_runtime.errors import ProgramError
from dy2st_runtime.ir.program import Program, verify

Pass = Callable[[Program], Program]
"""Takes a valid program and gives a valid one that is called alike; the one it was given stays as it is."""


def apply_passes(program: Program, passes: Sequence[Pass]) -> Program:
    """Apply passes in order.

    Args:
        program: any program.
        passes: what to apply.

    Returns:
        What the last pass gave.

    Raises:
        ProgramError: a pass gave something else than a valid program with the same inputs, state, results and effects.
    """
    for each in passes:
        result = each(program)
        name = getattr(each, "__qualname__", None) or repr(each)
        if not isinstance(result, Program):
            raise ProgramError(f"the pass {name} must return a program, not a {type(result).__name__}")
        try:
            verify(result)
        except ProgramError as error:
            raise ProgramError(f"the pass {name} made a program that is not valid: {error}") from error
        for part in ("inputs", "in_structure", "states", "out_structure", "effects"):
            if getattr(result, part) != getattr(program, part):
                raise ProgramError(f"the pass {name} changed the {part} of the program; a pass may change its blocks only")
        program = result
    return program
