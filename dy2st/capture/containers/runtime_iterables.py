"""Iterables whose length is known only at run time, or that change while a loop goes over them: Python tells at its next step.

for key in table:               an iteration looks first whether there are as many keys as before the loop; where a tensor has
    if table[key] < x:          decided, the program does, on its way: the loop that is left then is none of these
        del table[key]
        break
"""

from __future__ import annotations

import collections
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
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet, AbstractTable, contents, representing
from dy2st.capture.values.symbolic import Undefined, may_be_undefined


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


class Watched:
    """The steps through the keys of a dict, or the members of a set, that iterations may take out and put in.

    Python says where a loop goes on that there are more or fewer than before. Here each iteration looks first, on its way.

    Args:
        session: the capture.
        iterable: the dict or set, or a copy.
        whole: what iterations may change.
        body: of the loop.
    """

    def __init__(self, session: Session, iterable: Any, whole: Any, body: Any) -> None:
        self._session, self._body, self._is_set = session, body, isinstance(whole, AbstractSet)
        self._table: dict[Any, Any] = whole.table if self._is_set else whole
        self._items, self._before = iter(list(iterable)), self._presence()
        self._count = optional.length(session, self._table)
        self._has_ended = False
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Any:
        item = next(self._items, _LAST)
        if item is _LAST and (self._has_ended or self._presence() == self._before):
            raise StopIteration
        self._has_ended = item is _LAST
        return item

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        self._check()
        if item is not _LAST:
            self._body(item)

    def _presence(self) -> dict[Any, bool]:
        """Return the keys that are there, with whether each may not be."""
        parts = dict.items(self._table)
        return {key: may_be_undefined(value) for key, value in parts if not isinstance(value, Undefined)}

    def _check(self) -> None:
        """Raise what Python raises, or have the program do so.

        Raises:
            CaptureError: Python goes on with some of the keys that came in the place of others.
        """
        now = self._presence()
        if now == self._before:
            return
        if now.keys() - self._before and any(now.get(key, True) for key in self._before):
            raise errors.CaptureError(
                f"a loop over a {'set' if self._is_set else 'dict'} takes keys out and puts some in",
                self._session.here(),
                fix="loop over a copy of the keys: for key in list(table)",
            )
        words = "Set changed size during iteration" if self._is_set else "dictionary changed size during iteration"
        if isinstance(self._table, collections.OrderedDict):
            words = "OrderedDict mutated during iteration"
        _require(self._session, optional.length(self._session, self._table) == self._count, words)


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
