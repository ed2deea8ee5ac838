"""In which order keys come into dicts from outside, where only the program knows: it notes them in a list, one list for a dict.

for x in xs:
    if x > 0: state["a"] = x        the list tells in the end that "b" has come first, and the keys of ``state``
    else: state["b"] = x            are put in that order once the items are written
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from dy2st.capture.containers import lists
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import Undefined, may_be_undefined
from dy2st.capture.writes.places import ContentsPlace, ItemPlace, LoggedOrder, Place
from dy2st.capture.writes.undo_log import Write

ACTS_FOR_USER = False


class KeyLogs:
    """The lists of one capture; it has to be at the root of the program.

    Args:
        session: the capture.
        names: of the sources of the dicts.
    """

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self._session = session
        self._lists: dict[str, Any] = {name: lists.create(session, [LoggedOrder.BEGIN]) for name in sorted(names)}
        self._known: dict[int, tuple[Any, str | None]] = {}
        self._first: dict[str, list[Any]] = {}
        self._keys: dict[str, list[Any]] = {}

    def _name(self, table: Any) -> str | None:
        """Return the name of a dict that has a list which is followed to here."""
        if id(table) not in self._known:
            source = self._session.tracker.source_of(table)
            name = None if source is None or any(name == source.name for _, name in self._known.values()) else source.name
            self._known[id(table)] = table, name  # of two with one name, none but the first
        name = self._known[id(table)][1]
        return name if name in self._lists else None

    def begin(self, place: ItemPlace | ContentsPlace) -> None:
        """Note that a dict is about to be written; what is written as a whole is not followed any more."""
        name = self._name(place.owner)
        if name is not None:
            self._first.setdefault(name, [*storage.keys_of(place.owner)])
            if isinstance(place, ContentsPlace):
                del self._lists[name]

    def put(self, table: Any, key: Any) -> None:
        """Note that the code puts a key into a dict; it stays where it is if it is there already."""
        held = dict.get(table, key, MISSING)
        if held is MISSING or isinstance(held, Undefined) or may_be_undefined(held):
            self._note(table, key, LoggedOrder.PUT)

    def removed(self, table: Any, key: Any) -> None:
        """Note that a key is taken out of a dict."""
        self._note(table, key, LoggedOrder.TAKEN)

    def _note(self, table: Any, key: Any, what: int) -> None:
        name = self._name(table)
        if name is None:
            return
        keys = self._keys.setdefault(name, [])
        number = next((number for number, known in enumerate(keys) if known in {key}), len(keys))
        if number == len(keys):
            keys.append(key)
        lists.append(self._session, self._lists[name], 2 * number + what)

    def order(self, table: Any) -> Write | None:
        """Return what puts the keys of a dict in order once its items are written; ``None`` where that is not noted."""
        name = self._name(table)
        if name is None:
            return None
        place = LoggedOrder(table, tuple(self._first.get(name, ())), tuple(self._keys.get(name, ())))
        return Write(cast(Place, place), None, self._lists[name].items)
