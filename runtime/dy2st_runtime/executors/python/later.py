"""Exceptions of blocks that run after the program: backward passes, which autograd calls."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from dy2st_runtime.call.tracebacks import tell
from dy2st_runtime.ir.program import Location
from dy2st_runtime.primitives.gradients import Backward


def tell_later(lines: Mapping[int, Location], error: BaseException, function: Callable[..., Any]) -> None:
    """Say which line of the user's has raised an exception.

    Args:
        lines: the user's line for each line of the code that the function is written in.
        error: what it has raised.
        function: the block.
    """
    file = function.__code__.co_filename

    def line_of(step: types.TracebackType) -> Location | None:
        return lines.get(step.tb_lineno) if step.tb_frame.f_code.co_filename == file else None

    tell(error, line_of, Backward.run.__code__)
