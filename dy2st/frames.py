"""Tracebacks without the frames of this package: what went wrong in the user's code is not buried under how it was captured."""

from __future__ import annotations

import os
import types

import torch

_OWN = os.path.dirname(__file__) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep
MACHINERY = tuple(_TORCH + part for part in ("_", "fx" + os.sep, "overrides.py", "utils" + os.sep + "_"))
"""Parts of torch that run captures and programs, and say nothing about the user's code."""


def without_own(error: BaseException) -> BaseException:
    """The error with a traceback of the user's frames, and those of the libraries that the user's code calls."""
    kept: types.TracebackType | None = None
    for step in reversed(list(_steps(error.__traceback__))):
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_OWN) and not file.startswith(MACHINERY):
            kept = types.TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(kept)


def _steps(step: types.TracebackType | None) -> list[types.TracebackType]:
    found = []
    while step is not None:
        found.append(step)
        step = step.tb_next
    return found
