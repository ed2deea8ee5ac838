"""Items of dicts and attributes of objects that are there on some ways only.

if x.sum() > 0:             d["c"] is a tagged union between a tensor and nothing. Reading it checks that it is there, ``"c" in d``
asks
    d["c"] = x              for its tag, and what needs to know the keys (``len(d)``, ``d.items()``) is done once with the item
                            and once without.
"""

from __future__ import annotations

import collections
import functools
import gc
import types
from collections.abc import Callable
from typing import Any

from dy2st.capture.branching import keys, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.objects import table_sites
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, need
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractSet, AbstractTable, Represents, example_of
from dy2st.capture.values.dict_views import is_view, name_of
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.writes.places import ItemPlace

_ABSENT = object()
METHODS = frozenset(("pop", "popitem", "clear", "copy", "get", "keys", "values", "items"))
"""The methods of dicts that need to know which items are there."""
_VIEWS = frozenset(("keys", "values", "items"))
TAKING = frozenset(("pop", "popitem", "clear"))
"""Those that take items out."""


def behind_proxy(session: Session, value: Any) -> Any:
    """Return the dict that a read-only view shows, where a tensor decides its keys or their order; any other value as it is."""
    table = _shown(value)
    if table is value or not isinstance(table, dict):
        return value
    return table if is_unsure(session, table) else value


def _shown(value: Any) -> Any:
    """Return the mapping that a read-only view shows; any other value as it is."""
    return gc.get_referents(value)[0] if type(value) is types.MappingProxyType else value


def has_optional(value: Any) -> bool:
    """Tell whether a value is a dict or set with items that are there on some ways only."""
    value = _shown(value)
    if isinstance(value, AbstractSet):
        value = value.table
    return isinstance(value, dict) and any(map(may_be_undefined, dict.values(value)))


def is_unsure(session: Session, table: Any) -> bool:
    """Tell whether a tensor decides which keys a dict or set has, or in which order."""
    return has_optional(table) or session.blocks.key_orders.asks(table) is not None


def is_open(value: Any, *methods: str) -> bool:
    """Return the same, for a question that these special methods answer.

    Where the user has written one, it says what it looks at.
    """
    return has_optional(value) and not any(has_own(value, name) for name in methods)


def case_split(session: Session, table: Any, use: Callable[[Any], Any], *, ordered: bool = False) -> Any:
    """Do something with a dict or set: once for each set of keys that it may have, and if asked, for each order of them."""
    if isinstance(table, AbstractSet):
        return case_split(session, table.table, lambda known: use(set(known)))
    table = behind_proxy(session, table)
    key = next((key for key, value in dict.items(table) if may_be_undefined(value)), _ABSENT)
    if key is _ABSENT:
        return session.blocks.key_orders.ordered(session, table, use) if ordered else use(table)
    value = dict.__getitem__(table, key)
    without, full = (session.blocks.key_orders.follow(_alike(session, table), table) for _ in range(2))
    for copy in (without, full):
        session.iterators.copies[id(copy)] = copy, original(session, table)
    ItemPlace(without, key).write(MISSING)

    def once(known: Any) -> Any:
        return case_split(session, known, use, ordered=ordered)

    there = _presence_here(session, value)
    if there is False:
        return once(without)
    ItemPlace(full, key).write(value.without_unbound())
    return once(full) if there is True else capture_if_exp(there, lambda: once(full), lambda: once(without))


def original(session: Session, table: Any) -> Any:
    """Return the dict that another one is a copy of, in which it is known what there is on one way; else the dict itself."""
    return session.iterators.copies.get(id(table), (table, table))[1]


def _presence_here(session: Session, value: Any) -> Any:
    """Tell whether what may be undefined is there: a Python bool also where the branches around it have decided that."""
    there = unions.presence(value)
    known = session.shapes.known(there) if is_symbolic(there) else there
    return there if known is None else known


def _alike(session: Session, table: Any) -> Any:
    """Return what stands for a dict on one of the ways; no method of its class makes it."""
    copy = storage.copy_of(table)
    session.allocations.own(copy)
    return copy


def copied(session: Session, table: Any) -> Any:
    """Return ``table.copy()``, with its items as they are and its keys in their order."""
    result = table.copy()
    session.allocations.own(result)
    return session.blocks.key_orders.follow(result, table)


def method(session: Session, table: dict[Any, Any], name: str, args: Any, kwargs: Any) -> Any:
    """Return a method of a dict with such items."""
    if name == "pop":
        return pop(session, table, *args)
    if name == "popitem":
        return pop_item(session, table, *args, **kwargs)
    if name == "clear":
        return clear(session, table)
    if name == "copy":
        return copied(session, table)
    if name == "get":
        return get(session, table, *args)
    return of_each_way(session, table, name, *args, **kwargs)


def of_each_way(session: Session, table: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a method of what a dict is on each way: of a copy, since a view would show what is written when that way ends."""
    if name in _VIEWS and not (args or kwargs) and is_wide(session, table):
        return view(table, name)

    def of_way(known: Any) -> Any:
        return session.places.views.copied(table, getattr(storage.copy_of(known), name)(*args, **kwargs))

    return case_split(session, table, of_way, ordered=True)


def now(session: Session, value: Any) -> Any:
    """Return what a view of a dict shows now, where that is not what Python's own shows; any other value as it is."""
    if isinstance(value, TaggedUnion):
        views = [option for option in value.options.values() if is_view(option)]
        if not any(map(session.places.views.is_stale, views)):
            return value
        tables = {id(session.places.views.table(view)) for view in views}
        return now(session, views[0]) if len(tables) == 1 and len(views) == len(value.options) else unions.over(value, _now)
    if not is_view(value):
        return value
    table = session.places.views.table(value)
    own = gc.get_referents(value)[0] is table
    return (
        of_each_way(session, table, name_of(value))
        if session.places.views.is_stale(value) or (own and has_optional(table))
        else value
    )


def over(union: TaggedUnion, function: Callable[[Any], Any]) -> Any:
    """Do something with each option of a tagged union, of views of dicts with what they show now."""
    shown = now(need(), union)
    return unions.over(shown, function) if isinstance(shown, TaggedUnion) else function(shown)


def _now(option: Any) -> Any:
    return now(need(), option)


def get(session: Session, table: dict[Any, Any], key: Any, default: Any = None) -> Any:
    """Return ``table.get(key, default)``."""
    stored = dict.get(table, key, default)
    return case_split(session, {key: stored}, lambda known: known.get(key, default)) if may_be_undefined(stored) else stored


def pop_item(session: Session, table: dict[Any, Any], last: bool = True) -> tuple[Any, Any]:
    """Return ``table.popitem(last)``: the key is one of those that may be at the end."""
    if is_symbolic(last):
        return capture_if_exp(last, lambda: pop_item(session, table, True), lambda: pop_item(session, table, False))  # type: ignore[no-any-return]
    words = "dictionary is empty" if isinstance(table, collections.OrderedDict) else "popitem(): dictionary is empty"

    def at_end(known: dict[Any, Any]) -> Any:
        if not known:
            raise raised(KeyError(words))
        return next(reversed(known) if last else iter(known))

    end = _end_of_many(session, table, last, words) if is_wide(session, table) else case_split(session, table, at_end, ordered=True)
    return end, keys.over(session, end, lambda key: pop(session, table, key))


def pop(session: Session, table: dict[Any, Any], key: Any, *default: Any) -> Any:
    """Return ``table.pop(key)``, with or without a default."""
    if keys.is_any(session, key):  # one of the keys, of which there are too many to tell which
        table_sites.require(session, table, keys.refused(session, key, "is taken out of a dict"))
    stored = dict.get(table, key, _ABSENT)
    if stored is _ABSENT:
        return storage.base_of(table).pop(table, key, *default)
    stored = get(session, table, key, default[0]) if default else unions.certain(stored)
    remove(session, table, key)
    return stored


def clear(session: Session, table: dict[Any, Any]) -> None:
    """Do ``table.clear()``: items that come back then are in another order."""
    for key in [key for key, value in dict.items(table) if not isinstance(value, Undefined)]:
        remove(session, table, key)


def remove(session: Session, table: dict[Any, Any], key: Any) -> None:
    """Take an item that is there out of a dict."""
    place = ItemPlace(table, key)
    session.places.write(place)
    session.blocks.key_orders.removed(table, key)
    session.places.take_out(place, Undefined(f"[{storage.shown_key(key)}]", KeyError, (key,)))


_FEW = 8
"""So many ways are written out: each set of keys in each order."""


class RuntimeView(Represents, example={}.keys()):
    """What shows the keys, values or items of such a dict: as they are when they are asked.

    Args:
        table: the dict.
        name: of the method that gives such a view.
    """

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name


@functools.cache
def _showing(name: str, *, ordered: bool) -> Callable[..., RuntimeView]:
    kind = collections.OrderedDict if ordered else dict
    return type("RuntimeView", (RuntimeView,), {}, example=getattr(kind(), name)())


def is_wide(session: Session, table: Any) -> bool:
    """Tell whether a dict may have more sets of keys, in more orders, than are written out."""
    if not isinstance(table, dict):
        return isinstance(table, AbstractTable)
    unsure = sum(isinstance(value, TaggedUnion) and may_be_undefined(value) for value in dict.values(table))
    return bool(2**unsure * session.blocks.key_orders.ways(table) > _FEW)


def is_counted(table: Any) -> bool:
    """Tell whether a dict has more keys that may be there than are asked one after the other how many there are.

    Those tell more: where there are none, no single one is there.
    """
    return isinstance(table, dict) and sum(map(may_be_undefined, dict.values(table))) > _COUNTED


_COUNTED = 6


def view(table: Any, name: str) -> RuntimeView:
    """Return ``table.keys()``, ``table.values()`` or ``table.items()``."""
    example = example_of(table)
    return _showing(name, ordered=isinstance(example, collections.OrderedDict))(table, name)


def _end_of_many(session: Session, table: Any, last: bool, words: str) -> Any:
    """Return the last key of a dict, or the first; one that has none raises KeyError with these words."""
    check(session, length(session, table) > 0, KeyError, words)
    return session.call(next, session.call(reversed if last else iter, view(table, "keys")))


def length(session: Session, table: Any) -> Any:
    """Return how many keys a dict has."""
    if isinstance(table, AbstractTable):
        return session.call(len, table)
    return count(session, [unions.presence(value) for value in dict.values(table)])


def count(session: Session, present: list[Any]) -> Any:
    """Return how many of some keys are there."""
    return functools.reduce(lambda total, one: total + unions.as_number(session, one), present, 0)
