"""What is known of the orders of dicts, with what was known before: going back costs what has changed since, not all there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.values.storage import MISSING

ACTS_FOR_USER = False

Entry = tuple[dict[Any, Any], Any]
"""A dict whose keys may be in another order than those of the Python object, with that order: one, or a tagged union; or a dict
whose keys have ranks, with these.
"""


class KnownOrders:
    """A table that notes each change; a mark is how many changes there were."""

    def __init__(self) -> None:
        self._entries: dict[Any, Entry] = {}
        self._changes: list[tuple[Any, Any]] = []
        """What has been put, by what it is known under, with what was there before."""

    def get(self, number: Any, default: Any = None) -> Any:
        """Return what is known now."""
        return self._entries.get(number, default)

    def put(self, number: Any, entry: Entry) -> None:
        """From now on something else is known."""
        self._changes.append((number, self._entries.get(number, MISSING)))
        self._entries[number] = entry

    def tables(self) -> list[dict[Any, Any]]:
        """Return the dicts of which something is known."""
        return [table for table, _ in self._entries.values()]

    def __contains__(self, number: Any) -> bool:
        return number in self._entries

    def __bool__(self) -> bool:
        return bool(self._entries)

    def mark(self) -> int:
        """Return a mark for :meth:`undo`."""
        return len(self._changes)

    def undo(self, mark: int, is_new: Callable[[dict[Any, Any]], bool]) -> None:
        """Go back to what was known at a mark of dicts that are not new; later marks mean nothing from then on."""
        kept = []
        for number, old in reversed(self._changes[mark:]):
            if number in self._entries and is_new(self._entries[number][0]):
                kept.append((number, old))
            elif old is MISSING:
                self._entries.pop(number, None)
            else:
                self._entries[number] = old
        self._changes[mark:] = reversed(kept)

    def at(self, mark: int) -> Before:
        """Return what was known at a mark."""
        before: dict[Any, Any] = {}
        for number, old in self._changes[mark:]:
            before.setdefault(number, old)
        return Before(self, before)


class Before:
    """What was known at a mark.

    Args:
        now: what is known now.
        changed: what has been put since, with what was there before.
    """

    def __init__(self, now: KnownOrders, changed: dict[Any, Any]) -> None:
        self._now, self._changed = now, changed

    def get(self, number: Any, default: Any = None) -> Any:
        """Return what was known."""
        old = self._changed.get(number, self)
        if old is self:
            return self._now.get(number, default)
        return default if old is MISSING else old

    def changed(self) -> list[dict[Any, Any]]:
        """Return the dicts of which something else is known now."""
        now = [(number, self._now.get(number)) for number in self._changed]
        return [entry[0] for number, entry in now if entry is not None and self.get(number, (None, None))[1] is not entry[1]]
