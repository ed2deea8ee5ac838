"""Views of dicts (``d.items()``) that the user's code holds while a tensor decides what is in the dict.

A view is Python's own, and shows the Python object; what is there on some ways only, or in another order, is known beside it.
"""

from __future__ import annotations

import collections
import gc
import sys
from collections.abc import ItemsView, KeysView, Sequence, ValuesView
from typing import Any

from dy2st import errors
from dy2st.capture.values.symbolic import TaggedUnion


class Views:
    """The views that a capture has made, by their dicts."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[Any, list[Any]]] = {}
        self._copies: dict[int, tuple[Any, Any, list[tuple[Any, Any]]]] = {}
        """Views of copies, by their identity, with the dicts that were copied, and what was in these."""

    def added(self, table: Any, view: Any) -> Any:
        """Return what a method of a container gives: a view is remembered."""
        if not isinstance(view, (KeysView, ValuesView, ItemsView)):
            return view
        known = self._views.setdefault(id(table), (table, []))[1]
        known[:] = [*(one for one, count in zip(known[:], _references(known)) if count > _ALONE + 1), view]
        return view

    def forget(self, table: Any, view: Any) -> None:
        """Forget a view that only a loop goes over."""
        known = self._views.get(id(table), (None, []))[1]
        known[:] = [one for one in known if one is not view]

    def check(self, table: Any, here: errors.Location | None) -> None:
        """Note that what is in a dict, or its order, is about to depend on a branch or loop.

        Raises:
            CaptureError: there is a view of the dict.
        """
        if self._is_held(table):
            gc.collect()  # what is garbage holds nothing
        if self._is_held(table):
            raise errors.CaptureError(
                "a view of a dict is held while a branch or loop decides what is in the dict",
                here,
                fix="ask for it where it is used: for key, value in table.items()",
            )

    def _is_held(self, table: Any) -> bool:
        return any(count > _ALONE for count in _references(self._views.get(id(table), (None, []))[1]))

    def copied(self, table: Any, view: Any) -> Any:
        """Return what a method gives of a copy of a dict, since only the program knows what is in there: a view is remembered."""
        if is_view(view):
            self._copies[id(view)] = view, table, list(dict.items(table))
        return view

    def table(self, view: Any) -> Any:
        """Return the dict that a view shows."""
        known = self._copies.get(id(view))
        return gc.get_referents(view)[0] if known is None else known[1]

    def is_stale(self, view: Any) -> bool:
        """Tell whether a view is one of a copy, and what was copied has changed."""
        _, table, before = self._copies.get(id(view), (None, {}, []))
        return id(view) in self._copies and is_changed(table, before)


def of_one(views: Views, value: Any) -> tuple[Any, str] | None:
    """Return the dict that a view shows, or that each option of a tagged union shows, and the method that gives such a view.

    ``None`` where it is no view, or one of several dicts.
    """
    options = list(value.options.values()) if isinstance(value, TaggedUnion) else [value]
    if not all(map(is_view, options)):
        return None
    tables, names = zip(*((views.table(option), name_of(option)) for option in options))
    return None if any(table is not tables[0] for table in tables) or len(set(names)) > 1 else (tables[0], names[0])


def is_changed(table: Any, before: Sequence[tuple[Any, Any]]) -> bool:
    """Tell whether a dict holds something else than some items, or in another order."""
    now = list(dict.items(table))
    return len(now) != len(before) or any(a is not c or b is not d for (a, b), (c, d) in zip(now, before))


def is_view(value: Any) -> bool:
    """Tell whether a value is a view of a dict."""
    return isinstance(value, KINDS)


_NAMES = ("keys", "values", "items")
_TABLES: tuple[dict[Any, Any], ...] = ({}, collections.OrderedDict())
_VIEWS = [getattr(table, name)() for table in _TABLES for name in _NAMES]
KINDS: tuple[type, ...] = tuple(map(type, _VIEWS))
"""The classes of views, that of the keys of a dict first."""
ITERATORS: tuple[type, ...] = tuple(type(iter(view)) for view in _VIEWS)
"""The classes of the iterators over dicts and views."""


def name_of(view: Any) -> str:
    """Return the method that gives such a view."""
    return type(view).__name__.rpartition("_")[2]


def _references(views: list[Any]) -> list[int]:
    return [sys.getrefcount(view) for view in views]


_ALONE = _references([{}.keys()])[0]
"""How many references there are to a view that only a list holds."""
