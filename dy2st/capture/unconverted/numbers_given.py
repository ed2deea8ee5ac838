"""Numbers that a call gets, where a tensor decides them: which of the user's own are asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.users_code import is_in_skipped_package
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import unseen_writes
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True


def call_noting_writes(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Call as it is; what it writes to objects is noted, of libraries that are known to write to tensors only, to modules."""
    if isinstance(getattr(function, "__self__", None), torch.Tensor):
        return function(*args, **kwargs)
    if is_in_skipped_package(function):
        return unseen_writes.called_with_modules(session, function, args, kwargs)
    return unseen_writes.called(session, function, args, kwargs)


def given_numbers(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Return the same; that a library does not take a number which is known only at run time is no error of the user's code.

    Raises:
        DataDependentError: it does not.
    """
    try:
        return call_noting_writes(session, function, args, kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        given = (*args, *kwargs.values(), getattr(function, "__self__", None))
        if is_in_skipped_package(function) or not _are_numbers(given):
            raise
        what = "gets a number that is known only at run time, and needs to know it"
        fix = "write a loop or if statements in its place, or pass the number as a Python argument"
        raise not_taken(session, function, what, error, fix) from None


def not_taken(session: Session, function: Any, what: str, error: Exception, fix: str) -> errors.DataDependentError:
    """Return the error for a function that does not take a value known only at run time.

    Args:
        function: what is called.
        what: it does, in words.
        error: what it has raised.
        fix: what to write instead.
    """
    seen = f"{type(error).__name__}: {error}"
    return errors.DataDependentError(f"{_name(function)}() {what}", session.here(), seen=seen, fix=fix)


def _are_numbers(values: Iterable[Any]) -> bool:
    """Tell whether there are numbers of the program among some values, and no tensors, which have errors of their own."""
    return any(isinstance(value, SYMBOLIC_NUMBERS) for value in values) and not any(
        isinstance(value, torch.Tensor) for value in values
    )


def _name(function: Any) -> str:
    """Return what a function or class is called; the call of a class comes as one of ``type``."""
    result = function.args[0] if isinstance(function, functools.partial) and function.args else function
    return getattr(result, "__qualname__", None) or type(result).__qualname__
