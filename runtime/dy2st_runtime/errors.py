"""Errors of the runtime package, the root of the project's exception tree.

    Dy2stError
    ├── ProgramError      a program breaks one of its own rules (a defect of a pass or of an archive)
    ├── SaveError         a program cannot be written
    ├── LoadError         a file is not an archive, is damaged, or asks for what this version does not have
    ├── SignatureError    (TypeError) the arguments of a call do not fit the program
    ├── BackendError      (ValueError) an executor that does not exist, or cannot be used here, was asked for
    ├── BatchError        a function cannot be run for many examples at once
    ├── ExampleErrors     (ExceptionGroup) some examples of a batch have raised
    ├── IslandError       (TypeError) Python that a program calls gives something else than before
    ├── StepLimitError    the loops of a call make more iterations than the caller allows
    ├── TableError        a dict or set of the program is asked what only a dict or set of Python knows
    ├── TracingError      torch.jit.trace would keep one path of a program
    ├── ServingError      a server cannot start, or cannot serve a model or a request
    └── BuildError        the native executor cannot be built

The front end adds its own branches to the same root in ``dy2st.errors``.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from typing import Any

INDEX = "docs/errors.md"
"""The page with one section for each class; its anchor is the name of the class in lower case."""


class Dy2stError(Exception):
    """Base of every error that this project raises on purpose.

    Catch it to handle "dy2st could not do this" apart from errors of the model itself, which keep their own type. A note below the
    message names the section of the error index that is about the class.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.__notes__ = [f"See {INDEX}#{self._section()}"]

    @classmethod
    def _section(cls) -> str:
        """Return the anchor of the nearest class that is public: a subclass of elsewhere has no section of its own."""
        public = next(base for base in cls.__mro__ if base.__module__ in ("dy2st.errors", "dy2st_runtime.errors"))
        return public.__name__.lower()


class ProgramError(Dy2stError):
    """A program breaks a rule of the representation.

    Cause: a pass, an archive written by something else, or a defect here.
    Fix: run ``dy2st_runtime.verify`` after each pass to find the one that broke it; report it if none of yours did.
    """


class SaveError(Dy2stError):
    """A program holds something that an archive cannot express, or the file cannot be written.

    Cause: a Python object that only exists in this process (a backward hook, a function as an argument or a result) is part of it,
    an attribute has another type after a call than before it, or the file system refuses.
    Fix: the message names the user's line; compute that part outside of the saved function.
    """


class LoadError(Dy2stError):
    """A file cannot be loaded as an archive.

    Cause: it is not a ``.dy2st`` archive, was cut short or altered, or was written by a newer major version.
    Fix: save it again with :func:`dy2st.save`, or upgrade ``dy2st_runtime``.
    """


class SignatureError(Dy2stError, TypeError):
    """The arguments of a call, or an ``InputSpec``, do not fit the function or program.

    Cause: a missing or extra argument, another dtype, rank or size, another structure, or another value of an argument
    that is a constant of the program; an ``InputSpec`` that does not describe the arguments.
    Example: a loaded model was captured for ``f32[batch, 8]`` and is called with ``f64[3, 8]``.
    Fix: the message names the argument, what it must be, and what it was; save the model for the signature you need.
    """


class BackendError(Dy2stError, ValueError):
    """An executor that does not exist, or cannot be used here, was asked for.

    Cause: a misspelled ``backend=``, or environment variable ``DY2ST_BACKEND``; a package that the executor needs is missing.
    Fix: the message lists those there are, or says what to install.
    """


class IslandError(Dy2stError, TypeError):
    """A function of Python that a program calls does what the program cannot go on with.

    Cause: a function marked ``@not_to_static`` gives something of another kind (structure, dtype, number of dimensions) than it
    gave before or than is declared, or changes the dtype or shape of an argument, or a list that is made for it.
    Example: a function that gives a float the first time and ``None`` the second.
    Fix: give the same kind each time. What is learned widens: after the error, both kinds are known.
    """

    def __init__(self, message: str, island: object | None = None) -> None:
        super().__init__(message)
        self.island = island
        """Whose result was of another kind, where that is the cause."""


class DivergenceError(Dy2stError, RuntimeError):
    """Processes that run one program take different ways to an operation that they have to do together.

    Cause: a branch or loop whose condition each process decides for itself, by its own data, has a collective inside, or uses
    parameters that processes share; or the processes have captured different programs. In plain PyTorch, they would wait for each
    other for ever, or train on what belongs to another operation.
    Example: ``if x.sum() > 0: dist.all_reduce(y)``.
    Fix: make the condition the same in all processes, or let them go together: ``to_static(..., uniform="auto")``.
    """


class GroupError(Dy2stError, RuntimeError):
    """A program that works together with other processes runs in one that is not like the one that it is for.

    Cause: a saved program with collectives is loaded before ``torch.distributed`` is set up, or in a process that has no group of
    that name, another rank, or more or fewer processes beside it.
    Fix: set up the processes as they were when the program was saved, or save it for these; the message says what they were.
    """


class StepLimitError(Dy2stError):
    """The loops of one call make more iterations than the caller allows.

    Cause: the model was loaded with ``max_steps``, and a loop of it does not end, or not soon enough.
    Fix: load it with a larger ``max_steps``, or without; the traceback shows the loop.
    """


class TableError(Dy2stError):
    """A dict or set whose keys only the program knows is used in a way that it cannot follow.

    Cause: a NaN is a key of a dict or a member of a set, which Python finds by its identity, and a program has none for numbers; or
    something is read out of a dict that was put in by a name of it of which nothing was known at the capture.
    Fix: replace a NaN before, by ``x.nan_to_num()`` for example; put something in before the loop.
    """


class TracingError(Dy2stError):
    """``torch.jit.trace`` was given a program, of which it would keep the path of one call.

    Cause: a model that holds a static function, or a loaded model, is traced.
    Fix: deploy it with ``dy2st.save`` or ``dy2st.export``, or trace the eager model under ``dy2st.enable_to_static(False)``.
    """


class ServingError(Dy2stError):
    """A server cannot start, or cannot serve a model or a request.

    Cause: a package of the extra ``serve`` is missing, an address is taken, a name is given twice, or a model takes or gives what
    the Open Inference Protocol has no datatype for; of a request, what its client is told.
    Fix: the message says what to change.
    """


class BuildError(Dy2stError):
    """The native executor cannot be built.

    There is no C++ compiler, or it fails; the message holds what it says. Install a C++20 compiler (``g++`` or ``clang++``), name
    it in the environment variable ``CXX``, or ask for the executor that needs none with ``backend="python"``.
    """


class BatchError(Dy2stError):
    """A function cannot be run for many examples at once, or is called with what are no examples.

    Cause: arguments whose dimensions for the examples have different sizes, or that have none; the function changes something that
    the examples share (a list of the caller's, a global variable); state of other examples is kept from the call before.
    Fix: the message names the argument or the line; return what is written instead, or call ``reset()``.
    """


_Group: Any = getattr(builtins, "ExceptionGroup", Exception)


class ExampleErrors(Dy2stError, _Group):  # type: ignore[misc]  # a group where Python has groups
    """Some examples of a batch have raised; the others have run to their end.

    From Python 3.11 on it is an ``ExceptionGroup``, so that ``except*`` takes it apart.

    Args:
        message: how many.
        exceptions: what they have raised.

    Attributes:
        by_example: what has been raised, by the number of the example.
        results: of all examples, ``None`` for those.

    Cause: an exception of the function's own for the data of these examples.
    Fix: look at ``by_example``; ``batch(..., errors="return")`` gives the exceptions beside the results of the others.
    """

    by_example: dict[int, Exception]
    results: list[Any]

    def derive(self, excs: Sequence[Exception]) -> ExampleErrors:
        """Return the same of some of the exceptions, as ``except*`` asks for."""
        result = ExampleErrors(self.message, excs)
        result.by_example = {number: error for number, error in self.by_example.items() if error in excs}
        result.results = self.results
        return result

    if sys.version_info < (3, 11):

        def __init__(self, message: str, exceptions: Sequence[Exception]) -> None:
            super().__init__(message)
            self.message, self.exceptions = message, tuple(exceptions)
