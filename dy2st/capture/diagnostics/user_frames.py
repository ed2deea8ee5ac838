"""Calls that look at who makes them (``warnings.warn``, a logger): made from frames like those of the user's functions.

A warning is filtered, counted and shown by its module, file and line, and so is what is logged.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from dy2st.capture.session.session import Session
from dy2st.capture.values.roles import Role, has

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_starts: set[types.CodeType] = set()
"""The code of this library that runs a function of the user's."""


def starts_function(function: FunctionT) -> FunctionT:
    """Mark a function of this library that runs one of the user's."""
    _starts.add(inspect.unwrap(function).__code__)
    return function


class FromUserFrames:
    """Calls a function from the lines where the user's functions are now, one in the other.

    Args:
        session: the capture.
        function: the function.
    """

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self.function = function
        self.__qualname__ = self.__name__ = getattr(function, "__qualname__", type(function).__name__)
        self._callers = _callers(session)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level = kwargs.get("stacklevel", 1)
        if isinstance(level, int) and level > len(self._callers):
            kwargs["stacklevel"] = level + _frames_of_this_library()
        call = functools.partial(self.function, *args, **kwargs)
        for caller in self._callers:
            call = functools.partial(caller, call)
        return call()


def _callers(session: Session) -> list[types.FunctionType]:
    """For each of the user's functions that run, the innermost first, one that does nothing but call another from its line."""
    results: list[types.FunctionType] = []
    frame: types.FrameType | None = sys._getframe(2)
    inner = outer = None
    while frame is not None and frame.f_code is not session.position.entry_code:
        if frame.f_code.co_filename in session.position.user_files:
            inner, outer = inner or frame, frame  # the blocks of a function have frames of their own
        elif inner is not None and outer is not None and _is_start(frame):
            results.append(_caller(inner, outer.f_code))
            inner = outer = None
        frame = frame.f_back
    return results if inner is None or outer is None else [*results, _caller(inner, outer.f_code)]


def _is_start(frame: types.FrameType) -> bool:
    return frame.f_code in _starts


def _caller(frame: types.FrameType, function: types.CodeType) -> types.FunctionType:
    tree = ast.increment_lineno(ast.parse("lambda call: call()", mode="eval"), frame.f_lineno - 1)
    code = next(part for part in compile(tree, function.co_filename, "eval").co_consts if isinstance(part, types.CodeType))
    return types.FunctionType(code.replace(co_name=function.co_name), frame.f_globals)


def _frames_of_this_library() -> int:
    """Return how many frames of this library are between the program and who has called the static function."""
    frame: types.FrameType | None = sys._getframe(1)
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
