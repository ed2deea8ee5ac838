"""Tracebacks of programs that fail, told in lines of the user's code."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import types
from collections.abc import Callable, Iterator

from dy2st_runtime.ir.program import Location

SHOW_ALL_FRAMES = os.environ.get("DY2ST_TRACEBACK", "") == "full"
"""Whether tracebacks show the frames of this package and of generated code."""


def steps(error: BaseException) -> Iterator[types.TracebackType]:
    """Return the parts of an exception's traceback, outside first."""
    return parts(error.__traceback__)


def parts(step: types.TracebackType | None) -> Iterator[types.TracebackType]:
    """Yield the parts of a traceback, outside first."""
    while step is not None:
        yield step
        step = step.tb_next


def chained(outer: types.TracebackType | None, inner: types.TracebackType | None) -> types.TracebackType | None:
    """Return one traceback of two, of which the second was cut off."""
    for step in reversed(list(parts(outer))):
        inner = types.TracebackType(inner, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return inner


def tell(error: BaseException, line_of: Callable[[types.TracebackType], Location | None], hidden: types.CodeType) -> None:
    """Say in a note which line of the user's code failed, and put it in the place of the generated code.

    Args:
        error: what a program raises.
        line_of: the user's line for a part of the traceback, if that is generated code.
        hidden: the function that runs the program.
    """
    lines = [(step, line_of(step)) for step in steps(error)]
    failing = [line for _, line in lines if line is not None]
    if not failing:
        return
    if failing[-1].subscript is not None:
        _name_subscript(error, failing[-1].subscript)
    note(error, f'raised by the program at File "{failing[-1].file}", line {failing[-1].line}, in {failing[-1].function}')
    is_behind = error.__context__ is not None and error.__context__.__traceback__ is None  # made by the program, and not raised
    if failing[-1].behind is not None and not is_behind:
        _put_behind(error, failing[-1].behind())
    if SHOW_ALL_FRAMES:
        return
    kept: types.TracebackType | None = None
    for step, line in reversed(lines):
        if line is not None:
            kept = _step_at(line, kept)
        elif step.tb_frame.f_code is not hidden:
            kept = types.TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = kept


def _put_behind(error: BaseException, handled: BaseException) -> None:
    """Have an exception be raised while another one is handled, which the caller may have been handling one around."""
    around, error.__context__ = error.__context__, handled
    while handled.__context__ is not None:
        handled = handled.__context__
    handled.__context__ = around


_OUT_OF_RANGE = re.compile(r"select\(\): index (-?\d+) out of range for tensor of size \[([\d, ]*)\] at dimension (\d+)")


def _name_subscript(error: BaseException, subscript: int) -> None:
    """Say that an item is not there as torch's subscripts do, not as the operator that the program calls."""
    result = _OUT_OF_RANGE.match(str(error)) if type(error) is IndexError else None
    if result is not None:
        index, sizes, dim = result.groups()
        error.args = (f"index {index} is out of bounds for dimension {subscript} with size {sizes.split(', ')[int(dim)]}",)


def _step_at(line: Location, following: types.TracebackType | None) -> types.TracebackType:
    """Return a part of a traceback that is shown as a line of the user's."""
    text = linecache.getline(line.file, line.line).rstrip("\n")
    start, end = len(text) - len(text.lstrip()), len(text.encode())
    module = ast.parse("raise error")
    for node in ast.walk(module):
        node.__dict__.update(lineno=line.line, end_lineno=line.line, col_offset=start, end_col_offset=end)
    code = compile(module, line.file, "exec").replace(co_name=line.function)
    error = Exception()
    try:
        exec(code, {"error": error})
    except Exception:
        *_, result = steps(error)
    return types.TracebackType(following, result.tb_frame, result.tb_lasti, result.tb_lineno)


def note(error: BaseException, text: str) -> None:
    """Add a line to what an error says when it is shown."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), text]  # type: ignore[attr-defined]
