"""Loops over what they change: Python tells at its next step.

for key in table:               an iteration looks first whether there are as many keys as before the loop; where a tensor has
    if table[key] < x:          decided, the program does, on its way: the loop that is left then is none of these
        del table[key]
        break

A loop over a view (``table.items()``) is one over the keys, since a view is Python's own and shows the Python object; one over
``enumerate(items)`` is one over the list, which may become a list of the program. What ``zip`` and its relatives step through
looks at each step as well.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import operator
import sys
from collections.abc import Iterator
from typing import Any

from dy2st.capture.branching import optional
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.iterables.changes import Keys, length_of, require_as_long, value_now
from dy2st.capture.session.session import Session, current
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet
from dy2st.capture.values.dict_views import of_one
from dy2st.capture.writes.places import Around

_LAST: Any = object()
"""What comes after the items of a dict or set that has changed: Python looks at it once more."""


class LoopedView:
    """A view of a dict that a loop goes over, and that nobody else needs: iterations may change the dict.

    Args:
        table: the dict.
        name: of the method that gives such a view.
    """

    def __init__(self, table: dict[Any, Any], name: str) -> None:
        self.table, self.name = table, name

    def of_keys(self, body: Any) -> Any:
        """Return the body of the loop as one of a loop over the keys."""
        return body if self.name == "keys" else _OfKeys(self.table, self.name, body)

    def again(self) -> Any:
        """Return such a view."""
        return getattr(storage.base_of(self.table), self.name)(self.table)


class EnumeratedList:
    """What ``enumerate(items)`` gives of a list, for a loop that nobody else takes from: iterations may change the list.

    Args:
        items: the list.
        start: the first number.
    """

    def __init__(self, items: list[Any], start: int) -> None:
        self.items, self.start = items, start

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return enumerate(self.items, self.start)


def looped(iterable: Any) -> Any:
    """Return what a loop goes over: what stands for a view of a dict, which is then not held, or for a new ``enumerate``.

    Anything else is given back as it is.
    """
    session = current()
    if session is None:
        return iterable
    if type(iterable) is enumerate:
        known = id(iterable) in session.iterators.made
        return iterable if sys.getrefcount(iterable) > _references_of_loop() + known else _enumerated(iterable)
    shown = of_one(session.places.views, iterable)
    if shown is None:
        return iterable
    if sys.getrefcount(iterable) <= _references_of_loop() + 1:  # that of those who know the views
        session.places.views.forget(shown[0], iterable)
    return LoopedView(*shown)


def _references_of_loop() -> int:
    """Return how many references there are in :func:`looped` to what nobody but a ``for`` statement holds.

    A compiler that has a say in how frames are run (``torch.compile``) changes it for the whole process.
    """

    def count(iterable: Any) -> int:
        return sys.getrefcount(iterable)

    def statement(iterable: Any) -> int:
        return count(iterable)

    return statement(enumerate([]))


def _enumerated(counted: Any) -> Any:
    """Return what stands for an ``enumerate`` of a list that has given nothing yet; any other as it is."""
    iterator = next((part for part in gc.get_referents(counted) if type(part) is _LIST_ITERATOR), None)
    session = current()
    if iterator is None or (session is not None and id(iterator) in session.iterators.made):  # which others may take from
        return counted
    state = iterator.__reduce__()
    items: Any = state[1][0]
    is_new = len(state) == 3 and state[2] == 0 and type(items) is list
    return EnumeratedList(items, counted.__reduce__()[1][1]) if is_new else counted


_LIST_ITERATOR: type = type(iter([]))


def of_program(session: Session, iterable: Any) -> RuntimeIterable | None:
    """Return what is left to go over of a list that has become one of the program, by position; ``None`` of anything else."""
    start = iterable.start if isinstance(iterable, EnumeratedList) else None
    known = session.lists.of(iterable if start is None else iterable.items)
    if known is None:
        return None
    items = lists.iterable(session, known)
    if start is None:
        return items
    return RuntimeIterable(items.length, lambda k: (start + k, items.at(k)), f"enumerate of {items.what}", items.end, items.more)


class _OfKeys(Around):
    """The body of a loop over values or items, for each key.

    Args:
        table: the dict.
        name: of the method that gives what the loop goes over.
        body: of the loop.
    """

    def __init__(self, table: dict[Any, Any], name: str, body: Any) -> None:
        self._table, self._name, self._body = table, name, body
        super().__init__(body)

    def __call__(self, key: Any) -> None:
        """Run the body with what is there now."""
        self._body(value_now(self._table, key, self._name))


class Watched(Around):
    """The steps through the keys of a dict, or the members of a set, that iterations may take out and put in.

    Python says where a loop goes on that there are more or fewer than before, or others. Here each iteration looks first.

    Args:
        session: the capture.
        iterable: the dict or set, or a copy.
        whole: what iterations may change.
        body: of the loop.
    """

    def __init__(self, session: Session, iterable: Any, whole: Any, body: Any) -> None:
        self._keys, self._body = Keys(session, iterable, whole), body
        self._items, self._has_ended = iter(self._keys.keys), False
        super().__init__(body)

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Any:
        item = next(self._items, _LAST)
        if item is _LAST and (self._has_ended or self._keys.is_ordered or self._keys.is_unchanged()):
            raise StopIteration
        self._has_ended = item is _LAST
        return item

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        self._keys.check()
        if item is not _LAST:
            self._body(item)


class Steps:
    """What a new iterator over a dict, a view or a set gives to ``zip`` and its relatives: each step looks for changes.

    Args:
        keys: of the dict or set.
        name: of the method that gives what is stepped through.
    """

    def __init__(self, keys: Keys, name: str) -> None:
        self._keys, self._name, self._has_ended = keys, name, False
        self._items: Iterator[Any] = iter(keys.keys)

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        item = next(self._items, _LAST)
        if not self._has_ended and (item is not _LAST or not self._keys.is_ordered):
            self._keys.check()
        self._has_ended = item is _LAST  # nobody looks at the dict from then on
        if self._has_ended:
            raise StopIteration
        return item if self._name == "keys" else value_now(self._keys.table, item, self._name)

    def __copy__(self) -> Steps:
        result = Steps(self._keys, self._name)
        result._items = copy.copy(self._items)
        return result

    def __reversed__(self) -> Steps:
        result = Steps(self._keys, self._name)
        result._items = reversed(self._keys.keys)
        return result


def shown_table(session: Session, iterable: Any) -> tuple[Any, str] | None:
    """Return the dict or set that is gone through, and the method that gives what is; ``None`` where it is another iterable.

    A class of the user's may have its own way to go through one.
    """
    table, name = of_one(session.places.views, iterable) or (iterable, "keys")
    return (table, name) if isinstance(table, (dict, AbstractSet)) and not has_own(table, "__iter__") else None


def stepped(iterable: Any) -> Any:
    """Return what an iterator made of another one steps through: of a dict, a view, a set or a deque, steps that look for changes.

    Anything else is given back as it is.
    """
    session = current()
    if session is None:
        return iterable
    if isinstance(iterable, AbstractDeque):
        return _steps_of_deque(session, iterable)
    shown = shown_table(session, iterable)
    if shown is None or optional.is_unsure(session, shown[0]):
        return iterable
    table, name = shown
    return Steps(Keys(session, table, optional.original(session, table)), name)


def watched(session: Session, iterable: Any, body: Any) -> tuple[Any, Any]:
    """Return what a loop goes over, and its body, where the body has to look whether what it goes over has changed."""
    if isinstance(iterable, LoopedView):
        by_keys = is_watchable(iterable.table, body) and not optional.is_wide(session, iterable.table)
        return (iterable.table, iterable.of_keys(body)) if by_keys else (iterable.again(), body)
    if isinstance(iterable, AbstractDeque) and hasattr(body, "__code__"):
        return iterable, WatchedDeque(session, iterable, body)
    return iterable, body


def is_watchable(iterable: Any, body: Any) -> bool:
    """Tell whether a loop goes over the keys of a dict or the members of a set themselves."""
    return isinstance(iterable, (dict, AbstractSet)) and not has_own(iterable, "__iter__") and hasattr(body, "__code__")


class WatchedDeque(Around):
    """The body of a loop over a deque.

    Args:
        session: the capture.
        shown: stands for the deque.
        body: of the loop.
    """

    def __init__(self, session: Session, shown: AbstractDeque, body: Any) -> None:
        self._session, self._shown, self._body = session, shown, body
        self._count = length_of(session, shown)
        super().__init__(body)

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        require_as_long(self._session, self._shown, self._count)
        self._body(item)


def _steps_of_deque(session: Session, shown: AbstractDeque) -> Iterator[Any]:
    """Yield what is in a deque of a known length, as long as it has that."""
    count = len(shown.items)
    for position in range(count):
        require_as_long(session, shown, count)
        yield session.call(operator.getitem, shown.items, position)
    require_as_long(session, shown, count)


def deque_by_position(session: Session, shown: AbstractDeque, items: RuntimeIterable) -> RuntimeIterable:
    """Return what is in a deque of a length that only the program knows; looking at an item, it looks for changes."""
    count = items.length()

    def at(k: Any) -> Any:
        require_as_long(session, shown, count)
        return items.at(k)

    return dataclasses.replace(items, at=at)
