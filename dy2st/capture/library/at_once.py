"""Iterators of ``itertools`` over what only the program knows the length of: they are gone through at once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.containers.runtime_iterables import as_runtime
from dy2st.capture.environment import written_out
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS

_OF_PROGRAM = (torch.Tensor, *SYMBOLIC_NUMBERS)
_ENDING = (list, tuple, range, dict, set, frozenset, str, torch.Tensor, RuntimeRange)
"""What has an end, and may be gone through before the first item is asked for."""
_JOINING: dict[Any, Callable[..., Any]] = {
    itertools.chain: written_out.chain,
    itertools.product: written_out.product,
    **({itertools.pairwise: written_out.pairwise} if hasattr(itertools, "pairwise") else {}),
}
_MOST: dict[Any, int] = {itertools.product: 2}


def at_once(session: Session, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what makes the items of an iterator that has as many as only the program knows; ``None`` for any other.

    Args:
        session: the capture.
        kind: the class of the iterator.
        args, kwargs: what it is made of.
    """
    if kind is itertools.islice and args and any(isinstance(bound, _OF_PROGRAM) for bound in args[1:]):
        return functools.partial(_islice, session, *args)
    if kind is itertools.repeat:
        times = kwargs.get("times", args[1] if len(args) > 1 else None)
        given = args[0] if args else kwargs.get("object")
        return functools.partial(_listed, session, written_out.repeat, given, times) if isinstance(times, _OF_PROGRAM) else None
    if kind is itertools.groupby and _has_any_length(args[0] if args else kwargs.get("iterable")):
        return functools.partial(_grouped, session, *args, **kwargs)
    if kind not in _JOINING or kwargs or not any(map(_has_any_length, args)):
        return None
    if len(args) > _MOST.get(kind, len(args)) or not all(isinstance(value, _ENDING) or _has_any_length(value) for value in args):
        raise errors.CaptureError(
            f"itertools.{kind.__name__}() of an iterable whose length is known only at run time, and others that may have no end",
            session.here(),
            fix="give it lists, or write for loops",
        )
    return functools.partial(_listed, session, _JOINING[kind], *args)


def _has_any_length(value: Any) -> bool:
    return as_runtime(value) is not None


def _grouped(session: Session, iterable: Any, key: Any = None) -> Any:
    return _listed(session, written_out.groupby, iterable, key)


def _islice(session: Session, values: Any, *bounds: Any) -> Any:
    if not isinstance(values, _ENDING) and not _has_any_length(values):
        raise errors.CaptureError(
            "itertools.islice() takes as many items of an iterator as a tensor decides",
            session.here(),
            fix="give it a list, or write a for loop",
        )
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if stop is None:
        raise errors.CaptureError(
            "itertools.islice() from a position known only at run time, without an end", session.here(), fix="give it a stop"
        )
    return _listed(session, written_out.islice, values, start or 0, stop, 1 if step is None else step)


def _listed(session: Session, function: Callable[..., Any], *args: Any) -> Any:
    return session.call(iter, session.call(function, *args))
