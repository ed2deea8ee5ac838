"""Methods of builtin types: called as eager calls them, or for what stands for such an object."""

from __future__ import annotations

import collections
import contextvars
import io
import random
import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes import access, special_methods
from dy2st.capture.branching import keys, optional
from dy2st.capture.calls.container_methods import CONTAINERS, call_container
from dy2st.capture.collections import ordering, sets, tables
from dy2st.capture.containers import lists, ranges, set_views
from dy2st.capture.environment import written_out
from dy2st.capture.environment.plain_values import is_counter
from dy2st.capture.iterables import iterators
from dy2st.capture.library import (
    handler_of,
    surroundings_method,
)
from dy2st.capture.looping import iteration
from dy2st.capture.objects import construction, hidden_state
from dy2st.capture.operators import comparisons
from dy2st.capture.session.session import Session
from dy2st.capture.texts import methods, text
from dy2st.capture.unconverted import dimensions
from dy2st.capture.unconverted.looked_into import READING_WRAPPERS
from dy2st.capture.unconverted.plain import call_plain, replaced
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractSet
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.primitives.text import TARGETS

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True


_OF_SLOTS = {"__get__": object.__getattribute__, "__set__": object.__setattr__, "__delete__": object.__delattr__}
"""What the methods of a slot do with an object that has it."""
_HANDLED = (torch.Tensor, contextvars.ContextVar)
"""Classes whose methods have handlers."""
_READS_ARGUMENTS = (OSError, UnicodeError, SyntaxError)
"""Exceptions that look into what they are given."""


def call_builtin_method(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """Return a method written in C: of tensors, strings and containers."""
    statement = special_methods.statement(method.__self__, method.__name__, args)
    if statement is not None:
        return session.call(statement, method.__self__, *args, **kwargs)
    if method.__name__ in ("__contains__", "__getitem__", "__reversed__") and isinstance(method.__self__, CONTAINERS):
        return _call_special(session, method, args, kwargs)
    if isinstance(method.__self__, types.GeneratorType):
        return _call_of_generator(session, method, args, kwargs)
    return _call_ordinary_method(session, method, args, kwargs)


def _call_ordinary_method(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    owner = method.__self__
    if isinstance(owner, _HANDLED):
        return _call_handled(session, method, args, kwargs)
    if isinstance(owner, torch.Generator) or (
        isinstance(owner, (io.IOBase, random.Random)) and id(owner) not in session.allocations.created
    ):
        return surroundings_method(session, owner, method, args, kwargs)
    if isinstance(owner, str):
        return _call_of_string(session, method, args, kwargs)
    if isinstance(owner, tuple) and method.__name__ in ("index", "count") and keys.any_open((*owner, *args)):
        return ordering.search(session, owner, method.__name__, *args)
    if args and not kwargs and (isinstance(owner, (set, frozenset)) or set_views.is_set(owner)):
        return _call_of_set(session, method, args)
    if isinstance(owner, type) and issubclass(owner, dict) and method.__name__ == "fromkeys":
        return tables.from_keys(session, owner, *args, **kwargs)
    if len(args) == 1 and not kwargs and method.__name__ in ranges.METHODS and ranges.is_asked_at_runtime(owner, *args):
        return ranges.METHODS[method.__name__](session, owner, args[0])
    if isinstance(owner, (list, dict, set, collections.deque, types.MappingProxyType)):
        return call_container(session, owner, method, args, kwargs)
    if isinstance(owner, BaseException) and method.__name__ == "add_note":
        return session.call(getattr(BaseException, method.__name__), owner, *args, **kwargs)
    result = call_plain(session, method, args, kwargs)
    return construction.registered(session, result) if method.__name__ == "__new__" and isinstance(owner, type) else result


def _call_of_generator(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """Return a method of a generator of Python's own: one from outside."""
    if not session.iterators.older.runs_code(method.__self__):
        return call_plain(session, method, args, kwargs)
    iterators.take(session, method.__self__)
    return session.iterators.older.resumed(method.__self__, method, *args)


def _call_of_set(session: Session, method: Any, args: Any) -> Any:
    """Return a method of a set, or of a view of a dict that is like one."""
    owner, name = method.__self__, method.__name__
    if set_views.is_set(owner) and name == "isdisjoint":
        return session.call(set_views.as_set(session, owner).isdisjoint, *args)
    if isinstance(owner, frozenset) and name in sets.METHODS and sets.are_open(session, owner, args):
        return sets.of_frozen(session, owner, name, args)
    if isinstance(owner, (set, frozenset)) and any(isinstance(value, AbstractSet) for value in args):
        return _with_sets(session, owner, method, args)
    return call_container(session, owner, method, args, {}) if isinstance(owner, set) else call_plain(session, method, args, {})


def _call_handled(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    owner = method.__self__
    handler = handler_of(getattr(type(owner) if type(owner) in _HANDLED else torch.Tensor, method.__name__, None))
    if handler is None:
        return call_plain(session, method, args, kwargs)
    return dimensions.given(session, method, args, kwargs, lambda: handler(session, owner, *args, **kwargs))


def _call_of_string(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    owner, name = method.__self__, method.__name__
    if name in _STRING_METHODS:
        return _STRING_METHODS[name](session, owner, *args, **kwargs)
    if methods.takes(args) and not kwargs and f"str.{name}" in TARGETS:
        return methods.called(session, name, owner, args)
    return call_plain(session, method, args, kwargs)


def _connected(session: Session, separator: str, items: Any) -> Any:
    return text.connected(separator, iteration.collected(items))


def _translated(session: Session, value: str, table: Any) -> Any:
    is_known = not isinstance(table, dict) or all(isinstance(piece, (str, int, type(None))) for piece in dict.values(table))
    return value.translate(table) if is_known else session.call(written_out.translated, value, table)


_STRING_METHODS: dict[str, Callable[..., Any]] = {
    "format": lambda session, template, *args, **kwargs: text.formatted(session, template, args, kwargs),
    "format_map": lambda session, template, mapping: text.formatted(session, template, (), mapping),
    "join": _connected,
    "translate": _translated,
}
"""What strings do with values that they get."""


def call_wrapper(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """Return a special method of a class written in C, bound to an object: it does what the statement does that calls it."""
    unbound, owner = getattr(method.__objclass__, method.__name__), method.__self__
    if method.__name__ == "__next__" and is_counter(owner):
        return iterators.next_(owner)
    session.tracker.step_at_capture(owner)
    if isinstance(owner, type) and method.__name__ == "__call__":
        return construction.instantiate(session, owner, args, kwargs, call_plain)
    handler = handler_of(unbound)
    if handler is not None:
        return handler(session, owner, *args, **kwargs)
    if isinstance(owner, BaseException) and method.__name__ == "__init__" and not isinstance(owner, _READS_ARGUMENTS):
        hidden_state.called(session, method, args)
        return method(*args, **kwargs)  # it keeps what it gets, as a statement would
    if storage.is_slot(owner) and method.__name__ in _OF_SLOTS and args and not kwargs:
        return _call_of_slot(session, method, *args)
    if not isinstance(owner, CONTAINERS):
        return call_plain(session, method, args, kwargs)
    statement = special_methods.statement(owner, method.__name__, args)
    return _call_special(session, method, args, kwargs) if statement is None else session.call(statement, owner, *args, **kwargs)


def _call_of_slot(session: Session, method: Any, target: Any, *args: Any) -> Any:
    """Read, write or delete an attribute through the slot of a class that keeps it.

    Raises:
        CaptureError: a class that inherits from it has something else of that name.
    """
    slot, kind = method.__self__, type(target)
    if isinstance(target, TaggedUnion):
        return session.over(target, lambda option: _call_of_slot(session, method, option, *args))
    if not isinstance(target, slot.__objclass__):
        return method(target, *args)  # raises what eager raises, or gives the slot
    if storage.of_class(kind, slot.__name__) is not slot:
        raise errors.CaptureError(
            f"the slot {slot.__name__!r} of {slot.__objclass__.__qualname__} is used, and {kind.__qualname__} has another one",
            session.here(),
            fix="give the slot another name",
        )
    return session.call(_OF_SLOTS[method.__name__], target, slot.__name__, *args[: method.__name__ == "__set__"])


def _call_special(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """Return a special method that a container has from Python, past the one of the user's class."""
    owner = method.__self__
    if method.__name__ in special_methods.READING and optional.has_optional(owner):
        return optional.case_split(session, owner, lambda known: session.call(getattr(known, method.__name__), *args), ordered=True)
    step = access.OF_CONTAINERS.get(method.__name__)
    if step is not None and not kwargs:
        return step(session, owner, *args)
    if session.lists.of(owner) is not None:
        return _call_of_list(session, owner, method.__name__, args)
    special_methods.check(session, owner, method.__name__)
    if method.__name__ not in READING_WRAPPERS:
        session.places.write(ContentsPlace(owner))
    return call_plain(session, method, args, kwargs)


def _call_of_list(session: Session, owner: Any, name: str, args: Any) -> Any:
    """Return a special method of ``list``, past the one that a class of the user's has, of a list of the program."""
    known = session.lists.required(owner)
    match name:
        case "__delitem__":
            return lists.del_item(session, known, *args)
        case "__eq__":
            return comparisons.equal_lists(session, owner, *args) if isinstance(args[0], list) else NotImplemented
        case "__contains__":
            return ordering.is_in(session, owner, *args)
        case "__add__":
            return lists.concat(session, owner, *args)
    raise errors.CaptureError(
        f"list.{name}() is called of a list that changes length inside a captured block",
        session.here(),
        fix="use indexing, len, a for loop, or the methods append, extend, insert and pop",
    )


def _with_sets(session: Session, owner: Any, method: Any, args: tuple[Any, ...]) -> Any:
    """Return a method of a set that gets a set of which the members may be known only at run time."""
    table = next(value for value in args if isinstance(value, AbstractSet))
    return optional.case_split(session, table, lambda one: call_builtin_method(session, method, replaced(args, table, one), {}))
