"""Views of dicts (``d.items()``) that the user's code holds while a tensor decides what is in the dict.

A view is Python's own, and shows the Python object; what is there on some ways only, or in another order, is known beside it.
"""

from __future__ import annotations

import sys
from collections.abc import ItemsView, KeysView, ValuesView
from typing import Any

from dy2st import errors


class Views:
    """The views that a capture has made, by their dicts."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, list[Any]]] = {}

    def added(self, table: Any, view: Any) -> Any:
        """What a method of a container gives: a view is remembered."""
        if not isinstance(view, (KeysView, ValuesView, ItemsView)):
            return view
        known = self._made.setdefault(id(table), (table, []))[1]
        known[:] = [*(one for one, count in zip(known[:], _references(known)) if count > _ALONE + 1), view]
        return view

    def check(self, table: Any, here: errors.Location | None) -> None:
        """What is in a dict, or its order, is about to depend on a branch or loop.

        Raises:
            CaptureError: there is a view of the dict.
        """
        if any(count > _ALONE for count in _references(self._made.get(id(table), (None, []))[1])):
            raise errors.CaptureError(
                "a view of a dict is held while a branch or loop decides what is in the dict",
                here,
                fix="ask for it where it is used: for key, value in table.items()",
            )


def _references(views: list[Any]) -> list[int]:
    return [sys.getrefcount(view) for view in views]


_ALONE = _references([{}.keys()])[0]
"""How many references there are to a view that only a list holds."""
