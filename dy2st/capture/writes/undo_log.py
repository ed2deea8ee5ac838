"""What a block of the user's code writes, so that it can be undone, joined and written again.

A branch runs during capture though it may not be taken at run time. Everything it writes (names, attributes, items, the contents
of lists, dicts and sets) is noted before it is written, read at the end of the branch, and put back.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.places import AttributePlace, ContentsPlace, ItemPlace, Place

ACTS_FOR_USER = False


@dataclasses.dataclass(frozen=True)
class Write:
    """A place that a block wrote: what it held before and holds at the end."""

    place: Place
    old: Any
    new: Any


@dataclasses.dataclass(frozen=True)
class Entry:
    """A place with what it held: ``raw`` is put back at the end, ``seen`` is what the captured code found there.

    Attributes:
        names: for an attribute, those that the object had, in order, by the dicts that keep them.
        kept_in: for an attribute of a module, the dict that had it: a branch may have put it elsewhere.
    """

    place: Place
    raw: Any
    seen: Any
    names: tuple[tuple[str, ...], ...] = ()
    kept_in: str = ""

    @property
    def now(self) -> Place:
        """The place, with where it is now: one of several that was in a module's dict goes where each of them goes."""
        if not isinstance(self.place, AttributePlace):
            return self.place
        place = self.place.now
        if self.has_moved and storage.kept_in(place.owner, place.name) == "__dict__":
            return AttributePlace(place.owner, place.name, "__dict__")
        by_value = self.kept_in == "__dict__" and place.table in storage.MODULE_TABLES and storage.may_register(place.read())
        by_value |= not self.kept_in and storage.is_mixed(place.read())
        return AttributePlace(place.owner, place.name) if by_value else place

    @property
    def has_moved(self) -> bool:
        """Whether a module keeps the attribute in another dict than before."""
        if not self.kept_in or not isinstance(self.place, AttributePlace):
            return False
        return storage.kept_in(self.place.owner, self.place.name) not in (self.kept_in, "")

    @property
    def is_unchanged(self) -> bool:
        """Whether the place holds what the captured code found there."""
        return _unchanged(self.place, self.seen, self.place.read()) and not self.has_moved

    def put_back(self) -> None:
        """Have the place hold what it held."""
        place = self.place
        if self.kept_in and isinstance(place, AttributePlace):
            AttributePlace(place.owner, place.name, self.kept_in).write(self.raw)
        elif not _unchanged(place, self.raw, place.read()):
            place.write(self.raw)
        if self.names and self.raw is not MISSING:
            storage.put_in_order(place.owner, self.names)  # type: ignore[union-attr]  # no variable has them


class UndoLog:
    """The places written since it was opened, with what they held before."""

    def __init__(self) -> None:
        self.entries: dict[tuple[Any, ...], Entry] = {}

    def note(self, place: Place) -> None:
        """Call before a place is written; only the first call for a place counts."""
        if place.key not in self.entries:
            self.entries[place.key] = self._older(_entry(place))

    def abstract(self, place: Place, value: Any) -> None:
        """Write what stands during the capture for the content of a place; that counts as no change."""
        entry = dataclasses.replace(_entry(place), seen=value)
        place.write(value)
        self.entries[place.key] = entry

    def renew(self, place: Place, held: Any, value: Any) -> None:
        """Note that something else stands for what a place held, of which it is noted that it may be written."""
        entry = self.entries.get(place.key)
        if entry is not None and entry.raw is held and entry.seen is held:
            self.entries[place.key] = dataclasses.replace(entry, raw=value, seen=value)

    def writes(self, ordered: bool = True) -> dict[tuple[Any, ...], Write]:
        """Return the places whose content is not what it was: of a container either items or, if that can't say it, the contents.

        Args:
            ordered: whether writing them has to give the keys of dicts in their order.
        """
        results: dict[tuple[Any, ...], Write] = {}
        wholes = {id(entry.place.owner) for entry in self.entries.values() if isinstance(entry.place, ContentsPlace)}
        for key, entry in self.entries.items():
            new = entry.place.read()
            if isinstance(entry.place, ItemPlace) and id(entry.place.owner) in wholes:
                continue  # the contents have it
            if not entry.is_unchanged:
                place = entry.now
                write = Write(place, entry.seen, new)
                parts = _parts(write, ordered)
                results.update({key: write} if parts is None else parts)
        return results

    def contents_before(self, table: Any) -> Any:
        """Return what was in a container of which all was written; ``None`` for any other."""
        entry = self.entries.get(ContentsPlace(table).key)
        return None if entry is None else entry.seen

    def names_before(self, owner: Any) -> tuple[tuple[str, ...], ...]:
        """Return the attributes of an object when the first of them was written; nothing where none was."""
        entries = (entry for entry in self.entries.values() if entry.names)
        return next(
            (entry.names for entry in entries if isinstance(entry.place, AttributePlace) and entry.place.owner is owner), ()
        )

    def unchanged(self) -> list[Entry]:
        """Return the attributes that were written and hold what they held."""
        entries = [entry for entry in self.entries.values() if isinstance(entry.place, AttributePlace)]
        return [entry for entry in entries if entry.is_unchanged]

    def _older(self, entry: Entry) -> Entry:
        """Return an entry for the contents of a container, of which items may have been written before it was made.

        What is in the given one stays: another undo log may hold it.
        """
        if not isinstance(entry.place, ContentsPlace):
            return entry
        seen = copy.copy(entry.seen)
        for item in self.entries.values():
            if isinstance(item.place, ItemPlace) and item.place.owner is entry.place.owner:
                ItemPlace(seen, item.place.item).write(item.seen)
        return dataclasses.replace(entry, seen=seen)

    def undo(self) -> None:
        """Put everything back, the latest first."""
        for entry in reversed(self.entries.values()):
            entry.put_back()

    def forget_if(self, gone: Callable[[Place], bool]) -> None:
        """Drop the places for which ``gone``."""
        self.entries = {key: entry for key, entry in self.entries.items() if not gone(entry.place)}

    def absorb(self, inner: UndoLog) -> None:
        """Take over the entries of a undo log that was opened later and is not to be undone."""
        results = {key: self._older(entry) for key, entry in inner.entries.items() if key not in self.entries}
        self.entries.update(results)


def _entry(place: Place) -> Entry:
    """Return a place with what it holds now."""
    held = place.read()
    if not isinstance(place, AttributePlace):
        return Entry(place, held, held)
    kept_in = storage.kept_in(place.owner, place.name) if held is not MISSING else ""
    return Entry(place.now, held, held, storage.names(place.owner), kept_in)


def _parts(write: Write, ordered: bool) -> dict[tuple[Any, ...], Write] | None:
    """Return the items that a dict's new contents differ in.

    ``None`` where writing these would not give its keys in their order.
    """
    if not isinstance(write.place, ContentsPlace) or not isinstance(write.place.owner, dict):
        return None
    old, new = write.old, write.new
    kept = [key for key in old if key in new]
    if ordered and list(new)[: len(kept)] != kept:
        return None
    items = {key: (ItemPlace(write.place.owner, key), old.get(key, MISSING), new.get(key, MISSING)) for key in {**old, **new}}
    return {place.key: Write(place, a, b) for place, a, b in items.values() if not _unchanged(place, a, b)}


def _unchanged(place: Place, old: Any, new: Any) -> bool:
    """Tell whether a place holds what it held: the same object, or where a container's contents were copied, the same parts."""
    if old is new:
        return True
    if isinstance(place, ContentsPlace) and type(old) is type(new):
        if isinstance(old, list):
            return len(old) == len(new) and all(a is b for a, b in zip(old, new))
        if isinstance(old, dict):
            return list(old) == list(new) and all(old[k] is new[k] for k in old)
    return type(old) is type(new) and isinstance(old, (bool, int, str)) and old == new
