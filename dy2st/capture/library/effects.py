"""Library functions that do something outside of the program, or hold on to what they see.

Logging and warnings happen at each call of the program. A function that keeps its results for later is called as if it did not,
because the tensors of a capture must not outlive it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from typing import Any

from dy2st.capture.library.registry import handles
from dy2st.capture.session import Session
from dy2st.capture.unwinding import Suppress
from dy2st_runtime import control

LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
CachedFunction = functools._lru_cache_wrapper


def at_each_call(session: Session, function: Any, *args: Any, **kwargs: Any) -> None:
    """Call a function for its effect whenever the program gets there."""
    session.builder.call(control.call_, (function, args, kwargs))


def _register_effects() -> None:
    for function in (*(getattr(logging, name) for name in LOG_METHODS), warnings.warn):
        handles(function)(functools.partial(_effect, function))


def _effect(function: Any, session: Session, *args: Any, **kwargs: Any) -> None:
    at_each_call(session, function, *args, **kwargs)


_register_effects()


@handles(contextlib.suppress)
def _suppress(session: Session, *kinds: type[BaseException]) -> Suppress:
    return Suppress(*kinds)
