"""The native executor: a program is a list of instructions that C++ runs over PyTorch's dispatcher.

It does what the reference executor does, bit for bit: the same operators in the same order, through the dispatcher, so that
autograd, autocast, the profiler and every device work. Control flow, numbers and lists cost no Python, and the GIL is free while
a program runs. Operations without a native form are done by a function of Python, see
:mod:`dy2st_runtime.executors.native.lowering`; where a mode or a tensor subclass wants to see each operation, the reference
executor runs the call.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from dy2st_runtime.call.tracebacks import steps, tell
from dy2st_runtime.executors import python
from dy2st_runtime.executors.native import build
from dy2st_runtime.executors.native.instructions import Instruction
from dy2st_runtime.executors.native.lowering import lower
from dy2st_runtime.ir.program import Block, Location, Program


@dataclasses.dataclass(frozen=True, eq=False)
class Running:
    """A program that the executor runs.

    Attributes:
        machine: the object of the extension module.
        instructions: what it runs.
    """

    machine: Any
    instructions: Sequence[Instruction]


_running: weakref.WeakSet[Running] = weakref.WeakSet()
_by_block: weakref.WeakKeyDictionary[Block, Running] = weakref.WeakKeyDictionary()


def running() -> list[Running]:
    """Return every program that has a runner now."""
    return list(_running)


def left_to_python(program: Program) -> list[tuple[str, Location | None]]:
    """Return the operators that a program calls by way of Python, with the user's lines.

    Args:
        program: any program; one that the executor did not run yet has none.
    """
    kept = _by_block.get(program.block)
    if kept is None:
        return []
    results = [kept.instructions[index] for index in kept.machine.in_python()]
    return [(instruction.name, instruction.location) for instruction in results if "::" in instruction.name]


def runner(program: Program) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return what runs a program; see :data:`dy2st_runtime.executors.BACKENDS`."""
    library = build.library()
    return python.runner(program) if library is None else runner_in(library, program, {})


def runner_in(library: Any, program: Program, lines: dict[str, dict[int, Location]]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return what runs a program, given the extension module.

    Args:
        library: what :func:`native_build.library` gives.
        program: any program.
        lines: the user's lines of functions that the program calls, by their file and line; those of callbacks are added.
    """
    lowered = lower(program)
    instructions = lowered.instructions

    def resolve(index: int) -> Callable[..., Any]:
        callback = instructions[index].callback
        assert callback is not None
        return callback.make(lines, runner)

    kept = Running(library.Machine(lowered.described(resolve)), instructions)
    _running.add(kept)
    _by_block[program.block] = kept
    run_natively = kept.machine.run

    def run(values: Sequence[Any]) -> tuple[Any, ...]:
        try:
            outputs: Any = run_natively(values)
        except BaseException as error:
            _tell(error, kept.instructions, library.failed_at(), lines, run.__code__)
            raise
        return python.run(program, values) if outputs is NotImplemented else outputs

    return run


def _tell(
    error: BaseException,
    instructions: Sequence[Instruction],
    failed_at: int,
    lines: dict[str, dict[int, Location]],
    hidden: types.CodeType,
) -> None:
    """Put the user's line into a traceback: in the place of a callback, or else of the machine."""
    frames = [step.tb_frame for step in steps(error)]
    in_python = any(frame.f_code.co_filename in lines for frame in frames)
    machine = None if in_python else next((frame for frame in frames if frame.f_code is hidden), None)
    location = instructions[failed_at].location if failed_at >= 0 else None

    def line_of(step: types.TracebackType) -> Location | None:
        if step.tb_frame is machine:
            return location
        result = lines.get(step.tb_frame.f_code.co_filename)
        return None if result is None else result.get(step.tb_lineno)

    tell(error, line_of, hidden)
