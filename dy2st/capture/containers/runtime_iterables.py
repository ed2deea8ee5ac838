"""Iterables whose length is known only at run time, or that change while a loop goes over them: Python tells at its next step.

for key in table:               an iteration looks first whether there are as many keys as before the loop; where a tensor has
    if table[key] < x:          decided, the program does, on its way: the loop that is left then is none of these
        del table[key]
        break

A loop over a view (``table.items()``) is one over the keys, since a view is Python's own and shows the Python object; one over
``enumerate(items)`` is one over the list, which may become a list of the program.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists, ranges, wide_dicts
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet, AbstractTable, contents, representing
from dy2st.capture.values.dict_views import of_one
from dy2st.capture.values.symbolic import Undefined, may_be_undefined
from dy2st.capture.writes.places import Around
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
        return iterable if sys.getrefcount(iterable) > _OF_LOOP else _enumerated(iterable)
    shown = of_one(session.places.views, iterable)
    if shown is None:
        return iterable
    session.places.views.forget(shown[0], iterable, _OF_LOOP)
    return LoopedView(*shown)


def _references_of_loop() -> int:
    """Return how many references there are in :func:`looped` to what nobody but a ``for`` statement holds."""

    def count(iterable: Any) -> int:
        return sys.getrefcount(iterable)

    def statement(iterable: Any) -> int:
        return count(iterable)

    return statement(enumerate([]))


_OF_LOOP = _references_of_loop()


def _enumerated(counted: Any) -> Any:
    """Return what stands for an ``enumerate`` of a list that has given nothing yet; any other as it is."""
    iterator = next((part for part in gc.get_referents(counted) if type(part) is _LIST_ITERATOR), None)
    if iterator is None:
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
        value = dict.__getitem__(self._table, key)
        if may_be_undefined(value):  # it is there on this way: as many keys are there as before
            value = value.without_unbound()
        self._body(value if self._name == "values" else (key, value))


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
        self._session, self._body, self._is_set = session, body, isinstance(whole, AbstractSet)
        self._table: dict[Any, Any] = whole.table if self._is_set else whole
        self._keys = list(iterable)
        self._items, self._before, self._seen = iter(self._keys), self._state(), self._contents()
        self._count = optional.length(session, self._table)
        self._has_ended = False
        super().__init__(body)

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Any:
        item = next(self._items, _LAST)
        sees_end = self._has_ended or isinstance(self._table, collections.OrderedDict)  # that knows the next key one step ahead
        if item is _LAST and (sees_end or self._is_unchanged()):
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

    def _contents(self) -> tuple[list[Any], int]:
        """Return all keys and values, and how often the order was put: quicker to compare than what they say."""
        return [*dict.keys(self._table), *dict.values(self._table)], self._session.blocks.key_orders.changes

    def _is_unchanged(self) -> bool:
        """Tell whether the same keys are there as before the loop, in the same order."""
        now, seen = self._contents(), self._seen
        if now[1] == seen[1] and len(now[0]) == len(seen[0]) and all(map(operator.is_, now[0], seen[0])):
            return True
        is_unchanged = self._state() == self._before
        if is_unchanged:
            self._seen = now  # values that have been replaced are looked at once
        return is_unchanged

    def _check(self) -> None:
        """Raise what Python raises, or have the program do so.

        Raises:
            CaptureError: Python goes on with some of the keys that came in the place of others.
        """
        if self._is_unchanged():
            return
        presence, before = self._state()[0], self._before[0]
        is_ordered = isinstance(self._table, collections.OrderedDict)
        if presence != before:
            words = "Set changed size during iteration" if self._is_set else "dictionary changed size during iteration"
            is_as_long = optional.length(self._session, self._table) == self._count
            _require(self._session, is_as_long, _MUTATED if is_ordered else words)
        if self._is_set or not is_ordered:
            same = self._are_there() if presence.keys() - before else True
            self._require_same(_all(self._session, [same, self._is_set or self._is_in_order()]))
        else:
            _require(self._session, self._is_in_order(), _MUTATED)

    def _are_there(self) -> Any:
        """Tell whether all keys are there that the loop goes over."""
        return _all(self._session, [unions.presence(dict.get(self._table, key, _GONE)) for key in self._keys])

    def _require_same(self, condition: Any) -> None:
        """Have the program end where other keys are there, or in another order, and Python goes on with some of them.

        Raises:
            CaptureError: it is so on all ways.
        """
        kind = "set" if self._is_set else "dict"
        if condition is False:
            raise errors.CaptureError(
                f"a loop over a {kind} takes keys out and puts some in",
                self._session.here(),
                fix="loop over a copy of the keys: for key in list(table)",
            )
        if condition is not True:
            message = f"a loop over a {kind} went on after it had taken keys out and put some in; loop over a copy: list(table)"
            here = self._session.here()
            check(self._session, condition, errors.TableError, message if here is None else f"{message}\n{here.render()}")

    def _is_in_order(self) -> Any:
        """Tell whether the keys that the loop goes over come one after the other as they did."""
        orders, keys = self._session.blocks.key_orders, [key for key in self._keys if key in self._table]
        if orders.asks(self._table) is None:
            places = {key: place for place, key in enumerate(dict.keys(self._table))}
            return all(places[one] < places[other] for one, other in itertools.pairwise(keys))
        ranks = orders.ranks(self._session, self._table, keys)
        steps = [self._session.call(operator.lt, one, other) for one, other in itertools.pairwise(ranks)]
        return _all(self._session, steps)


def conjunction(session: Session, conditions: Sequence[Any]) -> Any:
    """Return whether all of some conditions hold that are known only at run time."""
    return functools.reduce(lambda a, b: session.number(scalars.logical_and, (a, b), "bool"), conditions)


def _all(session: Session, conditions: list[Any]) -> Any:
    """Return whether all conditions hold, of which some are known only at run time."""
    unknown = [condition for condition in conditions if not isinstance(condition, bool)]
    if not all(condition for condition in conditions if isinstance(condition, bool)):
        return False
    return conjunction(session, unknown) if unknown else True


_GONE = Undefined("", KeyError, ())
_MUTATED = "OrderedDict mutated during iteration"


def _require(session: Session, is_as_before: Any, words: str) -> None:
    if is_as_before is False:
        raise raised(RuntimeError(words))
    if is_as_before is not True:
        check(session, is_as_before, RuntimeError, words)


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
        self._count = self._length()
        super().__init__(body)

    def __call__(self, item: Any) -> None:
        """Run the body for an item."""
        _require(self._session, self._length() == self._count, "deque mutated during iteration")
        self._body(item)

    def _length(self) -> Any:
        known = self._session.lists.of(self._shown.items)
        return len(self._shown.items) if known is None else lists.length(self._session, known)
