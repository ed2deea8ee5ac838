"""Calls of functions that know nothing of symbolic values: once for each option of their arguments, and as Python would."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from dy2st import errors
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.collections import made_tables
from dy2st.capture.containers import complex_numbers
from dy2st.capture.environment.users_code import is_in_skipped_package
from dy2st.capture.environment.written_out import Generator
from dy2st.capture.iterables import iterators
from dy2st.capture.library import (
    check_surroundings,
    note_setting,
)
from dy2st.capture.looping import spreading
from dy2st.capture.objects import hidden_state
from dy2st.capture.session.session import Session
from dy2st.capture.texts import wording
from dy2st.capture.unconverted import dimensions, drawing, random_draws
from dy2st.capture.unconverted.looked_into import makes_named_tuple, passes_on
from dy2st.capture.unconverted.numbers_given import call_noting_writes, given_numbers, not_taken
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, contents
from dy2st.capture.values.symbolic import TaggedUnion, with_option

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

TEXT_METHODS = frozenset(("__repr__", "__str__", "__format__"))


def replaced(args: tuple[Any, ...], old: Any, new: Any) -> tuple[Any, ...]:
    return tuple(new if value is old else value for value in args)


def call_plain(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Call as it is; lists of the program cannot go where nobody knows them."""
    union = union_among(function, args, kwargs)
    if union is not None:
        return over_argument(session, union, function, args, kwargs)
    args, kwargs = complex_numbers.given(session, function, args, kwargs)
    if any(isinstance(value, Generator) for value in (*args, *kwargs.values())):
        return drawing.call(session, function, args, kwargs, call_plain)
    if getattr(function, "__name__", None) in TEXT_METHODS and not kwargs:
        return wording.of_method(session, function, args)
    made_tables.check_unknown(session, function, *args, *kwargs.values())
    check_surroundings(session, function, args, kwargs)
    hidden_state.called(session, function, args)
    if not session.blocks.at_root:
        iterators.check_own(session, function, *args, *kwargs.values())
    for value in (*args, *kwargs.values()):
        session.iterators.check_left(value)
        session.tracker.step_at_capture(value)
        if isinstance(value, spreading.Rest):
            raise spreading.refused(session, function)
        is_list = session.lists.of(contents(value)) is not None and not isinstance(value, AbstractDeque)
        if is_list and not makes_named_tuple(function, args):
            kind = "list" if isinstance(value, list) else "tuple"
            raise errors.CaptureError(
                f"{getattr(function, '__qualname__', function)}() gets a {kind} that changes length inside a captured block",
                session.here(),
                fix="pass torch.stack(items) or torch.cat(items), or loop over the list in converted code",
            )
    kwargs = _with_correction(session, kwargs)
    flag = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.SymBool)), None)
    with (
        hidden_state.check_buffers(session, (*args, *kwargs.values())),
        random_draws.refused(session, function),
        _arrays_checked(session, function, args, kwargs),
    ):
        result = (
            dimensions.given(session, function, args, kwargs, lambda: given_numbers(session, function, args, kwargs))
            if flag is None
            else _call_with_flag(session, flag, function, args, kwargs)
        )
    if isinstance(result, (list, tuple, dict)):
        session.ownership.own_all(result)
    hidden_state.note_created(session, result)
    if not kwargs:
        note_setting(session, function, args, result)
    return result


def _with_correction(session: Session, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keywords with the number in a tensor that is the correction of a deviation: no fake kernel takes a tensor there."""
    correction = kwargs.get("correction")
    if not isinstance(correction, torch.Tensor):
        return kwargs
    return {**kwargs, "correction": session.call(correction.item)}


@contextlib.contextmanager
def _arrays_checked(session: Session, function: Any, args: Any, kwargs: Any) -> Iterator[None]:
    """Have code that cannot take what stands for an array of NumPy say that it asks for its contents."""
    try:
        yield
    except TypeError as error:
        has_array = any(isinstance(value, AbstractArray) for value in (*args, *kwargs.values()))
        if not has_array or is_in_skipped_package(function) or isinstance(error, errors.Dy2stError):
            raise
        what = "asks for the contents of an array that is known only when the program runs"
        fix = "use a function of NumPy or torch there, or mark the function around it with @dy2st.not_to_static"
        raise not_taken(session, function, what, error, fix) from error


def _call_with_flag(session: Session, flag: torch.SymBool, function: Any, args: Any, kwargs: Any) -> Any:
    """Call with a bool of the program; where the function needs to know which it is, in a branch for each."""
    attempt = session.blocks.begin_attempt([])
    try:
        result = call_noting_writes(session, function, args, kwargs)
    except BaseException as error:
        session.blocks.roll_back(attempt)
        words = "SymBool" if isinstance(error, TypeError) else "should be integer or float"
        if not isinstance(error, GuardOnDataDependentSymNode) and words not in str(error):
            raise
    else:
        session.blocks.commit(attempt)
        return result

    def once(known: bool) -> Any:
        named = {name: known if value is flag else value for name, value in kwargs.items()}
        return session.call(function, *replaced(args, flag, known), **named)

    return capture_if_exp(flag, lambda: once(True), lambda: once(False))


def union_among(function: Any, args: Any, kwargs: Any) -> TaggedUnion | None:
    keeps = passes_on(function, args)
    for value in (*args, *kwargs.values()):
        parts = storage.plain(value) if isinstance(value, (list, tuple)) and not keeps else (value,)
        for part in parts:
            if isinstance(part, TaggedUnion):
                return part
    return None


def over_argument(session: Session, union: TaggedUnion, function: Any, args: Any, kwargs: Any) -> Any:
    """Call once for each option of an argument."""
    keeps = passes_on(function, args)

    def known(value: Any, option: Any) -> Any:
        if keeps:
            return option if value is union else value
        return with_option(value, union, option)

    def once(option: Any) -> Any:
        named = {name: known(value, option) for name, value in kwargs.items()}
        return session.call(function, *(known(value, option) for value in args), **named)

    return session.over(union, once)
