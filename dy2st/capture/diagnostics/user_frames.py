"""Calls that look at who makes them (``warnings.warn``, a logger): made from frames like those of the user's functions.

A warning is filtered, counted and shown by its module, file and line, and so is what is logged.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from dy2st.capture.session.session import Session
from dy2st.capture.values.roles import Role, has
from dy2st_runtime.primitives.reports import Frame, FromFrames

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_starts: set[types.CodeType] = set()
"""The code of this library that runs a function of the user's."""


def starts_function(function: FunctionT) -> FunctionT:
    """Mark a function of this library that runs one of the user's."""
    _starts.add(inspect.unwrap(function).__code__)
    return function


class FromUserFrames(FromFrames):
    """Calls a function from the lines where the user's functions are now, one in the other.

    Args:
        session: the capture.
        function: the function.
    """

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        super().__init__(function, _frames(session))

    def frames_between(self) -> int:
        """Return how many frames of this library are between the program and who has called the static function."""
        return _frames_of_this_library()


def _frames(session: Session) -> list[Frame]:
    """For each of the user's functions that run, the innermost first, where it is."""
    results: list[Frame] = []
    frame: types.FrameType | None = sys._getframe(2)
    inner = outer = None
    while frame is not None and frame.f_code is not session.position.entry_code:
        if frame.f_code.co_filename in session.position.user_files:
            inner, outer = inner or frame, frame  # the blocks of a function have frames of their own
        elif inner is not None and outer is not None and _is_start(frame):
            results.append(_frame(inner, outer.f_code))
            inner = outer = None
        frame = frame.f_back
    return results if inner is None or outer is None else [*results, _frame(inner, outer.f_code)]


def _is_start(frame: types.FrameType) -> bool:
    return frame.f_code in _starts


def _frame(frame: types.FrameType, function: types.CodeType) -> Frame:
    return Frame(function.co_filename, frame.f_lineno, function.co_name, frame.f_globals)


def _frames_of_this_library() -> int:
    """Return how many frames of this library are between the program and who has called the static function."""
    frame: types.FrameType | None = sys._getframe(2)
    count, known, inside = 0, 0, True
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        count += 1
        if module.partition(".")[0] in ("dy2st", "dy2st_runtime"):
            known = count
            inside = inside and not has(module, Role.RUNS_STATIC_FUNCTIONS)
        elif not inside:
            break
        frame = frame.f_back
    return known
