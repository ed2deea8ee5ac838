"""Views of keys and items as the sets that they are: ``d.keys() & {k}``, ``d.keys() <= s``, ``d.items().isdisjoint(pairs)``.

Python's own methods of views take what they are given by its ``__iter__``, and know nothing of members that only the program knows:
of which tensor a branch has given, of items of another dict that are there on some ways only.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator
from typing import Any

from dy2st.capture.branching import optional
from dy2st.capture.branching.optional import RuntimeView
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractSet, AbstractTable
from dy2st.capture.values.dict_views import is_view, name_of
from dy2st.capture.values.symbolic import TaggedUnion, options_of
from dy2st.capture.values.texts import Text

_OPERATORS: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    operator.iand: operator.and_, operator.ior: operator.or_, operator.ixor: operator.xor, operator.isub: operator.sub,
    **{function: function for function in (operator.and_, operator.or_, operator.xor, operator.sub)},
}  # fmt: skip
"""What the operators do of views, of which none is changed in place."""
_ITERATED = (list, tuple, dict, str, Iterator)
_PLAIN = (str, int, float, bytes, type(None), enum.Enum, TaggedUnion, Text)


def is_set(value: Any) -> bool:
    """Tell whether a value is a view of keys, or one of items that are found by their hash.

    A pair with a tensor or object in it is found by comparing: then a view does what Python's own does.
    """
    if isinstance(value, RuntimeView):
        return value.name != "values"
    if not is_view(value) or name_of(value) == "values":
        return False
    return name_of(value) == "keys" or all(isinstance(item, _PLAIN) for _, item in value)


def takes(function: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    """Tell whether an operator is one of sets, of which one is a view."""
    sides = (left, right)
    is_of_sets = function in _OPERATORS and any(is_set(option) for side in sides for option in options_of(side))
    return is_of_sets and all(map(_is_taken, sides))


def _is_taken(value: Any) -> bool:
    return isinstance(value, (TaggedUnion, set, frozenset, AbstractSet, AbstractTable, RuntimeView, *_ITERATED)) or is_view(value)


def combined(session: Session, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return what an operator of sets gives of two, of which one is a view: a set."""
    for union, other in (
        (left, lambda option: combined(session, function, option, right)),
        (right, lambda option: combined(session, function, left, option)),
    ):
        if isinstance(union, TaggedUnion):
            return session.over(union, other)
    if not takes(function, left, right):
        return function(left, right)
    return _OPERATORS[function](*(session.call(set, optional.now(session, side)) for side in (left, right)))


def as_set(session: Session, value: Any) -> Any:
    """Return the members of a view as a set; any other value as it is."""
    return session.call(set, value) if is_set(value) else value


def compared(session: Session, left: Any, right: Any) -> tuple[Any, Any]:
    """Return what Python compares as sets, as sets; other operands as they are."""
    if not (is_set(left) or is_set(right)) or not all(is_set(side) or _is_plain_set(side) for side in (left, right)):
        return left, right
    return as_set(session, left), as_set(session, right)


def _is_plain_set(value: Any) -> bool:
    return isinstance(value, (set, frozenset, AbstractSet, AbstractKeys))
