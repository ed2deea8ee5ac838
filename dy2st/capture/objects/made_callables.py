"""Methods and partial functions of what the captured code makes: each call of the program makes others."""

from __future__ import annotations

import functools
import types
from typing import Any, TypeGuard

import torch

from dy2st.capture.environment.sources import wrapped_by
from dy2st.capture.objects import made_functions
from dy2st.capture.session.session import Session

Bound = types.MethodType | functools.partial[Any]


def is_bound(session: Session, value: Any) -> TypeGuard[Bound]:
    """Tell whether a value is a method of something that the captured code has made, or a partial function made there."""
    if session.tracker.source_of(value) is not None:
        return False
    if type(value) is functools.partial:
        return id(value) in session.allocations.created and not vars(value)
    if not isinstance(value, types.MethodType):
        return False
    owner = value.__self__
    is_made = isinstance(owner, torch.Tensor) and session.fakes.is_abstract(owner)
    return is_made or session.ownership.is_new(owner) or made_functions.is_recreated(session, value.__func__)


def parts_of(value: Bound) -> tuple[Any, ...]:
    """Return what is called, and what it is bound to: the object of a method, or the arguments of a partial function."""
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    return wrapped_by(value), value.args, value.keywords
