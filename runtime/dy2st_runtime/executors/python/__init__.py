"""The reference executor: a program becomes a plain Python function, one line an operation.

Every other executor must agree with it. It calls the operators that eager calls, in the order eager calls them, so
autograd, autocast, hooks, random numbers and dispatch modes behave as in eager. ``if_`` is an ``if`` and ``while_`` a
``while``; a register is deleted after its last use. The function can be read (:func:`source`) and stepped through in a
debugger.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.call.tracebacks import tell
from dy2st_runtime.executors.python import code as python_code
from dy2st_runtime.ir.program import Block, Location, Program

_numbers = itertools.count(1)
_compiled: weakref.WeakKeyDictionary[Block, Compiled] = weakref.WeakKeyDictionary()


class Compiled:
    """A program as a Python function.

    Attributes:
        text: the source of the function.
        file: the name under which tracebacks and debuggers find it.
        lines: for each line of the text, the user's line it comes from.
        function: takes the open autocast modes and the inputs.
    """

    def __init__(self, program: Program) -> None:
        code = python_code.generate(program, runner)
        self.text, self.lines = code.text, code.lines
        self.file = f"<program {next(_numbers)}: {program.name}>"
        linecache.cache[self.file] = (len(self.text), None, self.text.splitlines(keepends=True), self.file)
        weakref.finalize(self, linecache.cache.pop, self.file, None)
        space = dict(code.names)
        exec(compile(self.text, self.file, "exec"), space)
        self.function: Callable[..., tuple[Any, ...]] = space["run"]

    def line_of(self, step: types.TracebackType) -> Location | None:
        """Return the user's line that a part of a traceback stands for."""
        return self.lines.get(step.tb_lineno) if step.tb_frame.f_code.co_filename == self.file else None


def run(program: Program, values: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program.

    Args:
        program: any program. It is compiled at its first run: change its blocks before, not after.
        values: the leaves of the arguments, then the state, in the order of the root block's inputs.

    Returns:
        The outputs of the root block.

    Raises:
        Exception: what the failing operator raises, with the user's line in its traceback and in a note.

    The grad mode and autocast that the program may switch inside are put back when it fails half-way.
    """
    compiled = prepared(program)
    grad_enabled = torch.is_grad_enabled()
    open_autocasts: list[Any] = []
    try:
        return compiled.function(open_autocasts, *values)
    except BaseException as error:
        torch._C._set_grad_enabled(grad_enabled)
        for mode in reversed(open_autocasts):
            torch.amp.autocast_mode._exit_autocast(mode)
        tell(error, compiled.line_of, run.__code__)
        raise


def runner(program: Program) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return what runs a program; see :data:`dy2st_runtime.executors.BACKENDS`."""
    return functools.partial(run, program)


def prepared(program: Program) -> Compiled:
    """Return the program as a Python function, compiled if need be."""
    compiled = _compiled.get(program.block)
    if compiled is None:
        compiled = _compiled.setdefault(program.block, Compiled(program))
    return compiled


def source(program: Program) -> str:
    """Return the Python function that runs a program, for people to read."""
    return prepared(program).text
