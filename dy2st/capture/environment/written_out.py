"""What Python and its libraries do in C, in Python: it is converted like the user's code, so that a tensor may decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def attempted(step: Callable[[], Any], kinds: Any, otherwise: Callable[[], Any]) -> Any:
    """Return what a step gives, or another one where it raises.

    ``getattr`` with a default, and what else catches exceptions itself.
    """
    try:
        return step()
    except kinds:
        return otherwise()


def first(values: Iterable[Any]) -> Any:
    """Return ``next`` of an iterator of which nothing has been taken."""
    for value in values:
        return value
    raise StopIteration


def first_or(values: Iterable[Any], default: Any) -> Any:
    """Return the same with a default."""
    for value in values:
        return value
    return default


def takewhile(predicate: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.takewhile``, all at once."""
    taken = []
    for value in values:
        if not predicate(value):
            break
        taken.append(value)
    return taken


def dropwhile(predicate: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.dropwhile``, all at once."""
    taken = []
    is_dropping = True
    for value in values:
        if is_dropping:
            if predicate(value):
                continue
            is_dropping = False
        taken.append(value)
    return taken


def filterfalse(predicate: Callable[[Any], Any] | None, values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.filterfalse``, all at once."""
    if predicate is None:
        return [value for value in values if not value]
    return [value for value in values if not predicate(value)]


def compress(values: Iterable[Any], selectors: Iterable[Any]) -> list[Any]:
    """Return ``itertools.compress``, all at once."""
    return [value for value, is_selected in zip(values, selectors) if is_selected]


def of_kinds(kinds: Any, function: Callable[[Any], Any], leaf: Any) -> Any:
    """Return what ``tree_map_only`` makes of a leaf, given classes."""
    return function(leaf) if isinstance(leaf, kinds) else leaf


def where(predicate: Callable[[Any], Any], function: Callable[[Any], Any], leaf: Any) -> Any:
    """Return what ``tree_map_only`` makes of a leaf, given a condition."""
    return function(leaf) if predicate(leaf) else leaf
