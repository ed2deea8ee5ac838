"""Dicts that note what they held before each change, so that going back costs what has changed since, not all there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dy2st.capture.values.storage import MISSING

ACTS_FOR_USER = False


class TableLog:
    """What was changed in some tables, in order; a mark is how many changes there were."""

    def __init__(self) -> None:
        self._changes: list[tuple[LoggedTable, Any, Any]] = []

    def mark(self) -> int:
        """Return a mark for :meth:`undo`."""
        return len(self._changes)

    def note(self, table: LoggedTable, key: Any) -> None:
        """Note what a table holds under a key that is about to be changed."""
        self._changes.append((table, key, dict.get(table, key, MISSING)))

    def undo(self, mark: int, stays: Callable[[LoggedTable, Any], bool] | None = None) -> None:
        """Put back what was changed since a mark, the latest first; later marks mean nothing from then on.

        Args:
            mark: from :meth:`mark`.
            stays: tells of a table and a key whether what is under it now is left as it is.
        """
        kept = []
        for table, key, old in reversed(self._changes[mark:]):
            if stays is not None and stays(table, key):
                kept.append((table, key, old))
            elif old is MISSING:
                dict.pop(table, key, None)
            else:
                dict.__setitem__(table, key, old)
        self._changes[mark:] = reversed(kept)

    def since(self, mark: int) -> Iterator[tuple[LoggedTable, Any, Any]]:
        """Yield the tables that were changed since a mark, with the key and what was there before, ``MISSING`` if nothing was."""
        yield from self._changes[mark:]

    def before(self, table: Any, mark: int) -> dict[Any, Any]:
        """Return what was at a mark under the keys of a table that were changed since, ``MISSING`` if nothing was."""
        before: dict[Any, Any] = {}
        for changed, key, old in self.since(mark):
            if changed is table:
                before.setdefault(key, old)
        return before

    def added(self, table: Any, mark: int) -> list[Any]:
        """Return the keys that a table has and did not have at a mark, in order."""
        return [key for key, old in self.before(table, mark).items() if old is MISSING and key in table]


class LoggedTable(dict[Any, Any]):
    """A dict that tells a log before it changes."""

    __slots__ = ("_log",)

    def __init__(self, log: TableLog, items: Any = ()) -> None:
        super().__init__(items)
        self._log = log

    def __setitem__(self, key: Any, value: Any) -> None:
        self._log.note(self, key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._log.note(self, key)
        super().__delitem__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Take an item out."""
        self._log.note(self, key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[Any, Any]:
        """Take the last item out."""
        key = next(reversed(self), MISSING)
        return super().popitem() if key is MISSING else (key, self.pop(key))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return an item, which is put in if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """Put items in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> LoggedTable:  # type: ignore[misc]  # it is one of its own
        self.update(other)
        return self

    def clear(self) -> None:
        """Take all items out."""
        for key in [*self]:
            del self[key]
