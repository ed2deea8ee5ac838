"""Tracebacks without the frames of this package: what went wrong in the user's code is not hidden under how it was captured."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

import dy2st_runtime
from dy2st import config
from dy2st.errors import Dy2stError
from dy2st_runtime.call.tracebacks import steps

_TORCH = os.path.dirname(torch.__file__) + os.sep
MACHINERY = tuple(_TORCH + part for part in ("_", "fx" + os.sep, "overrides.py", "utils" + os.sep + "_"))
"""Parts of torch that run captures and programs, and say nothing about the user's code."""
_ANY_OWN = tuple(os.path.dirname(package.__file__ or "") + os.sep for package in (config, dy2st_runtime))
_MAX_CHAIN = 8
P = ParamSpec("P")
R = TypeVar("R")


def hide(error: BaseException, chain: int = _MAX_CHAIN) -> None:
    """Leave in the traceback the user's frames, and those of the libraries that the user's code calls.

    Follow it with a bare ``raise``, which does not put the frame that does so back.
    """
    if config.SHOW_ALL_FRAMES:
        return
    kept: types.TracebackType | None = None
    for step in reversed(list(steps(error))):
        file = step.tb_frame.f_code.co_filename
        if not file.startswith((*_ANY_OWN, *MACHINERY)) and file != contextlib.__file__:
            kept = types.TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = kept
    if isinstance(error, Dy2stError):  # it tells all there is to know; what it was made from is of the capture
        error.__cause__ = error.__context__ = None
    for link in (error.__cause__, error.__context__):
        if link is not None and chain:
            hide(link, chain - 1)


def level_outside() -> int:
    """Return the ``stacklevel`` with which the caller warns at the line that called this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ANY_OWN):
        frame, level = frame.f_back, level + 1
    return level


def plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with errors that show no frames of this package."""

    @functools.wraps(function)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return shown
