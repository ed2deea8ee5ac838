"""Orders of the keys of one dict: what is known of one, and what writing makes of it."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import Order, TaggedUnion, Undefined
from dy2st.capture.writes.places import ItemPlace
from dy2st.capture.writes.ranks import Ranks
from dy2st.capture.writes.undo_log import Write

MOVED: Any = type("Moved", (), {"__repr__": lambda self: "<moved>"})()
"""Stands in the order of an object's attributes before those that the call has put in, be it again or for the first time."""


@dataclasses.dataclass(frozen=True, eq=False)
class LastPlace:
    """The attributes of an object that come last in the dicts that keep them, in order."""

    owner: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("last", id(self.owner))

    def read(self) -> Any:
        return ()

    def write(self, value: Any) -> None:
        storage.put_last(self.owner, value)

    def __str__(self) -> str:
        return "the order of the attributes of an object"


FEW = 3
"""Keys with ranks may be in so many orders that each is looked at."""


def is_unknown(order: Any) -> bool:
    """Tell whether nobody knows which of many orders it is."""
    if isinstance(order, Ranks):
        return len(order.of) > FEW
    options = order.options.values() if isinstance(order, TaggedUnion) else (order,)
    return any(isinstance(option, Order) and option.keys is None for option in options)


def in_order(table: dict[Any, Any], order: Order) -> list[Any]:
    """Return the keys of a dict; those that an order does not have come last."""
    assert order.keys is not None
    held = storage.keys_of(table)
    first = [key for key in order.keys if key in held]
    known = set(order.keys)
    return [*first, *(key for key in held if key not in known)]


def reordered(table: dict[Any, Any], order: Order) -> dict[Any, Any]:
    """Return a copy of a dict with its keys in an order."""
    copy = storage.copy_of(table)
    for key in in_order(table, order):
        if isinstance(copy, collections.OrderedDict):
            copy.move_to_end(key)
        else:
            dict.__setitem__(copy, key, dict.pop(copy, key))
    return copy


def order_before(table: dict[Any, Any], known: Any, writes: Mapping[tuple[Any, ...], Write], whole: dict[Any, Any] | None) -> Any:
    """Return the order, or ranks, that a block has found; ``whole`` is what was in a dict of which the block has written all."""
    if whole is not None:
        return completed(known, [key for key, value in whole.items() if not isinstance(value, Undefined)])
    olds = {
        write.place.item: write.old
        for write in writes.values()
        if isinstance(write.place, ItemPlace) and write.place.owner is table
    }
    return completed(known, [key for key, value in storage.plain(table).items() if _is_there(olds.get(key, value))])


def completed(order: Any, keys: Sequence[Any]) -> Any:
    """Return an order of some keys, or their ranks: those that it does not have come last."""
    if isinstance(order, Ranks):
        return order.completed(keys)
    if order is None:
        return Order(tuple(keys))
    return each(order, lambda one: one if one.keys is None else _with_all(one, keys))


def _with_all(order: Order, keys: Sequence[Any]) -> Order:
    """Return an order of some keys."""
    assert order.keys is not None
    wanted, known = set(keys), set(order.keys)
    first = [key for key in order.keys if key in wanted or key is MOVED]
    return Order((*first, *(key for key in keys if key not in known)))


def moved(order: Any) -> Any:
    """Return the attributes that come last, since the call has put them in; a tagged union where the order is one."""
    if isinstance(order, TaggedUnion):
        return each(order, moved)
    assert order.keys is not None
    return order.keys[next(place for place, key in enumerate(order.keys) if key is MOVED) + 1 :]


def _is_there(value: Any) -> bool:
    return value is not MISSING and not isinstance(value, Undefined)


def each(order: Any, change: Callable[[Order], Order]) -> Any:
    if isinstance(order, TaggedUnion):
        return TaggedUnion(order.session, order.tag, {tag: change(option) for tag, option in order.options.items()})
    return change(order)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, TaggedUnion) and isinstance(b, TaggedUnion):
        return a.tag is b.tag and a.options == b.options
    return isinstance(a, Order) and isinstance(b, Order) and a == b
