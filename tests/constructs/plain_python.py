"""The oracle: the original function and its converted form, run on plain Python values, must do the same."""

from __future__ import annotations

import itertools
import linecache
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dy2st.constructs.registry import namespace
from dy2st.static.conversion import ConvertedFunction, convert

_numbers = itertools.count()


class OutOfFuel(Exception):
    """A program loops for too long."""


class Log:
    """Records what a program does, in order."""

    def __init__(self, fuel: int = 60) -> None:
        self.seen: list[str] = []
        self._fuel = fuel

    def __call__(self, value: Any) -> Any:
        self.seen.append(type(value).__name__ if type(value).__name__ == "Box" else repr(value))
        return value

    def tick(self) -> bool:
        """Use some fuel."""
        self._fuel -= 1
        if self._fuel < 0:
            raise OutOfFuel
        return True

    def steps(self, count: int) -> Iterator[int]:
        """An iterator whose steps are recorded."""
        for step in range(count):
            self(f"step {step}")
            yield step

    @contextmanager
    def guard(self, value: Any) -> Iterator[Any]:
        """A context that swallows ValueError for even values."""
        self("enter")
        try:
            yield value
        except ValueError:
            if isinstance(value, int) and value % 2 == 0:
                return
            raise
        finally:
            self("exit")


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of one run."""

    value: str
    error: str
    line: int
    log: tuple[str, ...]


def load(text: str) -> dict[str, Any]:
    """Run a module text that `linecache` knows, as a notebook cell is."""
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, filename, "exec", dont_inherit=True), module)
    return module


def converted(function: types.FunctionType) -> types.FunctionType:
    """The converted form, whose call operator converts the functions of the same file."""
    operators = namespace()

    def call(callee: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(callee, types.FunctionType) and callee.__code__.co_filename == function.__code__.co_filename:
            return convert(callee).bind(callee, operators)(*args, **kwargs)
        return callee(*args, **kwargs)

    operators.call = call
    operators.while_stmt = _while
    operators.for_stmt = _for
    return convert(function).bind(function, operators)


def _while(test: Callable[[], Any], body: Callable[[], None], names: tuple[str, ...]) -> None:
    while test():
        body()


def _for(iterable: Any, body: Callable[[Any], None], names: tuple[str, ...], test: Callable[[], Any] | None) -> None:
    for item in iterable:
        body(item)
        if test is not None and not test():
            return


def conversion(text: str, name: str = "f") -> ConvertedFunction:
    """The conversion of one function of a module text."""
    return convert(load(text)[name])


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Run, and tell what happened."""
    filename = function.__code__.co_filename  # type: ignore[attr-defined]
    log = next((arg for arg in args if isinstance(arg, Log)), Log())
    try:
        value = repr(function(*args, **kwargs))
    except Exception as error:
        line = 0
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == filename:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return Outcome("", f"{type(error).__name__}: {error}", line, tuple(log.seen))
    return Outcome(value, "", 0, tuple(log.seen))
