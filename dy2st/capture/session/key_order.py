"""The order of a dict's keys, where it differs from way to way.

if x.sum() > 0:
    d["a"] = x; d["b"] = x          a value beside the dict says which order its keys have: a tagged union of orders, which
else:                               branches join and loops carry like any other. What asks for the order (list(d), a
    d["b"] = x; d["a"] = x          loop, `return d`) is done for each that it may be.

A key that is not there has no place in the order, so orders that agree about the keys they share are one. Of more orders than a
tagged union has options nobody knows which it is, and what asks is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, cast

import torch

from dy2st import errors
from dy2st.capture.values import storage
from dy2st.capture.values.signals import NeedsRanks
from dy2st.capture.values.symbolic import Choosing, Order, TaggedUnion, Undefined, may_be_undefined, same_keys
from dy2st.capture.writes.known_orders import Before, KnownOrders
from dy2st.capture.writes.orders import (
    FEW,
    MOVED,
    completed,
    each,
    in_order,
    is_unknown,
    moved,
    order_before,
    reordered,
    same,
)
from dy2st.capture.writes.places import AttributePlace, ContentsPlace, ItemPlace, Place
from dy2st.capture.writes.ranks import FIRST, Ranks, changes
from dy2st.capture.writes.undo_log import UndoLog, Write
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.primitives import scalars


class _Lists(Protocol):
    def of(self, value: Any) -> Any: ...


class Asking(Choosing, Protocol):
    """What the order of a dict needs of the session."""

    @property
    def lists(self) -> _Lists: ...

    def here(self) -> errors.Location | None: ...


@dataclasses.dataclass(frozen=True, eq=False)
class RankPlace:
    """The rank of a key in a dict."""

    orders: KeyOrders
    owner: Any
    item: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("rank", id(self.owner), self.item)

    def read(self) -> Any:
        return self.orders.ranks_now(self.owner).parts().get(self.item, FIRST)

    def write(self, value: Any) -> None:
        self.orders.put_ranks(self.owner, self.orders.ranks_now(self.owner).with_part(self.item, value))

    def __str__(self) -> str:
        return "the order of a dict's keys"


@dataclasses.dataclass(frozen=True, eq=False)
class OrderPlace:
    """The order of the keys of a dict."""

    orders: KeyOrders
    owner: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("order", id(self.owner))

    def read(self) -> Any:
        return self.orders.now(self.owner)

    def write(self, value: Any) -> None:
        self.orders.put(self.owner, value)

    def __str__(self) -> str:
        return "the order of a dict's keys"


class KeyOrders:
    """The orders of the keys of dicts in one capture."""

    def __init__(self) -> None:
        self._known = KnownOrders()
        self.are_ranked = False
        """Whether orders are told by ranks."""
        self.asked: set[tuple[Any, ...]] = set()
        """The keys, in order, of the dicts whose order was asked."""
        self.changes = 0
        """How often an order was put by now."""
        self._together: dict[int, tuple[Any, object]] = {}
        self._first: dict[int, tuple[Any, list[Any]]] = {}
        """Dicts that were written, with the keys that they had before."""
        self._attributes: dict[int, tuple[dict[Any, Any], Any, list[Any]]] = {}
        """Dicts with the attributes of objects that were written, the objects, and the attributes that these had before."""

    def mark(self) -> int:
        """Return a mark for :meth:`undo`."""
        return self._known.mark()

    def undo(self, mark: int, is_new: Callable[[Any], bool]) -> None:
        """Go back to what was known of dicts that are not new."""
        self._known.undo(mark, lambda table: is_new(self._owner(table)))

    def _owner(self, table: Any) -> Any:
        """Return the object whose attributes are in a dict; of any other, itself."""
        return self._attributes[id(table)][1] if id(table) in self._attributes else table

    def of(self, table: Any) -> Any:
        """Return the order of a dict's keys; ``None`` if it is that of the Python object."""
        _, order = self._known.get(id(table), (None, None))
        if self.are_ranked and is_unknown(order) and not self._is_of_object(table):
            constant = self.ranks_now(table).constant_order(storage.keys_of(table))
            order = self.ranks_now(table) if constant is None else Order(tuple(constant))
        if (
            order is None
            or dict.__len__(table) < 2
            or (
                isinstance(order, Order) and order.keys is not None and same_keys(in_order(table, order), [*storage.keys_of(table)])
            )
        ):
            return None
        return order

    def ways(self, table: Any) -> int:
        """Return in how many orders the keys of a dict may be."""
        order = self.of(table)
        if isinstance(order, Ranks) or is_unknown(order):
            return math.factorial(min(dict.__len__(table), FEW + 1))
        return len(order.options) if isinstance(order, TaggedUnion) else 1

    def ranks(self, session: Asking, table: Any, keys: Sequence[Any]) -> list[Any]:
        """Return a number for each of some keys of a dict: a lower one for a key that comes before another."""
        order = self.asks(table)
        if isinstance(order, Ranks):
            return [order.completed(keys).of[key] for key in keys]
        self.check_order(order, session.here(), is_unknown)
        if isinstance(order, TaggedUnion):
            ways = {tag: _ranks(table, option) for tag, option in order.options.items()}
            return [order.retagged({tag: way[key] for tag, way in ways.items()}) for key in keys]
        ranks = _ranks(table, order)
        return [ranks[key] for key in keys]

    def asks(self, table: Any) -> Any:
        """Return the same, for code that asks for the order."""
        if isinstance(table, dict) and dict.__len__(table) > 1:
            keys = tuple(storage.keys_of(table))
            if not any(isinstance(key, torch.Tensor) for key in keys):  # no arguments; the id of a tensor has its hash
                self.asked.add(keys)
        return self.of(table) if isinstance(table, dict) else None

    def asks_within(self, value: Any) -> None:
        """Do the same of all dicts in a value, for code of a library that may go through them."""
        waiting, seen = [value], set[int]()
        while waiting:
            part = waiting.pop()
            if isinstance(part, (list, tuple, dict)) and id(part) not in seen:
                seen.add(id(part))
                self.asks(part)
                waiting += dict.values(part) if isinstance(part, dict) else storage.plain(part)

    def tables(self) -> list[dict[Any, Any]]:
        """Return the dicts of which the keys are in another order than those of the Python object, or than they were at first."""
        tables = (*self._known.tables(), *(table for table, _ in self._first.values()))
        known = {id(table): table for table in tables if not self._is_of_object(table)}
        return [table for table in known.values() if self.is_reordered(table)]

    def now(self, table: dict[Any, Any]) -> Any:
        """Return the order of a dict's keys."""
        present = [key for key, value in storage.plain(table).items() if not isinstance(value, Undefined)]
        if not self._is_of_object(table):
            known = self._known.get(id(table), (None, None))[1] if self.are_ranked else self.of(table)
            return completed(known, present)
        return self._order_of_attributes(table, self._known, present)

    def _is_of_object(self, table: Any) -> bool:
        """Tell whether a dict is known to have the attributes of an object."""
        return id(table) in self._attributes

    def _order_of_attributes(self, table: dict[Any, Any], known: KnownOrders | Before, names: Sequence[Any]) -> Any:
        order = known.get(id(table), (None, None))[1]
        return completed(self._first_order(table, names) if order is None else order, names)

    def _first_order(self, table: dict[Any, Any], names: Sequence[Any]) -> Order:
        """Return the order of attributes of which none has been taken out."""
        first = self._attributes[id(table)][2]
        kept = [name for name in first if name in names]
        return Order((*kept, MOVED, *(name for name in names if name not in kept)))

    def put(self, table: dict[Any, Any], order: Any) -> None:
        """From now on the keys of a dict are in an order."""
        self.changes += 1
        if self.are_ranked and isinstance(order, TaggedUnion) and not self._is_of_object(table):
            order = Order(None)  # the ranks tell
        self._known[id(table)] = table, order

    def ranks_now(self, table: dict[Any, Any]) -> Ranks:
        """Return the ranks of a dict's keys."""
        present = [key for key, value in storage.plain(table).items() if not isinstance(value, Undefined)]
        return _ranks_in(self._known, table).completed(present)

    def put_ranks(self, table: dict[Any, Any], ranks: Ranks) -> None:
        """From now on the keys of a dict have these ranks."""
        self._known[_ranks_of(table)] = table, ranks

    def _has_ranks(self, table: Any) -> bool:
        return self.are_ranked and not self._is_of_object(table)

    def follow(self, value: Any, table: Any) -> Any:
        """Return a copy of a dict has its keys in the same order; gives the copy."""
        order = self.of(table)
        if order is not None:
            self.put(value, self._known[id(table)][1])
        if self._has_ranks(table) and _ranks_of(table) in self._known:
            self.put_ranks(value, self.ranks_now(table))
        return value

    def follow_object(self, obj: Any, value: Any) -> None:
        """Do the same of a copy of a dict, or of an object and its attributes."""
        if isinstance(value, dict):
            self.follow(obj, value)
        for table, other in zip(storage.tables(obj), storage.tables(value)):
            self.follow(table, other)

    def of_object(self, value: Any) -> Any:
        """Return the order of an object's attributes; ``None`` if it is that of its dict."""
        return self.of(storage.table_of(value)) if storage.tables(value) else None

    def begin(self, place: AttributePlace | ItemPlace | ContentsPlace) -> None:
        """Note that a part of a dict or object is about to be written."""
        table = place.owner
        if isinstance(place, AttributePlace):
            self._begin_attributes(table)
        elif isinstance(table, dict) and not storage.is_namespace(table) and id(table) not in self._first:
            self._first[id(table)] = table, [*storage.keys_of(table)]

    def _begin_attributes(self, owner: Any) -> None:
        if not isinstance(owner, (torch.Tensor, ModuleType)):
            for table in storage.tables(owner):
                self._attributes.setdefault(id(table), (table, owner, [*table]))

    def taken_out(self, table: dict[Any, Any], name: str) -> None:
        """Note that an attribute has been taken out of the dict that kept it: if it comes back, it comes last."""
        if self._is_of_object(table):
            self.put(table, each(self.now(table), lambda order: order.without(name)))

    def last(self, writes: Iterable[Write]) -> list[tuple[Any, Any]]:
        """Return the objects whose attributes would have another order if they were written one by one; with the order.

        Args:
            writes: what is written, in order.
        """
        names: dict[int, list[str]] = {}
        for write in writes:
            if isinstance(write.place, AttributePlace):
                names.setdefault(id(write.place.owner), []).append(write.place.name)
        return [
            (owner, self.now(table))
            for table, owner, first in self._attributes.values()
            if id(table) in self._known and self._is_moved(table, [name for name in names.get(id(owner), ()) if name not in first])
        ]

    def _is_moved(self, table: dict[Any, Any], new: list[str]) -> bool:
        order = self.now(table)
        for option in order.options.values() if isinstance(order, TaggedUnion) else (order,):
            last = None if option.keys is None else moved(option)
            if last is None or [name for name in new if name in last] != [*last]:
                return True
        return False

    def restore(self) -> None:
        """Put the keys of the dicts that were written back in their first order, once they hold what they did."""
        for table, first in self._first.values():
            kept = [*storage.keys_of(table)]
            if not same_keys(kept, first) and set(kept) == set(first):
                base: Any = storage.base_of(table)
                items = {key: dict.__getitem__(table, key) for key in first}
                base.clear(table)
                for key, item in items.items():
                    base.__setitem__(table, key, item)

    def is_reordered(self, table: Any, written: Sequence[Any] = ()) -> bool:
        """Tell whether writing the items one by one would leave the keys in another order: some were taken out and came back.

        Args:
            table: the dict.
            written: the keys, in the order in which they would be written.
        """
        if self.of(table) is not None:
            return True
        if id(table) not in self._first:
            return False
        now, first = storage.keys_of(table), dict.fromkeys(self._first[id(table)][1])
        left = [key for key in (*first, *(key for key in written if key not in first)) if key in now]
        return not same_keys(left, [*now][: len(left)])

    def removed(self, table: dict[Any, Any], key: Any) -> None:
        """Note that a key is taken out: if it comes back, it comes last."""
        if id(table) in self._known:
            self.put(table, each(self._known[id(table)][1], lambda order: order.without(key)))
        if _ranks_of(table) in self._known:
            self.put_ranks(table, self._known[_ranks_of(table)][1].without(key))

    def moved(self, table: dict[Any, Any], key: Any, last: bool = True) -> None:
        """Note that a key that is there becomes the last or first one."""
        self.put(table, each(self.now(table), lambda order: order.with_at(key, last)))
        if self._has_ranks(table):
            self.put_ranks(table, self.ranks_now(table).with_at(key, last))

    def begin_iteration(self, place: Place, value: Any, final: Any, loop: object) -> None:
        """Do what an iteration of a loop finds in a place. Keys that each one leaves are there all, or in the first none of
        them.
        """
        if isinstance(place, (AttributePlace, ItemPlace)) and may_be_undefined(value) and not may_be_undefined(final):
            self._together[id(value)] = value, loop

    def write(
        self, table: dict[Any, Any], key: Any, presence: Callable[[Any], Any], choose: Callable[[Any, Any, Any], Any]
    ) -> None:
        """Note that a key is written that may be there on some ways only: on the others it comes after those that are there.

        Args:
            table: the dict.
            key: the key.
            presence: tells whether a value is there: a Python bool, or a symbolic one.
            choose: gives the second value if the first is there, else the third.
        """
        if may_be_undefined(dict.get(table, key)):
            order = self.now(table)
            if self._has_ranks(table):
                ranks = self.ranks_now(table)
                self.put_ranks(table, ranks.with_last(key, lambda before, after: choose(table[key], before, after)))
            others = {MOVED, *(other for other, value in storage.plain(table).items() if presence(value) is not False)}
            after = each(order, lambda one: one.with_behind(key, others))
            if not same(order, after) and not self._are_together(table, key):
                self.put(table, choose(table[key], order, after))

    def _are_together(self, table: dict[Any, Any], key: Any) -> bool:
        """Tell whether a key is there if the keys behind it are."""
        loop = self._together.get(id(table[key]), (None, None))[1]
        keys = [*table]
        later = keys[next(place for place, one in enumerate(keys) if one in {key}) + 1 :]
        is_plain = self.of(table) is None
        return is_plain and loop is not None and all(self._together.get(id(table[one]), (None, None))[1] is loop for one in later)

    def writes(
        self, mark: int, writes: Mapping[tuple[Any, ...], Write], undo_log: UndoLog, is_new: Callable[[Any], bool]
    ) -> dict[tuple[Any, ...], Write]:
        """Return what a block has written, of dicts item by item, with the orders that it leaves where that is another."""
        places = [entry.place for entry in undo_log.entries.values()]
        tables = {id(place.owner): place.owner for place in places if isinstance(place, (ItemPlace, ContentsPlace))}
        before = self._known.at(mark)
        tables |= {id(table): table for table in before.changed()}
        results = dict(writes)
        owners = {id(place.owner) for place in places if isinstance(place, AttributePlace)}
        tables |= {number: table for number, (table, owner, _) in self._attributes.items() if id(owner) in owners}
        for table in tables.values():
            if isinstance(table, dict) and not storage.is_namespace(table) and not is_new(self._owner(table)):
                for place, was, now in self._changes(table, before, writes, undo_log):
                    results[place.key] = Write(cast(Place, place), was, now)
        return results

    def _changes(
        self, table: dict[Any, Any], known: Before, writes: Mapping[tuple[Any, ...], Write], undo_log: UndoLog
    ) -> list[tuple[OrderPlace | RankPlace, Any, Any]]:
        """Return the places in which the order of a dict differs from what a block has found, with what there was and is."""
        old, new = self._old(table, known, writes, undo_log), self.now(table)
        results: list[tuple[OrderPlace | RankPlace, Any, Any]] = [] if same(old, new) else [(OrderPlace(self, table), old, new)]
        if self._has_ranks(table):
            whole = undo_log.contents_before(table)
            before = order_before(table, _ranks_in(known, table), writes, whole)
            ranks = changes(before, self.ranks_now(table)).items()
            results += [(RankPlace(self, table, key), *pair) for key, pair in ranks]
        return results

    def _old(self, table: dict[Any, Any], known: Before, writes: Mapping[tuple[Any, ...], Write], undo_log: UndoLog) -> Any:
        """Return the order that a block has found."""
        if not self._is_of_object(table):
            return order_before(table, known.get(id(table), (None, None))[1], writes, undo_log.contents_before(table))
        owner = self._owner(table)
        names = undo_log.names_before(owner) or storage.names(owner)
        before = next((names for one, names in zip(storage.tables(owner), names) if one is table), ())
        return self._order_of_attributes(table, known, before)

    def ordered(self, session: Asking, table: Any, use: Callable[[Any], Any]) -> Any:
        """Do something with a dict, once for each order that its keys may have."""
        order = self.asks(table)
        if order is None:
            return use(table)
        self.check(table, session.here(), is_unknown)
        if isinstance(order, Order):
            return use(reordered(table, order))
        if isinstance(order, Ranks):
            return self._in_each_order(session, table, order, use)
        if len({Order(tuple(in_order(table, option))) for option in order.options.values()}) == 1:
            return use(reordered(table, next(iter(order.options.values()))))
        return session.over(order, lambda option: use(reordered(table, option)))

    def _in_each_order(self, session: Asking, table: Any, ranks: Ranks, use: Callable[[Any], Any]) -> Any:
        """Do something with a dict of few keys, once for each order: each key is put where it belongs among those before it."""
        keys = [key for key, value in storage.plain(table).items() if not isinstance(value, Undefined)]
        of = ranks.completed(keys).of

        def put(others: list[Any], number: int) -> Any:
            if number == len(keys):
                return use(reordered(table, Order(tuple(others))))
            return at(others, number, len(others))

        def at(others: list[Any], number: int, place: int) -> Any:
            here = functools.partial(put, [*others[:place], keys[number], *others[place:]], number + 1)
            if place == 0:
                return here()
            tag = session.number(scalars.where, (of[keys[number]] > of[others[place - 1]], 1, 0), "int")
            ways = {1: here, 0: functools.partial(at, others, number, place - 1)}
            return session.over(session.new_union(tag, ways), lambda way: way())

        return put([], 0)

    def told(self, session: Asking, value: Any, is_kept: Callable[[Any], bool], known: dict[int, tuple[Any, Any]]) -> Any:
        """Return a value of which another is made, with what tells their order for the dicts in it: one of several, each with one
        order.

        Args:
            session: the capture.
            value: the value.
            is_kept: whether a container stays the object that it is.
            known: what has been given for containers by now, by their identities: one for each.
        """
        if not self._known or is_kept(value) or session.lists.of(value) is not None:
            return value
        if isinstance(value, TaggedUnion):
            options = {tag: self.told(session, option, is_kept, known) for tag, option in value.options.items()}
            is_same = all(options[tag] is option for tag, option in value.options.items())
            return value if is_same else TaggedUnion(value.session, value.tag, options).flat()
        parts = children(value)
        if parts is None:
            return value
        if id(value) not in known:
            results = [self.told(session, part, is_kept, known) for part in parts[0]]
            is_same = all(new is old for new, old in zip(results, parts[0]))
            copied = value if is_same else self.follow(unflatten(shallow(value)[1], results), value)
            is_told = not isinstance(value, dict) or self.asks(value) is None
            known[id(value)] = value, copied if is_told else self.ordered(session, copied, lambda option: option)
        return known[id(value)][1]

    def check_parts(self, value: Any, is_kept: Callable[[Any], bool], here: errors.Location | None) -> None:
        """Check all dicts in a value that is made anew, of which the order of keys is asked by what takes one order.

        Raises:
            CaptureError: one is known only at run time.
        """
        if not self._known or is_kept(value):
            return
        self.check(value, here)
        parts = list(value.options.values()) if isinstance(value, TaggedUnion) else (children(value) or ((),))[0]
        for part in parts:
            self.check_parts(part, is_kept, here)

    def check(
        self, table: Any, here: errors.Location | None, refused: Callable[[Any], bool] = lambda order: order is not None
    ) -> None:
        """Check a dict of which the order of keys is asked by what takes one order.

        Raises:
            CaptureError: it is known only at run time.
        """
        self.check_order(self.asks(table), here, refused)

    def check_order(self, order: Any, here: errors.Location | None, refused: Callable[[Any], bool]) -> None:
        """Check the same, given the order."""
        if is_unknown(order) and not self.are_ranked:
            raise NeedsRanks
        if refused(order):
            raise errors.CaptureError(
                "the order of a dict's keys depends on a branch or loop, and is used",
                here,
                fix="write the keys in the same order on all ways, or give all of them a value before",
            )


def _ranks(table: Any, order: Order | None) -> Mapping[Any, int]:
    return Ranks.begun(storage.keys_of(table) if order is None else in_order(table, order)).of


def _ranks_in(known: KnownOrders | Before, table: Any) -> Ranks:
    ranks: Ranks = known.get(_ranks_of(table), (None, Ranks.begun(())))[1]
    return ranks


def _ranks_of(table: Any) -> Any:
    """Return under what the ranks of a dict are known."""
    return "ranks", id(table)
