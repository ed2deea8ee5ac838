"""Methods of Python's containers: what they change is noted, what they give is followed."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes import access, attribute_tables
from dy2st.capture.branching import keys, lookup, optional, tensor_keys
from dy2st.capture.collections import ordering, tables
from dy2st.capture.objects import cells, construction, table_sites
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted.looked_into import KEEPING, READING_METHODS
from dy2st.capture.writes.places import ContentsPlace

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

_OF_A_KEY = frozenset(("get", "pop", "setdefault"))
_OF_ORDER = frozenset(("keys", "values", "items", "copy"))


CONTAINERS = (list, dict, set, collections.deque)


def call_container(session: Session, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
    table = optional.behind_proxy(session, owner)
    if table is not owner:
        return session.call(getattr(table, function.__name__), *args, **kwargs)
    return _call(session, owner, function, args, kwargs)


def _call(session: Session, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, list) or cells.holds(owner):
        method = ordering.method if isinstance(owner, list) else _call_of_cells
        return method(session, owner, function.__name__, args, kwargs)
    of_attributes = _method_of_attributes(session, owner, function.__name__)
    if of_attributes is not None:
        return of_attributes(session, owner, function.__name__, args, kwargs)
    if isinstance(owner, dict) and function.__name__ in _OF_ORDER and session.blocks.key_orders.asks(owner) is not None:
        return _with_order(session, owner, function)
    if isinstance(owner, dict) and function.__name__ in (*_OF_A_KEY, "move_to_end") and args:
        use = lambda one: _call_under(session, owner, function, (one, *args[1:]), kwargs)  # noqa: E731
        return tensor_keys.over(session, owner, args[0], use)
    return _call_under(session, owner, function, args, kwargs)


def _call_under(session: Session, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
    if tables.is_keyed(owner, function.__name__, args) or (function.__name__ == "setdefault" and optional.has_optional(owner)):
        return tables.method(session, owner, function, args, kwargs)
    if isinstance(owner, collections.OrderedDict) and function.__name__ == "move_to_end":
        return tables.move_to_end(session, owner, *args, **kwargs)
    args = _with_known_key(session, owner, function.__name__, args)
    if isinstance(owner, dict) and function.__name__ == "update":
        return tables.update(session, owner, *args, **kwargs)
    if isinstance(owner, (set, collections.deque)) and keys.has_union(args):
        return keys.over_unions(session, args, lambda known: call_container(session, owner, function, known, kwargs))
    _check_members(session, owner, args)
    _check_counted(session, owner, function.__name__, args)
    if isinstance(owner, dict) and function.__name__ in (optional.METHODS if optional.has_optional(owner) else optional.TAKING):
        return optional.method(session, owner, function.__name__, args, kwargs)
    if function.__name__ not in READING_METHODS:
        session.places.write(ContentsPlace(owner))
    return _given_by_container(session, owner, function, function(*args, **kwargs))


def _given_by_container(session: Session, owner: Any, function: Any, result: Any) -> Any:
    """Return what a method of a container has given: a copy is made now, and a view is remembered."""
    return construction.registered(session, result) if function.__name__ == "copy" else session.places.views.added(owner, result)


def _call_of_cells(session: Session, owner: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Return a method of a dict that is in a list of the program, and is changed there."""
    if name == "update":
        for key, item in dict(*args, **kwargs).items():
            access.set_item(owner, key, item)
        return None
    if name not in READING_METHODS:
        session.places.copies.require_table(session.traits.apart, session.allocations.sites.get(id(owner), (None, ()))[1])
        raise errors.CaptureError(
            f"dict.{name}() changes the keys of a dict that is in a list of a length that a tensor decides",
            session.here(),
            fix="give it all its keys where it is made, and set their values",
        )
    return getattr(cells.as_read(session, owner), name)(*args, **kwargs)


def _method_of_attributes(session: Session, owner: Any, name: str) -> Callable[..., Any] | None:
    """Return what a method of a container does that is the dict of a class, or changes the attributes of an object."""
    if id(owner) in session.places.class_tables and not (isinstance(owner, dict) and name not in READING_METHODS):
        return attribute_tables.call_of_class
    return attribute_tables.call if id(owner) in session.places.tables and name not in READING_METHODS else None


def _with_known_key(session: Session, owner: Any, name: str, args: Any) -> Any:
    """Return the arguments of a method of a dict with the tensor that is the key, which is found by its identity."""
    if name not in _OF_A_KEY or not isinstance(owner, dict) or not args or not isinstance(args[0], torch.Tensor):
        return args
    return (lookup.by_identity(session, owner, args[0], puts=name == "setdefault"), *args[1:])


def _check_members(session: Session, owner: Any, args: tuple[Any, ...]) -> None:
    """Check a set from outside that gets members, or is asked for some, that only the program knows.

    Raises:
        NeedsTable: it has to be one of the program.
    """
    members = [*args, *(item for arg in args if isinstance(arg, (list, tuple)) for item in arg)]
    if isinstance(owner, set) and keys.any_open(members):
        table_sites.require(session, owner, keys.refused(session, next(filter(keys.is_open, members)), "is put into a set"))


def _check_counted(session: Session, owner: Any, name: str, args: tuple[Any, ...]) -> None:
    """Check a deque whose method compares or counts with numbers that only the program knows, as what stands for it does.

    Raises:
        NeedsAbstract: it is one from outside.
    """
    if isinstance(owner, collections.deque) and name not in KEEPING and keys.any_open((*args, *owner)):
        session.outside.check_changed(owner)


def _with_order(session: Session, table: Any, method: Any) -> Any:
    """Return a method of a dict that gives its keys in their order, which is not that of the Python object."""
    name = method.__name__
    if name == "copy":
        return optional.copied(session, table)
    return optional.of_each_way(session, table, name)
