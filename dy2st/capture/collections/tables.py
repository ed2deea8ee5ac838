"""Dicts that are filled and asked under keys, or with items, that only the program knows: each is put in by itself."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from dy2st.capture.attributes import access, attributes
from dy2st.capture.attributes.holders import is_librarys
from dy2st.capture.branching import keys, lookup, optional, tensor_keys, unions
from dy2st.capture.branching.branch import capture_if
from dy2st.capture.collections import made_tables
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.iterables import iterators
from dy2st.capture.looping import iteration
from dy2st.capture.looping.truth import truth
from dy2st.capture.objects import construction, table_sites
from dy2st.capture.operators import comparisons
from dy2st.capture.session.session import Session, current
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractSet, AbstractTable, in_any_order, is_dict
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion, may_be_undefined
from dy2st.capture.writes.places import ContentsPlace, ItemPlace

_KEYED = frozenset(("get", "pop", "setdefault", "__getitem__", "__setitem__", "__delitem__", "__contains__", "move_to_end"))
"""The methods of dicts that get a key."""

FAMILY = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_OWN: dict[str, Callable[..., Any]] = {
    "__getitem__": access.item, "__setitem__": access.set_item, "__delitem__": access.del_item,
    "__contains__": lambda table, key: comparisons.in_(key, table),
}  # fmt: skip


def method(session: Session, table: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a method of a dict that gets a key known only at run time."""
    name, (key, *rest) = function.__name__, args
    if name in _OWN:
        return _OWN[name](table, key, *rest)
    if name == "setdefault":
        value = rest[0] if rest else None
        return keys.over(session, key, lambda known: access.item_or_put(session, table, known, lambda: value))

    def use(known: Any) -> Any:
        if not lookup.is_runtime(known):
            return session.call(function, known, *rest, **kwargs)
        if name == "get":
            return lookup.get(session, table, known, *rest)
        missing = (lambda: rest[0]) if name == "pop" and rest else lambda: lookup.item(session, {}, known)
        return lookup.find(session, table, known, lambda one: session.call(function, one, *rest, **kwargs), missing)

    return keys.over(session, key, use)


COUNTING = (collections.Counter.update, collections.Counter.subtract)
"""The methods of a ``Counter`` that count what they get."""


def is_keyed(owner: Any, name: str, args: tuple[Any, ...]) -> bool:
    """Tell whether this is a method of a dict that gets a key known only at run time."""
    return name in _KEYED and isinstance(owner, lookup.MAPPINGS) and bool(args) and keys.is_open(args[0])


def new_dict() -> Any:
    """Return the empty dict that a comprehension fills."""
    session = current()
    return {} if session is None else made_tables.followed(session, {})


def create(session: Session, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a dict that is made of keys known only at run time; ``None`` for any other."""
    if kind not in FAMILY or not args or (kind is collections.defaultdict and len(args) < 2):
        return None
    *before, source = args
    source = _looked_at(session, optional.behind_proxy(session, source))
    if not _is_special(session, kind, source):
        table = kind(*before, source)
        session.allocations.own(table)
        table_sites.note(session, table)
        session.blocks.key_orders.follow(table, source)
        update(session, table, **kwargs)
    else:
        table = kind(*before)
        session.allocations.own(table)
        table_sites.note(session, table)
        session.allocations.created[id(table)] = table
        update(session, table, source, **kwargs)
    return table


def from_keys(session: Session, kind: Any, items: Any, value: Any = None) -> Any:
    """Return ``dict.fromkeys(items, value)``."""
    if isinstance(items, TaggedUnion):
        return session.over(items, lambda option: from_keys(session, kind, option, value))
    if optional.is_open(items, "__iter__") or session.blocks.key_orders.asks(items) is not None:
        return optional.case_split(session, items, lambda known: from_keys(session, kind, tuple(known), value), ordered=True)
    items = _looked_at(session, items)
    if session.lists.of(items) is None and not (
        kind in FAMILY and isinstance(items, (list, tuple)) and any(map(_is_put_alone, items))
    ):
        tensor_keys.check(session, items, items)
        return made_tables.followed(session, construction.registered(session, kind.fromkeys(items, value)))
    table: Any = kind()
    session.allocations.own(table)
    session.allocations.created[id(table)] = table
    table = made_tables.followed(session, table)
    _for_each(session, items, lambda item: access.set_item(table, item, value))
    return table


def display(session: Session, parts: tuple[Any, ...]) -> Any:
    """Return a dict display: of pairs, and of dicts whose items go into it."""
    for index, part in enumerate(parts):
        if len(part) == 1 and isinstance(part[0], TaggedUnion):
            put = lambda option, index=index: display(session, (*parts[:index], (option,), *parts[index + 1 :]))  # noqa: E731
            return session.over(part[0], put)
    table: Any = {}
    session.allocations.own(table)
    table = made_tables.followed(session, table)
    if isinstance(table, AbstractTable):
        filled: Any = table
        for part in parts:
            session.call(filled.update if len(part) == 1 else filled.__setitem__, *part)
        return filled
    for part in parts:
        if len(part) == 1 and not table and type(part[0]) in FAMILY:
            session.blocks.key_orders.follow(table, part[0])
            table.update(part[0])
        elif len(part) == 1:
            update(session, table, part[0])
        elif _is_put_alone(part[0]) or (part[0] in table and may_be_undefined(table[part[0]])):
            access.set_item(table, *part)
        else:
            table[part[0]] = part[1]
    return table


def merged(session: Session, left: Any, right: Any) -> Any:
    """Return ``left | right``."""
    known = not any(optional.has_optional(table) or session.blocks.key_orders.of(table) is not None for table in (left, right))
    known = known and not tensor_keys.may_share(session, storage.keys_of(left), storage.keys_of(right))
    if not known and isinstance(left, collections.Counter):
        return session.call(type(left).__or__, left, right)
    if known or type(left) not in FAMILY:
        tensor_keys.check(session, storage.keys_of(left), storage.keys_of(right))
        for table in (left, right):
            session.blocks.key_orders.check(table, session.here())
        result = left | right
        session.allocations.own(result)
        return made_tables.followed(session, result)
    result = optional.copied(session, left)
    update(session, result, right)
    return result


def move_to_end(session: Session, table: Any, key: Any, last: bool = True) -> None:
    """Do ``table.move_to_end(key, last)``."""
    last = truth(session, last)
    if is_symbolic(last):
        ways = [functools.partial(move_to_end, session, table, key, way) for way in (True, False)]
        capture_if(last, ways[0], ways[1], ())
        return
    orders = session.blocks.key_orders
    if session.blocks.nesting == 1 and not orders.are_ranked and orders.of(table) is None and not optional.has_optional(table):
        session.places.write(ContentsPlace(table))
        table.move_to_end(key, last)
        return
    access.OF_CONTAINERS["__getitem__"](session, table, key)
    session.blocks.key_orders.moved(table, key, last)


def update(session: Session, table: Any, /, *sources: Any, subtracts: bool = False, **named: Any) -> None:
    """Do ``table.update(source, **named)``; a ``Counter`` counts."""
    for source in sources:
        if isinstance(source, TaggedUnion):
            session.over(source, lambda option: update(session, table, option, subtracts=subtracts))
            continue
        by_steps = not hasattr(source, "keys") and iterators.gives_by_steps(source)
        source = source if by_steps else _looked_at(session, source)
        is_open = optional.is_wide(session, source) or any(map(optional.has_optional, (table, source)))
        by_each = is_open or by_steps or _is_special(session, type(table), source)
        if not by_each and not (isinstance(source, Mapping) and tensor_keys.may_share(session, storage.keys_of(table), source)):
            session.blocks.key_orders.check(source, session.here())
            session.places.write(ContentsPlace(table))
            (table.subtract if subtracts else table.update)(source)
        elif isinstance(table, collections.Counter):
            is_mapping = not isinstance(source, (dict, list, tuple, AbstractTable)) and _is_special(session, dict, source)
            counts = create(session, dict, (source,), {}) if is_mapping else source
            if not subtracts and isinstance(counts, (dict, AbstractTable)) and not storage.keys_of(table):
                _put(session, table, counts)  # an empty one takes the objects themselves
            else:
                _count(session, table, counts, -1 if subtracts else 1)
        else:
            _put(session, table, source)
    if isinstance(table, collections.Counter):
        _count(session, table, named, -1 if subtracts else 1)
    else:
        _put(session, table, list(named.items()))


def _put(session: Session, table: Any, source: Any) -> None:
    if isinstance(source, AbstractTable) or (optional.is_wide(session, source) and not has_own(source, "__iter__")):
        source = optional.view(source, "items")
    elif isinstance(source, dict) and not has_own(source, "__iter__"):
        session.blocks.key_orders.check(source, session.here())
        for key, value in storage.plain(source).items():
            if key in table or tensor_keys.may_share(session, storage.keys_of(table), (key,)):
                _put_one(session, table, key, value)
            else:  # it is there on the same ways
                session.places.write(ItemPlace(table, key))
                table[key] = value
        return
    if hasattr(source, "keys"):
        return _put_named(session, table, source, session.call(attributes.attr(source, "keys")))

    def put(pair: Any) -> None:
        key, value = iteration.iterated(pair)
        _store(session, table, key, value)

    _for_each(session, source, put)


def _for_each(session: Session, items: Any, use: Callable[[Any], None]) -> None:
    """Do something with each item of a list or iterable: in a loop of the program where only that knows how many there are."""
    if not iteration.is_of_runtime_length(items) and not iterators.gives_by_steps(items):
        for item in items:
            use(item)
        return
    session.allocations.own_variables(use)
    iteration.capture_for(items, use, (), None)


def _put_named(session: Session, table: Any, source: Any, names: Any) -> None:
    """Put in the items of a mapping of the user's, under the keys that it tells."""
    if not isinstance(names, (TaggedUnion, tuple)):
        names = session.call(tuple, names)
    if isinstance(names, TaggedUnion):
        session.over(names, lambda option: _put_named(session, table, source, option))
        return
    for key in iteration.iterated(names):
        _store(session, table, key, access.item(source, key))


def _store(session: Session, table: Any, key: Any, value: Any) -> None:
    """Put in an item as ``dict.update`` does, which asks no class of the user's; that of ``OrderedDict`` does."""
    if isinstance(table, collections.OrderedDict) or not has_own(table, "__setitem__"):
        access.set_item(table, key, value)
    elif keys.is_open(key):
        keys.over(session, key, lambda known: _store(session, table, known, value))
    else:
        access.OF_CONTAINERS["__setitem__"](session, table, key, value)


def _counted(table: Any, key: Any, sign: int, times: Any) -> Any:
    return access.item(table, key) + sign * times


def _put_one(session: Session, table: Any, key: Any, value: Any, obj: Callable[[Any], Any] = lambda known: known) -> None:
    """Put in what is made of an item of another dict, which may be there on some ways only."""
    there = unions.presence(value)
    known = value.without_unbound() if there is not False and may_be_undefined(value) else value
    put: Any = lambda: _store(session, table, key, obj(known))  # noqa: E731
    if is_symbolic(there):
        session.allocations.own_variables(put)
        capture_if(there, put, lambda: None, ())
    elif there:
        put()


def _count(session: Session, table: Any, source: Any, sign: int) -> None:
    def count(key: Any, times: Any = 1) -> None:
        _put_one(session, table, key, times, functools.partial(_counted, table, key, sign))

    if is_dict(source):
        _for_each(session, optional.view(source, "items"), lambda pair: count(*pair))
    elif not isinstance(source, Mapping):
        _for_each(session, in_any_order(source), count)
    elif optional.is_wide(session, source) or session.blocks.key_orders.asks(source) is not None:
        _for_each(session, optional.view(source, "items"), lambda pair: count(*pair))
    else:
        for key, times in source.items():
            count(key, times)


def _looked_at(session: Session, source: Any) -> Any:
    """Return what a dict is made of: a dict, or a list of what an iterator gives."""
    if isinstance(source, AbstractSet) or hasattr(source, "keys"):
        return source
    return iteration.collected(source) if not isinstance(source, (list, tuple)) else source


def _is_put_alone(key: Any) -> bool:
    """Tell whether the program may have to find out whether a key is there."""
    return keys.is_open(key) or tensor_keys.is_key(key)


def _is_special(session: Session, kind: type, source: Any) -> bool:
    """Tell whether the items have to be put in one by one."""
    if isinstance(source, dict):
        return has_own(source, "__iter__") or (optional.has_optional(source) and kind is collections.Counter)
    if not isinstance(source, (list, tuple)):
        names = getattr(type(source), "keys", None)
        return isinstance(names, types.FunctionType) and not is_librarys(names)
    if session.lists.of(source) is not None:
        return True
    if kind is collections.Counter:
        return any(map(_is_put_alone, source))
    return any(
        keys.is_open(pair) or (isinstance(pair, (list, tuple)) and len(pair) == 2 and _is_put_alone(pair[0])) for pair in source
    )
