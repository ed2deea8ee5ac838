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
        tables: the identities of the dicts.
    """

    def __init__(self, session: Session, tables: Iterable[int]) -> None:
        self._session = session
        self._lists: dict[int, Any] = {}
        self._first: dict[int, list[Any]] = {}
        self._keys: dict[int, list[Any]] = {}
        self._tables = frozenset(tables)
        for table in self._tables:
            self._lists[table] = lists.create(session, [LoggedOrder.BEGIN])

    def has(self, table: Any) -> bool:
        """Tell whether there is a list for a dict, followed to the end or not."""
        return id(table) in self._tables

    def begin(self, place: ItemPlace | ContentsPlace) -> None:
        """Note that a dict is about to be written; what is written as a whole is not followed any more."""
        table = place.owner
        if id(table) in self._lists:
            self._first.setdefault(id(table), [*storage.keys_of(table)])
            if isinstance(place, ContentsPlace):
                del self._lists[id(table)]

    def put(self, table: Any, key: Any) -> None:
        """Note that the code puts a key into a dict; it stays where it is if it is there already."""
        held = dict.get(table, key, MISSING)
        if id(table) in self._lists and (held is MISSING or isinstance(held, Undefined) or may_be_undefined(held)):
            self._note(table, key, LoggedOrder.PUT)

    def removed(self, table: Any, key: Any) -> None:
        """Note that a key is taken out of a dict."""
        if id(table) in self._lists:
            self._note(table, key, LoggedOrder.TAKEN)

    def _note(self, table: Any, key: Any, what: int) -> None:
        keys = self._keys.setdefault(id(table), [])
        number = next((number for number, known in enumerate(keys) if known in {key}), len(keys))
        if number == len(keys):
            keys.append(key)
        lists.append(self._session, self._lists[id(table)], 2 * number + what)

    def order(self, table: Any) -> Write | None:
        """Return what puts the keys of a dict in order once its items are written; ``None`` where that is not noted."""
        if id(table) not in self._lists:
            return None
        place = LoggedOrder(table, tuple(self._first.get(id(table), ())), tuple(self._keys.get(id(table), ())))
        return Write(cast(Place, place), None, self._lists[id(table)].items)
