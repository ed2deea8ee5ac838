"""What a loop goes over, as it was before: whether an iteration has changed it since, where Python would tell."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

from dy2st import errors
from dy2st.capture.branching import optional, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet
from dy2st.capture.values.symbolic import Undefined, may_be_undefined
from dy2st_runtime.primitives import scalars


class Keys:
    """The keys of a dict, or the members of a set, that a loop goes over, and may take out and put in.

    Args:
        session: the capture.
        iterable: the dict or set, or a copy.
        whole: what iterations may change.
    """

    def __init__(self, session: Session, iterable: Any, whole: Any) -> None:
        self._session, self._is_set = session, isinstance(whole, AbstractSet)
        self.table: dict[Any, Any] = whole.table if self._is_set else whole
        self.is_ordered = isinstance(self.table, collections.OrderedDict)
        """Whether the iterator of Python's knows the next key one step ahead."""
        self.keys = list(iterable)
        self._before, self._seen = self._state(), self._contents()
        self._count = optional.length(session, self.table)
        self._unchanged_at = (-1, -1)
        """How much had been written when nothing had changed."""

    def _state(self) -> tuple[dict[Any, _Open | None], list[Any], int]:
        """Return the keys that are there, with what says whether each is if it may not be, in their order, and how often that was
        put.
        """
        parts = dict.items(self.table)
        presence = {
            key: _Open(value) if may_be_undefined(value) else None for key, value in parts if not isinstance(value, Undefined)
        }
        return presence, list(presence), self._session.blocks.key_orders.changes

    def _contents(self) -> tuple[list[Any], int]:
        """Return all keys and values, and how often the order was put: quicker to compare than what they say."""
        return [*dict.keys(self.table), *dict.values(self.table)], self._session.blocks.key_orders.changes

    def is_unchanged(self) -> bool:
        """Tell whether the same keys are there as before the loop, in the same order."""
        writes = self._session.places.changes, self._session.blocks.key_orders.changes
        if writes == self._unchanged_at:
            return True
        is_unchanged = self._looks_unchanged()
        if is_unchanged:
            self._unchanged_at = writes
        return is_unchanged

    def _looks_unchanged(self) -> bool:
        now, seen = self._contents(), self._seen
        if now[1] == seen[1] and len(now[0]) == len(seen[0]) and all(map(operator.is_, now[0], seen[0])):
            return True
        is_unchanged = self._state() == self._before
        if is_unchanged:
            self._seen = now  # values that have been replaced are looked at once
        return is_unchanged

    def check(self) -> None:
        """Raise what Python raises, or have the program do so.

        Raises:
            CaptureError: Python goes on with some of the keys that came in the place of others.
        """
        if self.is_unchanged():
            return
        presence, before = self._state()[0], self._before[0]
        if presence != before:
            words = "Set changed size during iteration" if self._is_set else "dictionary changed size during iteration"
            is_as_long = optional.length(self._session, self.table) == self._count
            _require(self._session, is_as_long, _MUTATED if self.is_ordered else words)
        if self._is_set or not self.is_ordered:
            same = self._are_there() if presence.keys() - before else True
            self._require_same(_all(self._session, [same, self._is_set or self._is_in_order()]))
        else:
            _require(self._session, self._is_in_order(), _MUTATED)

    def _are_there(self) -> Any:
        """Tell whether all keys are there that the loop goes over."""
        return _all(self._session, [unions.presence(dict.get(self.table, key, _GONE)) for key in self.keys])

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
        orders, keys = self._session.blocks.key_orders, [key for key in self.keys if key in self.table]
        if orders.asks(self.table) is None:
            places = {key: place for place, key in enumerate(dict.keys(self.table))}
            return all(places[one] < places[other] for one, other in itertools.pairwise(keys))
        ranks = orders.ranks(self._session, self.table, keys)
        steps = [self._session.call(operator.lt, one, other) for one, other in itertools.pairwise(ranks)]
        return _all(self._session, steps)


@dataclasses.dataclass(frozen=True, eq=False)
class _Open:
    """A value that may be missing: another one may be missing on other ways."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Open) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def value_now(table: dict[Any, Any], key: Any, name: str) -> Any:
    """Return what a view gives for a key now."""
    value = dict.__getitem__(table, key)
    if may_be_undefined(value):  # it is there on this way: as many keys are there as before
        value = value.without_unbound()
    return value if name == "values" else (key, value)


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


def length_of(session: Session, shown: AbstractDeque) -> Any:
    known = session.lists.of(shown.items)
    return len(shown.items) if known is None else lists.length(session, known)


def require_as_long(session: Session, shown: AbstractDeque, count: Any) -> None:
    _require(session, length_of(session, shown) == count, "deque mutated during iteration")
