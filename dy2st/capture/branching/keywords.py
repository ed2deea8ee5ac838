"""`**mapping` in a call, where the keys of the mapping, or their order, may be known only when the program runs.

    f(x, **chosen)          a branch for each dict that it may be, each set of keys and each order of them

Python itself would step through the mapping; it gets one of a single item, which :func:`call` replaces by those of the mapping.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.types import absent_attributes
from dy2st.capture.values.abstract_objects import AbstractTable
from dy2st.capture.values.symbolic import TaggedUnion

_numbers = itertools.count()


class Keywords:
    """Stands for the items of a mapping among the keyword arguments of a call."""

    def __init__(self, mapping: Any) -> None:
        self.mapping = mapping


def keywords(mapping: Any) -> dict[str, Keywords]:
    """Return what a call gets for ``**mapping``; the key is one that no other has."""
    return {f"**{next(_numbers)}": Keywords(mapping)}


def first(kwargs: dict[str, Any]) -> str | None:
    """Return the key of the first mapping among keyword arguments."""
    return next((key for key, value in kwargs.items() if type(value) is Keywords), None)


def call(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: str) -> Any:
    """Return a call with a mapping among its keyword arguments, for each set of keys that it may have."""

    def once(items: dict[str, Any]) -> Any:
        return session.call(function, *args, **_with_items(function, kwargs, key, items))

    return _split(session, function, kwargs[key].mapping, once)


def _split(session: Session, function: Any, mapping: Any, use: Callable[[dict[str, Any]], Any]) -> Any:
    if isinstance(mapping, TaggedUnion):
        return session.over(mapping, lambda option: _split(session, function, option, use))
    if not hasattr(type(mapping), "keys"):
        raise raised(
            TypeError(f"{_name(function)} argument after ** must be a mapping, not {absent_attributes.class_name(mapping)}")
        )
    if isinstance(mapping, AbstractTable):
        raise errors.CaptureError(
            f"{_name(function)} gets the items of a dict of which only the program knows the keys",
            session.here(),
            fix="pass the dict itself",
        )
    items = mapping if type(mapping) is dict else session.call(dict, mapping)
    if isinstance(items, TaggedUnion):
        return session.over(items, lambda option: _split(session, function, option, use))
    return optional.case_split(session, items, use, ordered=True)


def _with_items(function: Any, kwargs: dict[str, Any], key: str, items: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with the items of a mapping in its place."""
    results: dict[str, Any] = {}
    for name, value in kwargs.items():
        for item, given in items.items() if name == key else [(name, value)]:
            if item in results:
                raise raised(TypeError(f"{_name(function)} got multiple values for keyword argument {item!r}"))
            results[item] = given
    return results


def _name(function: Any) -> str:
    """Return a function as Python names it in an error."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None:
        return str(function)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"
