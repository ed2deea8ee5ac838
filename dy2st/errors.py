"""Everything that dy2st raises, as one tree.

    Dy2stError
    ├── ConversionError (SyntaxError)        the source cannot be rewritten: file, line and caret
    │   ├── UnsupportedSyntaxError           a statement that has no static meaning
    │   └── SourceNotFoundError              there is no source to rewrite
    ├── CaptureError                         the program cannot be recorded: file, line and caret
    │   ├── DataDependentError               Python asks for the value of a tensor
    │   ├── BranchMismatchError              the two ways to a point cannot be joined; names both places
    │   └── LoopVariableError                a loop changes a variable in a way that one program cannot follow
    ├── ExportError                          a program cannot be told in another format, or the result is not right
    ├── LeakError                            something of a capture was left in what the user can reach: a mistake of dy2st
    ├── RewriteError                         two functions do not make a rewrite rule
    ├── SignatureError (TypeError)           arguments or specifications do not fit the function
    ├── ProgramError                         a program breaks a rule of the representation
    ├── SaveError                            a program cannot be written
    ├── LoadError                            a file is not an archive, or a damaged one
    ├── BackendError (ValueError)            an executor that does not exist, or cannot be used here, was asked for
    ├── BuildError                           the native executor cannot be built
    ├── BatchError                           a function cannot be run for many examples at once
    ├── ExampleErrors (ExceptionGroup)       some examples of a batch have raised
    ├── DivergenceError (RuntimeError)       processes take different ways to what they have to do together
    ├── GroupError (RuntimeError)            a program with collectives runs in a process that it is not for
    ├── IslandError (TypeError)              Python that a program calls gives something else than before
    ├── StepLimitError                       the loops of a call make more iterations than the caller allows
    ├── TableError                           a dict or set of the program is asked what only one of Python knows
    ├── TracingError                         torch.jit.trace would keep one path of a program
    └── ServingError                         a server cannot start, or cannot serve a model

The root and the last fifteen, from ``SignatureError`` on, are defined by `dy2st_runtime.errors`, which a deployment host has
without dy2st.
"""

from __future__ import annotations

import linecache
import types
from dataclasses import dataclass

from dy2st_runtime.errors import (
    BackendError,
    BatchError,
    BuildError,
    DivergenceError,
    Dy2stError,
    ExampleErrors,
    GroupError,
    IslandError,
    LoadError,
    ProgramError,
    SaveError,
    ServingError,
    SignatureError,
    StepLimitError,
    TableError,
    TracingError,
)

__all__ = [
    "BackendError",
    "BatchError",
    "BranchMismatchError",
    "BuildError",
    "CaptureError",
    "ConversionError",
    "DataDependentError",
    "DivergenceError",
    "Dy2stError",
    "ExampleErrors",
    "ExportError",
    "GroupError",
    "IslandError",
    "LeakError",
    "LoadError",
    "Location",
    "LoopVariableError",
    "ProgramError",
    "RewriteError",
    "SaveError",
    "ServingError",
    "SignatureError",
    "SourceNotFoundError",
    "StepLimitError",
    "TableError",
    "TracingError",
    "UnsupportedSyntaxError",
]


@dataclass(frozen=True)
class Location:
    """A place in the user's code; columns count characters from 0, and None means the whole line."""

    file: str
    line: int
    function: str = ""
    column: int | None = None
    end_column: int | None = None

    def render(self) -> str:
        """Return the place as a traceback shows it: file, line, the line's text and a caret line under it."""
        where = f'  File "{self.file}", line {self.line}'
        header = f"{where}, in {self.function}" if self.function else where
        text = linecache.getline(self.file, self.line).rstrip()
        if not text.strip():
            return header
        indent = len(text) - len(text.lstrip())
        start = indent if self.column is None else max(self.column, indent)
        end = len(text) if self.end_column is None else min(self.end_column, len(text))
        carets = " " * (start - indent) + "^" * max(end - start, 1)
        return f"{header}\n    {text.lstrip()}\n    {carets}"


class ConversionError(Dy2stError, SyntaxError):
    """The source of a function cannot be rewritten. Base class: see the subclasses for causes and fixes."""


class UnsupportedSyntaxError(ConversionError):
    """A statement that has no meaning in a static program.

    Cause: the static function is a generator or a coroutine, looks at its local variables by `eval`, or a jump in
    `finally` drops another jump.
    Example: `@to_static def f(x): yield x`.
    Fix: what the message says to write instead, or keep the function as it is with `@dy2st.not_to_static`.
    """


class SourceNotFoundError(ConversionError):
    """There is no source to rewrite.

    Cause: the function was made by `exec`, typed at a plain Python prompt, or its file changed since the import.
    Example: `exec("def f(x): ..."); to_static(f)`.
    Fix: define it in a file or a notebook cell, or keep it as it is with `@dy2st.not_to_static`.
    """

    def __init__(self, code: types.CodeType, reason: str, edited: bool = False) -> None:
        self.edited = edited
        """Whether there was a source, and its file holds another one now."""
        message = (
            f"cannot find the source of {code.co_name!r}: {reason}. "
            "Define it in a file or a notebook cell, or mark it with @dy2st.not_to_static"
        )
        super().__init__(message, (code.co_filename, code.co_firstlineno, None, None))


class CaptureError(Dy2stError):
    """The program of a function cannot be recorded.

    The base of the classes for common causes, and itself the error of everything else that a program cannot hold.

    Cause: the function does what cannot be undone or repeated (`x.backward()`, a file, a thread), calls what torch cannot record,
    or makes a value that no program has, such as a dict of a size that a tensor decides.
    Example: `{k: x * k for k in range(n)}` with a tensor `n`.
    Fix: what the message says to write instead; or `to_static(full_graph=False)`, which runs such calls as they are written.
    """

    def __init__(self, message: str, location: Location | None = None, *, seen: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, location)
        self.message = message
        self.location = location
        self.seen = seen
        self.fix = fix

    def places(self) -> list[str]:
        """Return the places to show, rendered."""
        return [self.location.render()] if self.location is not None else []

    def __str__(self) -> str:
        lines = [self.message, *self.places()]
        if self.seen is not None:
            lines.append(f"Seen: {self.seen}")
        if self.fix is not None:
            lines.append(f"Fix: {self.fix}")
        return "\n".join(lines)


class DataDependentError(CaptureError):
    """Python asks for the value of a tensor that is known only when the program runs.

    Cause: a truth value, a number or an array is taken from a tensor in code that is not converted (a library without source, a
    function marked `@not_to_static`), or a number from a tensor would be a key or a member of a set.
    Example: `x.numpy().max()`, or `if x.sum() > 0:` in a function marked `@not_to_static`.
    Fix: use the tensor operation (`x.max()`), or have that function converted too.
    """


class BranchMismatchError(CaptureError):
    """The two ways to one point leave values that no single value can stand for.

    Cause: a name or an attribute has one of too many kinds: up to 8 dtypes, numbers of dimensions or structures become a tagged
    union.
    Example: `for k in range(9): if x.sum() > k: y = x.reshape((1,) * k + (3,))`.
    Fix: make the branches agree in dtype, number of dimensions and structure, or use another name in one of them.
    """

    def __init__(
        self,
        message: str,
        location: Location | None = None,
        other: Location | None = None,
        *,
        seen: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message, location, seen=seen, fix=fix)
        self.other = other

    def places(self) -> list[str]:
        """Return both places, rendered."""
        return [place.render() for place in (self.location, self.other) if place is not None]


class LoopVariableError(CaptureError):
    """A loop changes a variable in a way that one program cannot follow.

    Cause: the variable has another number of dimensions, another structure or another depth after each iteration, without end; or
    it is another set or object each time.
    Example: `while h.sum() < 100: h = h[None] * 2`.
    Fix: give the variable its final kind before the loop, collect the values in a list, or change the object that is there.
    """


class ExportError(Dy2stError):
    """A program cannot be written in another format, or what was written does not do what the program does.

    Cause: the format has no form for an operation (the message names it and your line), a value grows in a loop without a
    bound, a result is of another kind for other inputs; or the exported file gave another result than the program.
    Example: `while more(x): xs = torch.cat([xs, x])` to `.pt2`: nobody knows how long `xs` becomes.
    Fix: what the message says; a bound is given with `max_growth=`.
    """

    def __init__(self, message: str, location: object | None = None) -> None:
        super().__init__(message, location)
        self.message = message
        self.location = location
        """The user's line, where there is one."""

    def __str__(self) -> str:
        return self.message if self.location is None else f"{self.location}: {self.message}"


class LeakError(Dy2stError):
    """A value that exists during a capture only was found in what the user can reach.

    Cause: a mistake of dy2st: it has not undone everything that the captured code has written. Only searched for with
    ``DY2ST_CHECK_LEAKS=1`` in the environment.
    Example: a fake tensor in an attribute of a module after a call.
    Fix: report it; keep what the message names in a variable of the function, or mark the function with `@dy2st.not_to_static`.
    """


class RewriteError(Dy2stError):
    """Two functions do not make a rewrite rule.

    Cause: one of them is more than a straight computation of one tensor from its arguments, or they compute different things.
    Example: the pattern of ``dy2st.rewrite`` reads a global tensor, writes in place, or returns two tensors.
    Fix: the message says which function and what; pass tensors as arguments, and make one rule for each result.
    """
