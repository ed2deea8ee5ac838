"""Calls that look at who makes them (``warnings.warn``, a logger): made from frames like those of the functions that were captured.

A warning is filtered, counted and shown by its module, file and line, and so is what is logged.
"""

from __future__ import annotations

import ast
import functools
import logging
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_PACKAGE = __name__.partition(".")[0]
_globals: dict[tuple[str, str], dict[str, Any]] = {}


@dataclass(frozen=True)
class Frame:
    """Where a function makes a call.

    Attributes:
        file, line, function: the place.
        variables: the globals of the function.
    """

    file: str
    line: int
    function: str
    variables: dict[str, Any]

    def caller(self) -> types.FunctionType:
        """Return a function that does nothing but call another from there."""
        tree = ast.increment_lineno(ast.parse("lambda call: call()", mode="eval"), self.line - 1)
        code = next(part for part in compile(tree, self.file, "eval").co_consts if isinstance(part, types.CodeType))
        return types.FunctionType(code.replace(co_name=self.function), self.variables)


def variables_of(module: str, file: str) -> dict[str, Any]:
    """Return the globals of a module that is not there: one dict for all that a process loads, since warnings are counted in it."""
    return _globals.setdefault((module, file), {"__name__": module, "__file__": file})


class FromFrames:
    """Calls a function from some frames, one in the other.

    Args:
        function: the function.
        frames: the innermost first.
    """

    def __init__(self, function: Callable[..., Any], frames: Sequence[Frame]) -> None:
        self.function, self.frames = function, frames
        self.__qualname__ = self.__name__ = getattr(function, "__qualname__", type(function).__name__)
        self._callers = [frame.caller() for frame in frames]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        level = kwargs.get("stacklevel", 1)
        if isinstance(level, int) and level > len(self._callers):
            kwargs["stacklevel"] = level + self.frames_between()
        call = functools.partial(self.function, *args, **kwargs)
        for caller in self._callers:
            call = functools.partial(caller, call)
        return call()

    def frames_between(self) -> int:
        """Return how many frames are between the program and who has called it."""
        frame: types.FrameType | None = sys._getframe(1)
        count, known = 0, 0
        while frame is not None:
            count += 1
            if (frame.f_globals.get("__name__") or "").partition(".")[0] == _PACKAGE:
                known = count
            frame = frame.f_back
        return known


def name_of(function: Any) -> tuple[str, str] | None:
    """Return the names by which another process has a function that reports; ``None`` for any other.

    Returns:
        Of the module or logger (after ``logging:``), and of the function.
    """
    if function is warnings.warn:
        return "warnings", "warn"
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if name not in LOG_METHODS:
        return None
    if function is getattr(logging, name):
        return "logging", name
    is_known = isinstance(owner, logging.Logger) and logging.getLogger(owner.name) is owner
    return (f"logging:{owner.name}", name) if is_known and function == getattr(owner, name) else None  # type: ignore[union-attr]


def function_of(owner: str, name: str) -> Callable[..., Any] | None:
    """Return the inverse of :func:`name_of`; ``None`` where there is no such function."""
    module, _, logger = owner.partition(":")
    if owner == "warnings":
        return warnings.warn if name == "warn" else None
    if module != "logging" or name not in LOG_METHODS:
        return None
    result: Callable[..., Any] = getattr(logging.getLogger(logger) if ":" in owner else logging, name)
    return result
