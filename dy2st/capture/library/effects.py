"""Library functions that do something outside of the program, or hold on to what they see.

Logging and warnings happen at each call of the program. A copy of a tensor is a copy that the program makes. A function that keeps
its results for later is called as if it did not, because the tensors of a capture must not outlive it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import logging
import warnings
from typing import Any

import torch

from dy2st.capture import access
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


@handles(copy.deepcopy)
def _deepcopy(session: Session, value: Any, memo: Any = None) -> Any:
    known: dict[int, Any] = {} if memo is None else memo
    access.look_into(session, value)

    def copied(part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            if id(part) not in known:
                known[id(part)] = _copied_tensor(part)
            return known[id(part)]
        if type(part) in (list, tuple):
            made = type(part)(copied(item) for item in part)
            if type(made) is list:
                session.lists.own(made)
            return made
        if type(part) is dict:
            return {key: copied(item) for key, item in part.items()}
        made = copy.deepcopy(part, known)
        session.created[id(made)] = made
        return made

    return copied(value)


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_leaf:
        return copy.deepcopy(tensor)  # raises what eager raises
    made = tensor.detach().clone()
    return made.requires_grad_() if tensor.requires_grad else made


def _register_readers() -> None:
    for function in (dataclasses.asdict, dataclasses.astuple, dataclasses.replace):
        handles(function)(functools.partial(_reading, function))


def _reading(function: Any, session: Session, value: Any, **others: Any) -> Any:
    access.look_into(session, value, others)
    made = function(value, **others)
    session.created[id(made)] = made
    return made


_register_readers()


@handles(copy.copy)
def _copy(session: Session, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.view_as(value) if not value.is_leaf else value.detach().requires_grad_(value.requires_grad)
    access.look_into(session, value)
    made = copy.copy(value)
    if type(made) is list:
        session.lists.own(made)
    elif made is not value:
        session.created[id(made)] = made
    return made
