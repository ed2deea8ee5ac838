"""Comparing dicts of which only the program knows the keys, where there are too many sets of them to compare each."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

from dy2st.capture.branching import optional, unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.looping.truth import logical_not
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import PLAIN_VALUES, Undefined, options_of


def are_wide(session: Session, left: Any, right: Any) -> bool:
    """Tell whether two dicts may have too many sets of keys to compare each, and can be compared key by key in any order."""
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return False
    if not any(optional.is_wide(session, table) and not has_own(table, "__eq__") for table in (left, right)):
        return False
    values = [option for table in (left, right) for value in dict.values(table) for option in options_of(value)]
    kinds = (collections.OrderedDict, collections.Counter)  # they compare in order, and as if what is not there were 0
    in_order = any(isinstance(table, kinds) for table in (left, right))
    return not in_order and all(isinstance(value, PLAIN_VALUES) for value in values)


def equal(left: Any, right: Any, alike: Callable[[Any, Any], Any]) -> Any:
    """Return ``left == right``; ``alike`` compares two values."""
    absent = Undefined("")
    result: Any = True
    for key in dict.fromkeys((*storage.keys_of(left), *storage.keys_of(right))):
        result = _and(result, functools.partial(_alike_under, alike, dict.get(left, key, absent), dict.get(right, key, absent)))
    return result


def _alike_under(alike: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Tell whether two dicts agree about what is under a key: nothing, or equal values."""
    both = _and(unions.presence(one), lambda: _and(unions.presence(other), lambda: alike(*map(unions.certain, (one, other)))))
    neither = _and(logical_not(unions.presence(one)), lambda: logical_not(unions.presence(other)))
    return neither if both is False else both if neither is False else capture_if_exp(both, lambda: True, lambda: neither)


def _and(first: Any, second: Callable[[], Any]) -> Any:
    if isinstance(first, bool):
        return second() if first else False
    return capture_if_exp(first, second, lambda: False)
