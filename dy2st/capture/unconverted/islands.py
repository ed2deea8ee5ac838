"""Islands: functions that run as Python when the program runs. What they give is declared, or was learned from a call in eager.

A function that is marked and does no more than operations on tensors is followed, as ever: its operations are recorded one by one,
and what it reads is guarded. Any other is an operation of the program.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import dis
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from dy2st import errors
from dy2st.capture.diagnostics.translation import TRACING_ERRORS
from dy2st.capture.environment.users_code import is_library, is_part_of_library
from dy2st.capture.session.regions import Region
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import learned, opaque, unseen_writes
from dy2st.capture.unconverted.island_calls import Recording, UnknownIslandError
from dy2st.capture.unconverted.plain import call_plain, over_argument, union_among
from dy2st.capture.values import storage
from dy2st.capture.values.signals import Refused, Signal
from dy2st.capture.values.symbolic import (
    CAPTURE_VALUES,
)
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.call.tracebacks import note

_FOLLOWED = frozenset(
    ("torch", "math", "cmath", "operator", "functools", "itertools", "collections", "dataclasses", "typing", "enum", "copy",
     "dy2st", "dy2st_runtime", "builtins", "types", "abc", "contextlib", "einops", "re", "string", "heapq", "bisect", "fractions",
     "decimal", "numbers", "textwrap", "weakref", "array")
)  # fmt: skip
"""Modules whose functions do the same whenever they run, and nothing else."""
_ACTING = frozenset(
    getattr(builtins, name) for name in ("print", "input", "open", "exec", "eval", "compile", "__import__", "breakpoint")
)


_NAMED = (types.FunctionType, types.BuiltinFunctionType, type)
_BLAMED = "__dy2st_blamed__"
"""The attribute of an exception that has the key of the function in which it has come up."""


@contextlib.contextmanager
def blamed(session: Session, function: types.FunctionType) -> Iterator[None]:
    """Note which function cannot be captured, where it may run as Python instead: the innermost one."""
    try:
        yield
    except (Exception, Refused) as error:
        if not session.request.options.full_graph and not is_part_of_library(function):
            kept = error.error if isinstance(error, Refused) else error
            if not hasattr(kept, _BLAMED):
                setattr(kept, _BLAMED, learned.key_of(function.__code__))
        raise


def culprit(error: BaseException) -> learned.Key | None:
    """Return the key of the innermost function that could not be captured, as the error of a capture tells."""
    if not isinstance(error, (errors.CaptureError, errors.ConversionError)):
        return None
    step: BaseException | None = error
    result = None
    while step is not None:
        result = getattr(step, _BLAMED, result)
        step = step.__cause__ or step.__context__
    return result


def is_island(session: Session, function: types.FunctionType) -> bool:
    """Tell whether a function may become an operation of the program: the user has marked it, or it cannot be captured."""
    return learned.mark_of(function) is not None or learned.key_of(function.__code__) in session.request.islands


def call(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that may be an island."""
    mark = learned.mark_of(function)
    if mark is None or mark.returns is not None or not _is_followed(function, (*args, *kwargs.values())):
        reason = session.request.islands.get(learned.key_of(function.__code__), "it is marked")
        return _recorded(session, function, args, kwargs, reason)
    followed = _Following(session, function, args, kwargs)
    error = followed.run()
    if error is None and (session.blocks.at_root or not followed.grows()):
        return followed.keep()
    followed.take_back()
    if error is not None:
        return _instead(session, function, args, kwargs, error)
    try:
        return _recorded(session, function, args, kwargs, "it changes the length of a list, where a tensor decides")
    except UnknownIslandError:
        raise
    except errors.CaptureError:
        followed.run()
        return followed.keep()


class _Following:
    """An attempt to record what a function does, operation by operation.

    Args:
        session: the capture.
        function: what is called.
        args, kwargs: its arguments.
    """

    def __init__(self, session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._session, self._function, self._args, self._kwargs = session, function, args, kwargs
        self._result: Any = None

    def run(self) -> Exception | None:
        """Do so; returns why it could not be done."""
        session = self._session
        self._attempt, self._written = session.blocks.begin_attempt([]), dict(session.places.written_at)
        self._known = session.tracker.known()
        try:
            opaque.look(session, self._function, self._args, self._kwargs)
            self._result = call_plain(session, self._function, self._args, self._kwargs)
        except Signal:
            session.blocks.roll_back(self._attempt)
            raise
        except Exception as error:
            if session.in_flight.pending and not isinstance(error, (errors.Dy2stError, *TRACING_ERRORS)):
                self.keep()
                raise  # for a handler of the user's
            return error
        if _leaves_new(session, self._attempt[0]):
            return errors.CaptureError(
                f"{self._function.__qualname__}(), which is not converted, leaves an object that it makes itself", session.here()
            )
        return None

    def keep(self) -> Any:
        """Keep what it has recorded; returns the result."""
        self._session.blocks.commit(self._attempt)
        return self._result

    def take_back(self) -> None:
        """Forget it."""
        session = self._session
        session.blocks.roll_back(self._attempt)
        session.places.written_at = self._written
        session.tracker.forget_since(self._known)

    def grows(self) -> bool:
        """Tell whether it changes the length of a list from outside."""
        return _grows(self._session, self._attempt[0])


def _grows(session: Session, region: Region) -> bool:
    """Tell whether what was done changes the length of a list from outside."""
    return any(
        isinstance(entry.place, ContentsPlace)
        and isinstance(owner := entry.place.owner, list)
        and session.tracker.source_of(owner) is not None
        and isinstance(entry.seen, list)
        and len(entry.seen) != len(owner)
        for entry in region.undo_log.entries.values()
    )


def _leaves_new(session: Session, region: Region) -> bool:
    """Tell whether what was done leaves an object of the user's that it has made, unseen, outside of the call."""
    for entry in region.undo_log.entries.values():
        now = entry.place.read()
        parts = now.values() if isinstance(now, dict) else now if isinstance(now, (list, tuple, set, collections.deque)) else (now,)
        if any(unseen_writes.has_attributes(part) and not _is_known(session, part) for part in parts):
            return True
    return False


def _is_known(session: Session, value: Any) -> bool:
    return session.tracker.source_of(value) is not None or session.ownership.is_new(value)


def _instead(
    session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Any:
    """Record a call that could not be followed; where that cannot be, either, say why it could not."""
    try:
        return _recorded(session, function, args, kwargs, "the values of tensors decide what it does")
    except UnknownIslandError:
        raise
    except errors.CaptureError as refused:
        if not isinstance(error, errors.Dy2stError):
            raise
        message = refused.message
    note(error, f"It cannot run as Python when the program runs, either: {message}")
    raise error


def _recorded(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
    union = union_among(function, args, kwargs)
    if union is not None:
        return over_argument(session, union, function, args, kwargs)
    return Recording(session, function, reason).record(learned.mark_of(function), args, kwargs)


def _is_followed(function: types.FunctionType, given: tuple[Any, ...]) -> bool:
    """Tell whether a function names nothing that does more than compute, as far as its code and its arguments show."""
    reached = (*given, *opaque.reached(function))
    if not unseen_writes.are_few(reached) or any(isinstance(value, types.GeneratorType) for value in reached):
        return False
    for part in opaque.with_helpers(function):
        if any(_imports_or_tries(code) for code in _codes(part.__code__)):
            return False
        of_python = [getattr(builtins, name, None) for name in part.__code__.co_names if name not in part.__globals__]
        found = [*opaque.found(part)]
        tables = [storage.table_of(value) or {} for value in (*given, *found) if not isinstance(value, (type, types.ModuleType))]
        held = [table[name] for table in tables for code in _codes(part.__code__) for name in code.co_names if name in table]
        if any(map(_acts, (*found, *of_python, *held))):
            return False
    return True


def _codes(code: types.CodeType) -> list[types.CodeType]:
    results = [code]
    for known in results:
        results += [constant for constant in known.co_consts if isinstance(constant, types.CodeType)]
    return results


def _imports_or_tries(code: types.CodeType) -> bool:
    """Tell whether code imports something, or handles exceptions: what raises when the program runs is not known at capture."""
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    return "IMPORT_NAME" in names or "SETUP_FINALLY" in names or names.count("PUSH_EXC_INFO") > names.count("WITH_EXCEPT_START")


def _acts(value: Any) -> bool:
    """Tell whether a value is a function that does more than compute, or an object of a library that may change by itself."""
    if isinstance(value, types.BuiltinFunctionType) and value in _ACTING:
        return True
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] not in _FOLLOWED
    if isinstance(value, (np.ndarray, np.generic, *CAPTURE_VALUES)):
        return False
    module = getattr(value if isinstance(value, _NAMED) else type(value), "__module__", None) or ""
    return is_library(module) and module.partition(".")[0] not in _FOLLOWED
