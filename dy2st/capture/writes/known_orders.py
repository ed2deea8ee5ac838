"""What is known of the orders of dicts, with what was known before: going back costs what has changed since, not all there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.logged_tables import LoggedTable, TableLog

ACTS_FOR_USER = False


class KnownOrders(LoggedTable):
    """Entries by what they are known under, with a log of their own; a mark is how many changes there were.

    An entry is a dict whose keys may be in another order than those of the Python object, with that order: one, or a tagged union;
    or a dict whose keys have ranks, with these.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TableLog())

    def tables(self) -> list[dict[Any, Any]]:
        """Return the dicts of which something is known."""
        return [table for table, _ in self.values()]

    def mark(self) -> int:
        """Return a mark for :meth:`undo`."""
        return self._log.mark()

    def undo(self, mark: int, is_new: Callable[[dict[Any, Any]], bool]) -> None:
        """Go back to what was known at a mark of dicts that are not new; later marks mean nothing from then on."""
        self._log.undo(mark, lambda known, number: number in known and is_new(known[number][0]))

    def at(self, mark: int) -> Before:
        """Return what was known at a mark."""
        return Before(self, self._log.before(self, mark))


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
