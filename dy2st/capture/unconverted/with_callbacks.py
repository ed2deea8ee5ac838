"""Functions that torch has written in Python and that call functions of the user's, or get a number of the program.

Where tensors decide what they do, or the user's code writes to something of its own, they are converted like the user's code:

    torch.autograd.functional.jacobian(lambda v: v * 2 if v.sum() > 0 else v, x)
    torch.nn.functional.unfold(x, n)

They run as they are written first: most do no more than operations on tensors. So do functions of torch that such a one calls
once it is converted.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.diagnostics.attribution import is_about_abstracts
from dy2st.capture.diagnostics.translation import TRACING_ERRORS
from dy2st.capture.environment.users_code import is_skipped, is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import opaque, unseen_writes
from dy2st.capture.values import storage
from dy2st.capture.values.signals import Refused, Signal
from dy2st.capture.values.symbolic import may_be_undefined
from dy2st.capture.writes.places import cell_value
from dy2st.code_names import written_free, written_globals


def applies(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a function that is called as it is written may be converted where that does not do."""
    if not (function.__module__ or "").startswith("torch") or function.__name__ == "__init__":
        return False
    if function.__qualname__.startswith(("SymInt.", "SymFloat.", "SymBool.")):
        return False  # of the numbers themselves
    if session.converting_library > 0 or next(_getters(args), None) is not None:
        return True
    if next(_callbacks(_given(function, args, kwargs)), None) is not None:
        return True
    return any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in tree_leaves((args, kwargs)))


def call(
    session: Session,
    function: types.FunctionType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    plainly: Callable[[], Any],
    converted: Callable[[], Any],
) -> Any:
    """Call it.

    Args:
        session: the capture.
        function: of torch.
        args, kwargs: its arguments.
        plainly, converted: how it is called as it is written, and as it is converted.
    """
    given = _given(function, args, kwargs)
    callbacks = [*_callbacks(given), *_getters(args)]
    held = [part for value in given for part in _parts(value)]
    before = unseen_writes.reached((*held, *(value for callback in callbacks for value in _found(callback))))
    by_way = any(map(may_be_undefined, (item for _, table in before if isinstance(table, dict) for item in table.values())))
    if by_way or any(_writes_variables(callback) for callback in callbacks):
        return _converted(session, converted)
    session.outside.show(value for value, _ in before)
    attempt, written = session.blocks.begin_attempt([]), dict(session.places.written_at)
    failure: Exception | None = None
    try:
        result = plainly()
    except Signal:
        session.blocks.roll_back(attempt)
        raise
    except Exception as error:
        if not (isinstance(error, (errors.DataDependentError, *TRACING_ERRORS)) or is_about_abstracts(session, error)):
            raise
        failure = error
    if not unseen_writes.put_back(before) and failure is None:
        session.blocks.commit(attempt)
        return result
    session.blocks.roll_back(attempt)
    session.places.written_at = written
    return _instead(session, converted, failure)


def where_torch_gives_up(
    session: Session, function: types.FunctionType, plainly: Callable[[], Any], converted: Callable[[], Any]
) -> Any:
    """Call a function as it is written; one of torch is converted where torch does not know a size that it asks for.

    Args:
        session: the capture.
        function: what is called.
        plainly, converted: how it is called as it is written, and as it is converted.
    """
    before = session.builder.mark()
    try:
        return plainly()
    except TRACING_ERRORS as error:
        if not (function.__module__ or "").startswith("torch.nn.functional") or session.builder.mark() is not before:
            raise
        return _instead(session, converted, error)


def _instead(session: Session, converted: Callable[[], Any], failure: Exception | None) -> Any:
    try:
        return _converted(session, converted)
    except (errors.CaptureError, errors.ConversionError, Refused, *TRACING_ERRORS) as error:
        if failure is None or (isinstance(error, errors.DataDependentError) and isinstance(failure, TRACING_ERRORS)):
            raise
        raise failure from None


def _converted(session: Session, converted: Callable[[], Any]) -> Any:
    session.converting_library += 1
    try:
        return converted()
    finally:
        session.converting_library -= 1


def _given(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return what a function gets: its arguments, what it finds in its closure, and as a method of a module its attributes."""
    results = [*args, *kwargs.values(), *(cell_value(cell) for cell in function.__closure__ or ())]
    return results + list(vars(args[0]).values()) if args and isinstance(args[0], torch.nn.Module) else results


def _getters(args: tuple[Any, ...]) -> Iterator[types.FunctionType]:
    """Yield what a method of a module runs, unseen, where it reads attributes: converted code has made them properties."""
    if not args or not isinstance(args[0], torch.nn.Module) or "_modules" not in vars(args[0]):
        return
    for kind in dict.fromkeys(type(part) for part in args[0].modules()):
        for value in (value for base in kind.__mro__ for value in vars(base).values()):
            getter = value.fget if isinstance(value, property) else None
            if isinstance(getter, types.FunctionType) and not is_skipped(getter):
                yield getter
                yield from (part for part in map(cell_value, getter.__closure__ or ()) if isinstance(part, types.FunctionType))


def _callbacks(given: list[Any]) -> Iterator[types.FunctionType]:
    """Yield the functions of the user's among some values, and in lists, tuples and dicts there."""
    for value in given:
        parts = [value]
        if isinstance(value, (list, tuple, dict)):
            parts = list(value.values()) if isinstance(value, dict) else storage.plain(value)
        yield from (callback for part in parts if (callback := _function_of(part)) is not None)


def _function_of(value: Any) -> types.FunctionType | None:
    return next((part for part in _parts(value) if isinstance(part, types.FunctionType) and is_users_function(part)), None)


def _parts(value: Any) -> Iterator[Any]:
    """Yield what a function of several parts is made of: functions in it and in its closure, objects that it is a method of."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, functools.partial):
            waiting += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, types.MethodType):
            waiting += [part.__func__, part.__self__]
        elif isinstance(part, types.FunctionType) and not is_users_function(part):
            waiting += [cell_value(cell) for cell in part.__closure__ or ()]


def _found(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a function finds in its variables, and the methods and functions of the user's that it calls."""
    for part in opaque.with_helpers(function):
        yield from opaque.found(part)


def _writes_variables(function: types.FunctionType) -> bool:
    parts = opaque.with_helpers(function)
    return any(True for part in parts for names in (written_globals, written_free) for _ in names(part.__code__))
