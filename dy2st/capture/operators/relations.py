"""``a < b`` and its like, of what Python compares item by item: tuples, lists, and dataclasses that are in an order.

(x, 1) < (y, 2)                   the first items that differ decide; which these are, only the program knows
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.attributes.attributes import attr
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import set_views, tuples
from dy2st.capture.environment.users_code import as_written, is_users_function
from dy2st.capture.looping.iteration import capture_for
from dy2st.capture.looping.truth import truth
from dy2st.capture.looping.zipped import by_position, zip_
from dy2st.capture.operators import comparisons
from dy2st.capture.session.session import Session, current
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractTuple
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion, runtime_list
from dy2st_runtime.primitives import scalars

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def related(symbol: str, left: Any, right: Any) -> Any:
    """Return ``left < right``, or what the symbol says."""
    session = current()
    if session is not None:
        for union, other in (
            (left, lambda option: related(symbol, option, right)),
            (right, lambda option: related(symbol, left, option)),
        ):
            if isinstance(union, TaggedUnion):
                return session.over(union, other)
        left, right = set_views.compared(session, left, right)
        sides = _sides(session, symbol, left, right)
        if sides is not None:
            return _first_difference(session, symbol, *sides, 0)
    return RELATIONS[symbol](left, right)


def is_followed(value: Any) -> bool:
    """Tell whether the program compares a value with others: item by item, or by a method of the user's."""
    if isinstance(value, (TaggedUnion, AbstractTuple)) or runtime_list(value) is not None:
        return True
    return (isinstance(value, (tuple, list)) and comparisons.holds_runtime(value)) or has_own_order(value)


def has_own_order(value: Any) -> bool:
    """Tell whether a method of the user's puts a value in order, or one in it, which the program has to call."""
    if isinstance(value, (tuple, list, TaggedUnion)):
        return any(map(has_own_order, storage.plain(value) if isinstance(value, (tuple, list)) else value.options.values()))
    return not isinstance(value, torch.Tensor) and is_ordered_by_user(type(value))


def is_ordered_by_user(kind: type) -> bool:
    """Tell whether a class of the user's says how ``<`` compares."""
    own = as_written(getattr(kind, "__lt__", None))
    return isinstance(own, types.FunctionType) and (is_users_function(own) or comparisons.is_generated(own))


def _sides(session: Session, symbol: str, left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return the items of two values that Python compares item by item; ``None`` for others, or where all items are known."""
    if tuples.one_is(left, right):
        return (tuples.as_list(session, left), tuples.as_list(session, right)) if tuples.are(left, right) else None
    if isinstance(left, AbstractDeque) and isinstance(right, AbstractDeque):
        return left.items, right.items
    if dataclasses.is_dataclass(left) and type(left) is type(right) and _is_generated_order(left, symbol):
        left, right = ([attr(side, field.name) for field in dataclasses.fields(side) if field.compare] for side in (left, right))
    kind = next((kind for kind in (tuple, list) if isinstance(left, kind)), None)
    if kind is None or not isinstance(right, kind) or _has_other_order(left, kind, symbol):
        return None
    known = session.lists.of(left) is None and session.lists.of(right) is None
    return None if known and not comparisons.holds_runtime(left, right) else (left, right)


def _has_other_order(value: Any, kind: type, symbol: str) -> bool:
    name = f"__{RELATIONS[symbol].__name__}__"
    return getattr(type(value), name, None) is not getattr(kind, name)


def _is_generated_order(value: Any, symbol: str) -> bool:
    own = as_written(getattr(type(value), f"__{RELATIONS[symbol].__name__}__", None))
    return isinstance(own, types.FunctionType) and comparisons.is_generated(own)


def _first_difference(session: Session, symbol: str, left: Any, right: Any, start: int) -> Any:
    if session.lists.of(left) is not None or session.lists.of(right) is not None:
        return _of_any_length(session, symbol, left, right)
    for index in range(start, min(len(left), len(right))):
        one, other = left[index], right[index]
        alike = _alike(session, one, other)
        if is_symbolic(alike):
            rest = functools.partial(_first_difference, session, symbol, left, right, index + 1)
            return capture_if_exp(alike, rest, functools.partial(related, symbol, one, other))
        if not alike:
            return related(symbol, one, other)
    return RELATIONS[symbol](len(left), len(right))


def _alike(session: Session, one: Any, other: Any) -> Any:
    return truth(session, comparisons.same(session, one, other))


def _of_any_length(session: Session, symbol: str, left: Any, right: Any) -> Any:
    """Compare two lists of which one has a length that is known only at run time."""
    a, b = (by_position(session, items) for items in (left, right))
    at: Any = 0
    alike: Any = True
    going = lambda: alike  # noqa: E731

    def look(pair: Any) -> None:
        nonlocal at, alike
        alike = _alike(session, *pair)
        at = session.number(scalars.where, (alike, at + 1, at), "int")

    session.allocations.own_variables(look)
    capture_for(zip_(a, b), look, ("at", "alike"), going)
    return capture_if_exp(
        truth(session, alike),
        lambda: RELATIONS[symbol](a.length(), b.length()),
        lambda: related(symbol, a.at(at), b.at(at)),
    )
