"""Exceptions that the user's code raises inside captured blocks: raised when the program gets there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from dy2st import errors
from dy2st.capture import text
from dy2st.capture.failures import TRACING_ERRORS
from dy2st.capture.regions import Refused, Unreachable
from dy2st.capture.session import Session, current
from dy2st_runtime import control


def raised(error: Any) -> Any:
    """What a ``raise`` statement raises during capture.

    Outside of captured blocks, the exception itself. Inside, or when its message is known only at run time, an operation that
    raises it is recorded, and the rest of the block is unreachable.
    """
    session = current()
    if session is None:
        return error
    kind = error if isinstance(error, type) else type(error)
    arguments = () if isinstance(error, type) else error.args
    if _is_caught(session, kind):
        return error
    if session.at_root and not any(text.has_runtime_parts(session, a) for a in arguments):
        return error
    session.emit_checks()
    maker = kind if isinstance(error, type) else _maker(session, error)
    session.builder.call(control.raise_, (maker, *(text.value(session, a) for a in arguments)))
    return Unreachable()


def _maker(session: Session, error: BaseException) -> Callable[..., BaseException]:
    """What makes an exception like this one from its arguments: the class, or for one with an ``__init__`` of its own a copy.

    Raises:
        CaptureError: it keeps a value known only at run time.
    """
    if not isinstance(type(error).__init__, FunctionType):
        return type(error)
    if text.has_runtime_parts(session, vars(error)):
        raise errors.CaptureError(
            f"a {type(error).__name__} keeps a value that is known only at run time",
            session.here(),
            fix="pass the values to Exception.__init__ only",
        )
    return functools.partial(_copy, type(error), dict(vars(error)))


def _copy(kind: type[BaseException], attributes: dict[str, Any], *arguments: Any) -> BaseException:
    made = kind.__new__(kind, *arguments)
    made.__dict__.update(attributes)
    return made


def _is_caught(session: Session, kind: type) -> bool:
    """Whether a handler in the same block catches what is raised now.

    Raises:
        CaptureError: a handler outside of the block would have to.
    """
    if not session.handlers:
        return False
    if session.handlers[-1] is session.builder:
        return True
    raise errors.CaptureError(
        f"a {kind.__name__} that is raised where a tensor decides would have to be caught by an except clause outside",
        session.here(),
        fix="put the try statement into the branch, or test the condition instead of raising",
    )


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """A scope in which the user's code catches exceptions."""
    session = current()
    if session is None:
        yield
        return
    session.handlers.append(session.builder)
    try:
        yield
    except (errors.Dy2stError, *TRACING_ERRORS) as error:
        raise Refused(error) from None
    finally:
        session.handlers.pop()
