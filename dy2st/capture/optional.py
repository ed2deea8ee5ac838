"""Items of dicts and attributes of objects that are there on some ways only.

if x.sum() > 0:             d["c"] is a choice between a tensor and nothing. Reading it checks that it is there, ``"c" in d`` asks
    d["c"] = x              for its tag, and what needs to know the keys (``len(d)``, ``d.items()``) is done once with the item
                            and once without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st import errors
from dy2st.capture import choices
from dy2st.capture.branch import capture_if_exp
from dy2st.capture.journal import ItemPlace
from dy2st.capture.session import Session
from dy2st.capture.values import StandInSet, Undefined, may_be_undefined

_ABSENT = object()
_MARKS_ALLOWED = frozenset(("update", "__setitem__"))


def has_optional(value: Any) -> bool:
    """Whether a value is a dict or set with items that are there on some ways only."""
    if isinstance(value, StandInSet):
        value = value.table
    return isinstance(value, dict) and any(map(may_be_undefined, value.values()))


def settled(session: Session, table: Any, use: Callable[[Any], Any], *, ordered: bool = False) -> Any:
    """Do something with a dict or set: once for each set of keys that it may have, and if asked, for each order of them."""
    if isinstance(table, StandInSet):
        return settled(session, table.table, lambda keys: use(set(keys)))
    key = next((key for key, value in table.items() if may_be_undefined(value)), _ABSENT)
    if key is _ABSENT:
        return session.key_orders.ordered(session, table, use) if ordered else use(table)
    value, without, full = table[key], copied(session, table), copied(session, table)
    del without[key]

    def once(keys: Any) -> Any:
        return settled(session, keys, use, ordered=ordered)

    if isinstance(value, Undefined):
        return once(without)
    full[key] = value.without_unbound()
    return capture_if_exp(choices.presence(value), lambda: once(full), lambda: once(without))


def copied(session: Session, table: Any) -> Any:
    """``table.copy()``, with its items as they are and its keys in their order."""
    made = table.copy()
    session.births.own(made)
    return session.key_orders.follow(made, table)


def method(session: Session, table: dict[Any, Any], name: str, args: Any, kwargs: Any) -> Any:
    """A method of a dict with such items.

    Raises:
        CaptureError: it takes an item of which nobody knows the key.
    """
    if name == "pop":
        return pop(session, table, *args)
    if name == "setdefault":
        default = args[1] if len(args) > 1 else None
        found = settled(session, table, lambda keys: keys.get(args[0], default))
        session.write(ItemPlace(table, args[0]))
        table[args[0]] = found
        return found
    if name == "clear":
        return clear(session, table)
    if name == "popitem":
        raise errors.CaptureError(
            "popitem() of a dict whose keys depend on a branch", session.here(), fix="pop a key that you name"
        )
    if name == "copy":
        return copied(session, table)
    if name in _MARKS_ALLOWED:
        return getattr(table, name)(*args, **kwargs)
    return settled(session, table, lambda keys: getattr(keys, name)(*args, **kwargs), ordered=name in ("keys", "values", "items"))


def pop(session: Session, table: dict[Any, Any], key: Any, *default: Any) -> Any:
    """``table.pop(key)``, with or without a default."""
    stored = table.get(key, _ABSENT)
    if stored is _ABSENT:
        return table.pop(key, *default)
    if may_be_undefined(stored) and default:
        stored = settled(session, {key: stored}, lambda keys: keys.get(key, default[0]))
    else:
        stored = choices.certain(stored)
    remove(session, table, key)
    return stored


def clear(session: Session, table: dict[Any, Any]) -> None:
    """``table.clear()``: items that come back then are in another order."""
    for key in [key for key, value in table.items() if not isinstance(value, Undefined)]:
        remove(session, table, key)


def remove(session: Session, table: dict[Any, Any], key: Any) -> None:
    """Take an item that is there out of a dict. In a branch, a marker keeps its place in the order of the keys."""
    place = ItemPlace(table, key)
    session.write(place)
    session.key_orders.removed(table, key)
    if session.nesting > 1 and not session.births.is_inside(place, session.region):
        table[key] = Undefined(f"[{key!r}]", KeyError, (key,))
    else:
        del table[key]
