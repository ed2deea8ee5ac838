"""Library functions that do something outside of the program, or hold on to what they see.

Logging and warnings happen at each call of the program. A function that keeps its results for later is called as if it did not,
because the tensors of a capture must not outlive it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import types
import warnings
from collections.abc import Callable
from typing import Any

from dy2st.capture.diagnostics.user_frames import FromUserFrames
from dy2st.capture.library.registry import handles
from dy2st.capture.raising import exceptions
from dy2st.capture.raising.unwinding import Suppress
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text, wording
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.reports import LOG_METHODS as LOG_METHODS

CachedFunction = functools._lru_cache_wrapper


def at_each_call(session: Session, function: Any, *args: Any, **kwargs: Any) -> None:
    """Call a function for its effect whenever the program gets there."""
    union = next((value for value in (*args, *kwargs.values()) if isinstance(value, TaggedUnion)), None)
    if union is not None:
        session.over(union, lambda option: at_each_call(session, function, *_with(args, union, option), **kwargs))
        return
    given = tuple(wording.node_value(session, value) for value in args)
    session.builder.call(control.call_, (function, given, {key: wording.node_value(session, kwargs[key]) for key in kwargs}))


def _with(args: tuple[Any, ...], union: TaggedUnion, option: Any) -> tuple[Any, ...]:
    return tuple(option if value is union else value for value in args)


def log(session: Session, function: Any, *args: Any, **kwargs: Any) -> None:
    """Note that a function or method that logs; what it is given of objects with values known only at run time is their text."""
    before = args[: getattr(function, "__name__", "") == "log"]
    template, *values = args[len(before) :]
    if values and any(wording.is_object_of_runtime(session, value) for value in values):
        given = values[0] if len(values) == 1 and isinstance(values[0], dict) and values[0] else tuple(values)
        template, values = text.percent(session, template, given), []
    elif wording.is_object_of_runtime(session, template):
        template = session.call(str, template)
    at_each_call(session, FromUserFrames(session, function), *before, template, *values, **kwargs)


def _register_logging() -> None:
    for function in (getattr(logging, name) for name in LOG_METHODS):
        handles(function)(functools.partial(_log, function))


def _log(function: Any, session: Session, *args: Any, **kwargs: Any) -> None:
    log(session, function, *args, **kwargs)


_register_logging()


@handles(warnings.warn)
def _warn(session: Session, message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **rest: Any) -> None:
    given = {"category": category, "stacklevel": stacklevel, "source": source, **rest}
    if isinstance(message, Warning) and _is_text(message):
        message, given["category"] = message.args[0], type(message)
    if not isinstance(message, Warning):
        return at_each_call(session, FromUserFrames(session, warnings.warn), message, **given)
    values: list[Any] = []
    maker = exceptions.maker(session, message, values)
    at_each_call(session, FromUserFrames(session, functools.partial(_warn_of, maker)), *values, **given)


def _is_text(message: Warning) -> bool:
    """Tell whether a warning is no more than its class and text: then any process makes another one."""
    own = any(isinstance(getattr(type(message), name), types.FunctionType) for name in ("__init__", "__new__", "__str__"))
    return not own and not vars(message) and len(message.args) == 1 and isinstance(message.args[0], (str, text.Text))


def _warn_of(maker: Callable[..., Any], *values: Any, stacklevel: int, **given: Any) -> None:
    warnings.warn(maker(*values), stacklevel=stacklevel + 1, **given)


@handles(warnings.warn_explicit)
def _warn_explicit(session: Session, *args: Any, **kwargs: Any) -> None:
    at_each_call(session, warnings.warn_explicit, *args, **kwargs)


@handles(contextlib.suppress)
def _suppress(session: Session, *kinds: type[BaseException]) -> Suppress:
    return Suppress(*kinds)
