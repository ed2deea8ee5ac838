"""Errors of torch's tracing, told in the user's terms."""

from __future__ import annotations

import contextlib
import linecache
import logging
import re
from collections.abc import Iterator
from typing import Any

from dy2st import errors
from dy2st.capture.diagnostics.attribution import TRACING_ERRORS, is_about_abstracts, is_about_texts, is_defect, runs_in_capture
from dy2st.capture.session.session import Session, current
from dy2st.capture.torch_functions.data_dependence import data_dependent
from dy2st.capture.types import mismatches
from dy2st.capture.values.signals import Refused
from dy2st_runtime.call.tracebacks import chained, note, steps

ACTS_FOR_USER = False


@contextlib.contextmanager
def translated(session: Session) -> Iterator[None]:
    """Errors of torch's tracing become errors of ours; errors of the user's code get a note that says they came up in capture."""
    try:
        with _unpacked():
            yield
    except errors.CaptureError as error:
        error.location = error.location or user_line(session, error) or _first_line(session)
        raise
    except errors.Dy2stError:
        raise
    except TRACING_ERRORS as error:
        raise _data_dependent(session, error) from error
    except RecursionError as error:
        if not runs_in_capture(session, error):
            raise
        raise _holds_itself(session, error) from None
    except mismatches.HoldsItselfMismatch as error:
        raise _holds_itself(session, error) from None
    except Exception as error:
        if isinstance(error, TypeError) and _UNHASHABLE.search(str(error)):
            raise _as_key(session, error) from error
        if is_about_abstracts(session, error):
            raise _unknown_value(session, error) from error
        error.args = tuple(in_users_words(argument) for argument in error.args)
        _tell(session, error)
        raise


def _tell(session: Session, error: Exception) -> None:
    """Say where an error of eager's, or of a mistake of ours, has come up."""
    if isinstance(error.__context__, Refused):
        error.__context__ = None
    if not is_defect(error):
        note(error, f"raised while dy2st captured {session.name}: the code ran on abstract values for the tensors")
        return
    *_, last = steps(error)
    code = last.tb_frame.f_code
    note(error, f"raised by {code.co_name} ({code.co_filename}:{last.tb_lineno}): this is a mistake of dy2st: please report it")


@contextlib.contextmanager
def _unpacked() -> Iterator[None]:
    """Unpack the errors that went past the user's handlers."""
    try:
        yield
    except Refused as refused:
        error = refused.error.with_traceback(chained(refused.__traceback__, refused.error.__traceback__))
        raise error from error.__cause__


def in_users_words(argument: Any) -> Any:
    """Return a message as eager gives it: abstract values are tensors."""
    return argument.replace("FakeTensor", "Tensor") if isinstance(argument, str) else argument


class _WhileCapturing(logging.Filter):
    """Drops the records of a thread that captures: an operation that fails is the user's error, and told as such."""

    def filter(self, record: logging.LogRecord) -> bool:
        return current() is None


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Switch off torch's log of operations that fail on abstract values, in threads that capture."""
    dropped = _WhileCapturing()
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.addFilter(dropped)
    try:
        yield
    finally:
        logger.removeFilter(dropped)


def _data_dependent(session: Session, error: Exception) -> errors.CaptureError:
    if any(step.tb_frame.f_code.co_name == "__hash__" for step in steps(error)):
        return _as_key(session, error)
    location = user_line(session, error)
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return errors.DataDependentError(
        "this operation needs to know a value or a size that exists only when the program runs",
        location,
        seen=first_line,
        fix="give the size a bound with torch._check, pass it as a Python number, or mark the function with @dy2st.not_to_static",
    )


_DECORATORS = 20
"""After how many lines of decorators a function begins at the latest."""
_UNHASHABLE = re.compile(r"unhashable type: .*Sym(Int|Float|Bool)")


def _as_key(session: Session, error: Exception) -> errors.CaptureError:
    return errors.DataDependentError(
        "a number that is known only when the program runs is put into a set or used as the key of a dict",
        user_line(session, error),
        fix="keep numbers in a list, index a tensor with the number, or choose among known keys with if statements",
    )


def _holds_itself(session: Session, error: Exception) -> errors.CaptureError:
    return errors.CaptureError(
        "a list, dict or object that holds itself is used where a tensor decides",
        user_line(session, error) or _first_line(session),
        fix="keep what points back in a variable: a program passes on what containers hold, so none may be part of itself",
    )


def _unknown_value(session: Session, error: Exception) -> errors.CaptureError:
    location, seen = user_line(session, error), f"{type(error).__name__}: {error}"
    if is_about_texts(error):
        return errors.CaptureError(
            "a string with values known only at run time is used for what a program does not do with strings",
            location,
            seen=seen,
            fix="print, raise, return, compare, search or slice it, or make it of Python values",
        )
    return errors.DataDependentError(
        "this operation needs a Python value, and gets one that is known only when the program runs",
        location,
        seen=seen,
        fix="use a tensor operation, pass the value as a Python argument, or mark the function with @dy2st.not_to_static",
    )


def user_line(session: Session, error: BaseException) -> errors.Location | None:
    """Return the innermost line of the user's code in the error's traceback."""
    location = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename in session.position.user_files:
            location = errors.Location(code.co_filename, step.tb_lineno, code.co_name)
        step = step.tb_next
    return location


def _first_line(session: Session) -> errors.Location:
    """Return where the captured function begins, for what is met before or after all lines of it run."""
    code = session.request.function.__code__
    file, first = code.co_filename, code.co_firstlineno
    lines = range(first, first + _DECORATORS)
    line = next((n for n in lines if linecache.getline(file, n).lstrip().startswith(("def ", "async def "))), first)
    return errors.Location(file, line, code.co_name)


__all__ = ["TRACING_ERRORS", "data_dependent", "in_users_words", "translated", "user_line"]
