"""Iterables whose length is known only at run time, or that change while a loop goes over them: Python tells at its next step.

for key in table:               an iteration looks first whether there are as many keys as before the loop; where a tensor has
    if table[key] < x:          decided, the program does, on its way: the loop that is left then is none of these
        del table[key]
        break
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists, ranges, wide_dicts
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet, AbstractTable, contents, representing
from dy2st.capture.values.dict_views import is_view, name_of
from dy2st.capture.values.symbolic import TaggedUnion, Undefined, may_be_undefined
from dy2st_runtime.primitives import scalars


def reversed_(iterable: Any) -> Any:
    """Return ``reversed``."""
    iterable = contents(iterable)
    items = as_runtime(iterable)
    if items is None:
        return reversed(iterable) if not isinstance(iterable, torch.Tensor) else reversed(iterable.unbind(0))
    kind = type(reversed([])) if not isinstance(iterable, ranges.RuntimeRange) else type(iter(range(0)))
    if isinstance(iterable, optional.RuntimeView):
        kind = type(reversed(iterable.example))
    backwards = RuntimeIterable(items.length, lambda k: items.at(items.length() - 1 - k), f"reversed {items.what}")
    return iterator_of(kind, backwards)


def iterator_of(kind: type, items: RuntimeIterable) -> Any:
    """Return an iterator of a kind, such as ``zip``, that gives some items, and goes on where it stopped."""
    return representing(Stream, kind)(items, as_it_is, resumes=True)


def as_it_is(item: Any, then: Any, live: Any, test: Any) -> None:
    """Have a stream give what its source gives."""
    then(item)


def as_runtime(iterable: Any) -> RuntimeIterable | None:
    """Return the iterable as one whose length is known only at run time; ``None`` if Python knows it."""
    session, iterable = need(), contents(iterable)
    if isinstance(iterable, RuntimeIterable):
        return iterable
    if isinstance(iterable, optional.RuntimeView):
        return wide_dicts.steps(session, iterable)
    if isinstance(iterable, AbstractTable):
        return wide_dicts.steps(session, optional.view(iterable, "keys"))
    if isinstance(iterable, ranges.RuntimeRange):
        return iterable.positions()
    known = session.lists.of(iterable)
    if known is not None and not has_own(iterable, "__iter__"):
        return lists.iterable(session, known)
    if isinstance(iterable, torch.Tensor) and iterable.dim() and not isinstance(iterable.shape[0], int):
        rows = lists.unbind(session, iterable)
        return lists.iterable(session, rows)
    if isinstance(iterable, AbstractArray) and iterable.items.dim() and not isinstance(iterable.items.shape[0], int):
        return RuntimeIterable(iterable.length, lambda k: session.call(operator.getitem, iterable, k), "an array")
    return None


def of_range(numbers: range) -> RuntimeIterable:
    return RuntimeIterable(lambda: len(numbers), lambda k: numbers.start + k * numbers.step, "a range")


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


def looped(iterable: Any) -> Any:
    """Return what a loop goes over: what stands for a view of a dict, which is then not held; anything else as it is."""
    session = current()
    if session is None:
        return iterable
    views = list(iterable.options.values()) if isinstance(iterable, TaggedUnion) else [iterable]
    if not all(map(is_view, views)):
        return iterable
    tables, names = zip(*((session.places.views.table(view), name_of(view)) for view in views))
    is_one = all(table is tables[0] for table in tables) and len(set(names)) == 1
    return LoopedView(tables[0], names[0]) if is_one else iterable


class _OfKeys:
    """The body of a loop over values or items, for each key.

    Args:
        table: the dict.
        name: of the method that gives what the loop goes over.
        body: of the loop.
    """

    def __init__(self, table: dict[Any, Any], name: str, body: Any) -> None:
        self._table, self._name, self._body = table, name, body
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self, key: Any) -> None:
        """Run the body with what is there now."""
        value = dict.__getitem__(self._table, key)
        if may_be_undefined(value):  # it is there on this way: as many keys are there as before
            value = value.without_unbound()
        self._body(value if self._name == "values" else (key, value))


class Watched:
    """The steps through the keys of a dict, or the members of a set, that iterations may take out and put in.

    Python says where a loop goes on that there are more or fewer than before, or others. Here each iteration looks first, on its way.

    Args:
        session: the capture.
        iterable: the dict or set, or a copy.
        whole: what iterations may change.
        body: of the loop.
    """

    def __init__(self, session: Session, iterable: Any, whole: Any, body: Any) -> None:
        self._session, self._body, self._is_set = session, body, isinstance(whole, AbstractSet)
        self._table: dict[Any, Any] = whole.table if self._is_set else whole
        self._keys = list(iterable)
        self._items, self._before = iter(self._keys), self._state()
        self._count = optional.length(session, self._table)
        self._has_ended = False
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Any:
        item = next(self._items, _LAST)
        if item is _LAST and (self._has_ended or self._state() == self._before):
            raise StopIteration
        self._has_ended = item is _LAST
        return item

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        self._check()
        if item is not _LAST:
            self._body(item)

    def _state(self) -> tuple[dict[Any, bool], list[Any], int]:
        """Return the keys that are there, with whether each may not be, in their order, and how often the order was put."""
        parts = dict.items(self._table)
        presence = {key: may_be_undefined(value) for key, value in parts if not isinstance(value, Undefined)}
        return presence, list(presence), self._session.blocks.key_orders.changes

    def _check(self) -> None:
        """Raise what Python raises, or have the program do so.

        Raises:
            CaptureError: Python goes on with some of the keys that came in the place of others.
        """
        now = self._state()
        if now == self._before:
            return
        presence, before = now[0], self._before[0]
        if presence.keys() - before and any(presence.get(key, True) for key in before):
            raise errors.CaptureError(
                f"a loop over a {'set' if self._is_set else 'dict'} takes keys out and puts some in",
                self._session.here(),
                fix="loop over a copy of the keys: for key in list(table)",
            )
        is_ordered = isinstance(self._table, collections.OrderedDict)
        if presence != before:
            words = "Set changed size during iteration" if self._is_set else "dictionary changed size during iteration"
            is_as_long = optional.length(self._session, self._table) == self._count
            _require(self._session, is_as_long, _MUTATED if is_ordered else words)
        if not self._is_set:
            _require(self._session, self._is_in_order(), _MUTATED if is_ordered else "dictionary keys changed during iteration")

    def _is_in_order(self) -> Any:
        """Tell whether the keys that the loop goes over come one after the other as they did."""
        orders, keys = self._session.blocks.key_orders, [key for key in self._keys if key in self._table]
        if orders.asks(self._table) is None:
            places = {key: place for place, key in enumerate(dict.keys(self._table))}
            return all(places[one] < places[other] for one, other in itertools.pairwise(keys))
        ranks = orders.ranks(self._session, self._table, keys)
        steps = [self._session.call(operator.lt, one, other) for one, other in itertools.pairwise(ranks)]
        known = [step for step in steps if isinstance(step, bool)]
        unknown = [step for step in steps if not isinstance(step, bool)]
        if not all(known) or not unknown:
            return all(known)
        return functools.reduce(lambda a, b: self._session.number(scalars.logical_and, (a, b), "bool"), unknown)


_MUTATED = "OrderedDict mutated during iteration"


def _require(session: Session, is_as_before: Any, words: str) -> None:
    if is_as_before is False:
        raise raised(RuntimeError(words))
    if is_as_before is not True:
        check(session, is_as_before, RuntimeError, words)


def is_watchable(iterable: Any, body: Any) -> bool:
    """Tell whether a loop goes over the keys of a dict or the members of a set themselves."""
    return isinstance(iterable, (dict, AbstractSet)) and not has_own(iterable, "__iter__") and hasattr(body, "__code__")


class WatchedDeque:
    """The body of a loop over a deque.

    Args:
        session: the capture.
        shown: stands for the deque.
        body: of the loop.
    """

    def __init__(self, session: Session, shown: AbstractDeque, body: Any) -> None:
        self._session, self._shown, self._body = session, shown, body
        self._count = self._length()
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        _require(self._session, self._length() == self._count, "deque mutated during iteration")
        self._body(item)

    def _length(self) -> Any:
        known = self._session.lists.of(self._shown.items)
        return len(self._shown.items) if known is None else lists.length(self._session, known)
