"""Iterators of ``itertools`` over what only the program knows the length of: they are gone through at once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers.iterables import Stream
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.iterables import iterators, watching
from dy2st.capture.iterables.runtime_iterables import as_runtime
from dy2st.capture.library import steps_written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.looping import iteration, zipped
from dy2st.capture.operators.relations import is_followed
from dy2st.capture.session.iterators import sources
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS

_OF_PROGRAM = (torch.Tensor, *SYMBOLIC_NUMBERS)
_ENDING = (list, tuple, range, dict, set, frozenset, str, torch.Tensor, RuntimeRange)
"""What has an end, and may be gone through before the first item is asked for."""
_WRITTEN_OUT: dict[Any, Callable[..., Any]] = {
    itertools.chain: steps_written_out.chain,
    itertools.product: steps_written_out.product,
    itertools.combinations: steps_written_out.combinations,
    itertools.combinations_with_replacement: steps_written_out.combinations_with_replacement,
    **({itertools.pairwise: steps_written_out.pairwise} if hasattr(itertools, "pairwise") else {}),
}
_SIZED = (itertools.combinations, itertools.combinations_with_replacement, itertools.permutations)
"""What takes a number beside an iterable."""


_EAGER = (itertools.product, *_SIZED)
"""What takes all items of what it is given when it is made."""


def at_once(session: Session, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what makes the items of an iterator that has as many as only the program knows; ``None`` for any other.

    Args:
        session: the capture.
        kind: the class of the iterator.
        args, kwargs: what it is made of.

    Raises:
        CaptureError: it cannot be made at once.
    """
    if kind.__module__ != "itertools":
        return None
    for value in (*args, *kwargs.values()):
        session.iterators.check_left(value)
    args = tuple(decided(session, value) for value in args)
    if kind in _EAGER:
        args = tuple(iteration.collected(value) if isinstance(value, Stream) and value.resumes else value for value in args)
    if kind is itertools.repeat:
        times = kwargs.get("times", args[1] if len(args) > 1 else None)
        given = args[0] if args else kwargs.get("object")
        return (
            functools.partial(_listed, session, steps_written_out.repeat, given, times) if isinstance(times, _OF_PROGRAM) else None
        )
    is_open = any(map(has_any_length, (*args, *kwargs.values())))
    if kind is itertools.groupby:
        is_grouped = is_open or _is_list_of_program(*args, **kwargs)
        return functools.partial(_grouped, session, *args, **kwargs) if is_grouped else None
    if kind is itertools.islice:
        is_kept = any(isinstance(value, Stream) and value.resumes for value in args)
        is_first = is_open or is_kept or any(isinstance(bound, _OF_PROGRAM) for bound in args[1:])
        return functools.partial(_islice, session, *args) if is_first else None
    return functools.partial(_listed, session, *_written_out(session, kind, args, kwargs)) if is_open else None


def _written_out(session: Session, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the function that makes the items, and what it is called with."""
    if kind is itertools.zip_longest:
        _check_ends(session, kind, args)
        return (steps_written_out.zip_longest, kwargs.get("fillvalue"), *args)
    if kind in _SIZED and any(isinstance(size, _OF_PROGRAM) for size in args[1:]):
        raise errors.CaptureError(
            f"itertools.{kind.__name__}() of a size that is known only at run time", session.here(), fix="write for loops"
        )
    if kind is itertools.permutations and len(args) > 1:
        return (steps_written_out.permutations, *args)
    if kind not in _WRITTEN_OUT or kwargs:
        raise errors.CaptureError(
            f"itertools.{kind.__name__}() of an iterable whose length is known only at run time",
            session.here(),
            fix="write a for loop",
        )
    _check_ends(session, kind, args[:1] if kind in _SIZED else args)
    return (_WRITTEN_OUT[kind], *args)


def _check_ends(session: Session, kind: type, args: tuple[Any, ...]) -> None:
    if not all(isinstance(value, _ENDING) or has_any_length(value) for value in args):
        raise errors.CaptureError(
            f"itertools.{kind.__name__}() of an iterable whose length is known only at run time, and others that may have no end",
            session.here(),
            fix="give it lists, or write for loops",
        )


@handles(itertools.tee)
def _tee(session: Session, iterable: Any, n: int = 2) -> Any:
    iterable = decided(session, iterable)
    if not has_any_length(iterable):
        result = itertools.tee(iterators.over(iterable), n)
        if id(iterable) in session.iterators.made:
            session.iterators.spend(iterable)  # what is left in it depends on what is taken from these
        return result
    items = iteration.collected(iterable)
    return tuple(session.call(iter, items) for _ in range(n))


@handles(itertools.chain.from_iterable)
def _chain_from_iterable(session: Session, many: Any) -> Any:
    many = decided(session, many)
    if isinstance(many, (list, tuple)):
        return session.call(itertools.chain, *iteration.iterated(many))
    return _one_after_the_other(session, iteration.iterated(many))


def _one_after_the_other(session: Session, many: Iterator[Any]) -> Iterator[Any]:
    for values in many:
        yield from watching.stepped(iterators.over(decided(session, values)))


def decided(session: Session, value: Any) -> Any:
    """Return a list of the keys of a dict, or of what a view or set gives, of which a tensor decides what is there.

    Any other value is given back as it is; the iterators that it takes from are used up, since all of its items are taken.
    """
    shown = watching.shown_table(session, value)
    for one in sources(value) if isinstance(value, Stream) else ():
        session.iterators.spend(one, alone=True)
    is_open = isinstance(value, optional.RuntimeView) or (shown is not None and optional.is_unsure(session, shown[0]))
    return iteration.collected(value) if is_open else value


def has_any_length(value: Any) -> bool:
    return as_runtime(value) is not None


def _is_list_of_program(iterable: Any, key: Any = None) -> bool:
    """Tell whether a list of a known length holds what only the program knows, by which it may be parted."""
    is_list = isinstance(iterable, (list, tuple, torch.Tensor))
    return is_list and (isinstance(iterable, torch.Tensor) or any(is_symbolic(item) or is_followed(item) for item in iterable))


def _grouped(session: Session, iterable: Any, key: Any = None) -> Any:
    return _listed(session, steps_written_out.groupby, iterable, key)


def _islice(session: Session, values: Any, *bounds: Any) -> Any:
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    is_first = start in (0, None) and step in (1, None) and stop is not None
    if is_first and isinstance(values, Stream) and values.resumes:
        return _first(session, values, stop)
    if not isinstance(values, _ENDING) and not has_any_length(values):
        error = errors.CaptureError(
            "itertools.islice() takes as many items of an iterator as a tensor decides",
            session.here(),
            fix="give it a list, or write a for loop",
        )
        session.iterators.require(values, error)
    if stop is None:
        return _listed(session, steps_written_out.islice_from, values, start or 0, 1 if step is None else step)
    return _listed(session, steps_written_out.islice, values, start or 0, stop, 1 if step is None else step)


def _first(session: Session, values: Stream, stop: Any) -> Any:
    """Return the iterator over the first items of one of the program, which it takes one by one."""
    check(session, stop >= 0, ValueError, "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    return zipped.mapped(session, itertools.islice, lambda _, value: value, session.call(range, stop), values)


def _listed(session: Session, function: Callable[..., Any], *args: Any) -> Any:
    return session.call(iter, session.call(function, *args))
