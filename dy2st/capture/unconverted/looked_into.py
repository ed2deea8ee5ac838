"""Tables whose keys a tensor decides, given to functions that look into them: what is there is decided first."""

from __future__ import annotations

import contextvars
import copy
import dataclasses
import functools
import itertools
import operator
import types
from collections.abc import Iterable
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables, special_methods
from dy2st.capture.branching import optional
from dy2st.capture.collections import runtime_tables
from dy2st.capture.collections.deques import CapturedDeque
from dy2st.capture.collections.tables import FAMILY
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.library.context_variables import ContextToken
from dy2st.capture.objects import construction
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractSet
from dy2st.capture.values.symbolic import PLAIN_VALUES, options_of

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

READING_METHODS = frozenset(
    ("get", "keys", "values", "items", "copy", "index", "count", "union", "intersection", "difference", "symmetric_difference",
     "issubset", "issuperset", "isdisjoint")
)  # fmt: skip
"""The methods of dicts, sets and deques that leave them as they are."""


READING_WRAPPERS = frozenset(
    f"__{name}__" for name in (
        "contains", "len", "iter", "reversed", "eq", "ne", "lt", "le", "gt", "ge", "add", "mul", "rmul", "or", "ror", "and", "sub",
        "xor", "getattribute", "repr", "str", "hash", "sizeof", "format", "bool")
)  # fmt: skip


_READING_KEYS = (len, list, tuple, set, frozenset, sorted, iter, enumerate, bool)
"""What needs to know the keys of a dict, and has no handler or one that does not need it."""


WITHOUT_ORDER: tuple[Any, ...] = (
    len,
    bool,
    sorted,
    set,
    frozenset,
    getattr,
    setattr,
    hasattr,
    isinstance,
    type,
    id,
    sum,
    any,
    all,
)
"""What asks a dict for something else than the order of its keys."""


_STEPPING_IN_ORDER: tuple[Any, ...] = (list, tuple, iter, enumerate, reversed, zip, map, filter, min, max)
_ASKING = (*_STEPPING_IN_ORDER, str, repr, print, next)
"""What goes through the keys of a dict in their order."""


_OBJECTS_OWN = tuple(getattr(kind, name) for kind in (object, type, torch.nn.Module) for name in ("__setattr__", "__delattr__"))


_GOING_THROUGH = (*_STEPPING_IN_ORDER, sorted, set, frozenset, sum, any, all)


def goes_through(function: Any) -> bool:
    """Tell whether a function asks a dict for its keys one after the other, and for nothing else."""
    is_of_itertools = isinstance(function, type) and function.__module__ == "itertools"
    return is_of_itertools or any(function is known for known in _GOING_THROUGH) or getattr(function, "__name__", None) in _STEPPING


_PASSING_ON: tuple[Any, ...] = (
    enumerate, zip, reversed, map, filter, len, iter, setattr, type, functools.reduce, next, dataclasses.replace, *_OBJECTS_OWN,
    contextvars.ContextVar.get, contextvars.ContextVar.set,
    operator.iadd, operator.iand, operator.iconcat, operator.imul, operator.ior, operator.isub, operator.ixor,
    CapturedDeque.append, CapturedDeque.appendleft, CapturedDeque.insert,
)  # fmt: skip
"""What keeps or gives what it gets as it is, and the items of that, or asks for none, so that one of them may be one of several."""


_KEEPING_CLASSES: tuple[Any, ...] = (
    types.SimpleNamespace, types.MethodType, functools.partial, functools.partialmethod, itertools.repeat, operator.methodcaller,
    staticmethod, classmethod, ContextToken,
)  # fmt: skip
"""Classes whose objects hold what they are made of."""


def passes_on(function: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether a function keeps, or gives back, the objects that it gets: it is not called with copies of lists."""
    if any(function is known for known in _PASSING_ON):
        return True
    if function is min or function is max:
        return len(args) > 1
    kind = function.args[0] if isinstance(function, functools.partial) and function.args else function
    return isinstance(kind, type) and _keeps(kind, args)


def makes_named_tuple(function: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether a function makes a named tuple, which holds the lists that it gets, of any length."""
    made = function.args[0] if isinstance(function, functools.partial) and function.args else function
    if isinstance(made, type):
        return construction.is_named_tuple(made)
    return bool(args) and isinstance(args[0], type) and construction.is_written_new(args[0], made)


def _keeps(kind: type, args: tuple[Any, ...]) -> bool:
    """Tell whether a class holds what its objects are made of."""
    if issubclass(kind, BaseException):
        return isinstance(kind.__init__, types.WrapperDescriptorType)
    if any(kind is known for known in FAMILY):
        return not any(isinstance(value, (list, tuple)) for value in args)
    if any(kind is known for known in _KEEPING_CLASSES):
        return True
    return construction.is_named_tuple(kind) or construction.is_generated(kind, kind.__init__)


_STEPPING = frozenset(("join", "extend"))
"""Methods that go through what they get."""


KEEPING = frozenset(("append", "appendleft", "insert", "setdefault", "get", "pop", "add", "update"))
"""Methods of containers that keep a dict as it is, or know its order themselves."""


_IN_PYTHON = (types.FunctionType, types.MethodType)


_OF_OBJECTS: tuple[Any, ...] = (
    getattr, setattr, hasattr, delattr, isinstance, type, vars, operator.is_, operator.is_not, operator.setitem, operator.getitem,
    operator.delitem, functools.reduce, next, torch.utils.checkpoint.checkpoint,
    *_OBJECTS_OWN, object.__getattribute__, type.__getattribute__, super, id, callable, min, max, itertools.repeat,
    runtime_tables.members, runtime_tables.is_runtime,
    operator.iadd, operator.iand, operator.iconcat, operator.imul, operator.ior, operator.isub, operator.ixor,
)  # fmt: skip
"""What asks for the object, or passes it on; of those that look into it, the statements know how."""


def _look_into_classes(session: Session, function: Any, args: tuple[Any, ...]) -> None:
    """Do what a function that is not the user's may read from dicts of classes is guarded."""
    if not isinstance(function, _IN_PYTHON) and all(function is not known for known in WITHOUT_ORDER):
        attribute_tables.look_into(session, args)


def looked_into(session: Session, function: Any, handler: Any, args: tuple[Any, ...]) -> Any:
    """Return the dict or set among some arguments of which a function needs the keys, or their order, that only the program
    knows.
    """
    if session.places.class_tables:
        _look_into_classes(session, function, args)
    table = next((value for value in args if isinstance(value, AbstractSet) or optional.has_optional(value)), None)
    if table is not None and _looks_into(function, handler, table):
        return table
    return _asked_for_order(session, function, args)


def _asked_for_order(session: Session, function: Any, args: tuple[Any, ...]) -> Any:
    """Return the dict among some arguments of which a function asks the order of the keys, if that is not the one of the object."""
    written = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(function, types.MethodType) and isinstance(function.__self__, torch.nn.Module) and written.__name__ in _OF_TABLES:
        _check_tables(session, function.__self__, _OF_TABLES[written.__name__])
    if type(written) is types.FunctionType or any(function is known for known in WITHOUT_ORDER):
        return None
    tables = [value for value in args if session.blocks.key_orders.asks(value) is not None]
    if not tables:
        return None
    if any(function is known for known in _ASKING) or getattr(function, "__name__", None) in _STEPPING:
        return tables[0]
    if getattr(function, "__name__", None) not in KEEPING and function not in (*FAMILY, copy.copy, copy.deepcopy):
        session.blocks.key_orders.check(tables[0], session.here())
    return None


_TABLES = {"children": (), "modules": (), "parameters": ("_parameters",), "buffers": ("_buffers",)}
_OF_TABLES = {f"{named}{what}": ("_modules", *own) for named in ("", "named_") for what, own in _TABLES.items()} | {
    "state_dict": storage.MODULE_TABLES
}
"""The methods of modules that go through tables of all that are in one: through which."""


def _check_tables(session: Session, module: torch.nn.Module, names: Iterable[str]) -> None:
    """Check that the order in which modules have their parameters, buffers or modules is asked by a method that takes one order."""
    for table in (vars(part)[name] for part in module.modules() for name in names):
        session.blocks.key_orders.check_order(session.blocks.key_orders.of(table), session.here(), lambda order: order is not None)


def _looks_into(function: Any, handler: Any, table: Any) -> bool:
    """Tell whether a function needs to know what is in a dict or set."""
    if any(has_own(table, name) for name in special_methods.answering(function)):
        return False  # the user's method looks into it
    if handler is not None:
        if function in (copy.copy, copy.deepcopy) and _holds_plain_values(table):
            return False
        return optional.has_optional(table) and function not in _OF_OBJECTS
    return function in _READING_KEYS or getattr(function, "__name__", None) in _STEPPING


def _holds_plain_values(table: Any) -> bool:
    """Tell whether all that may be in a dict are texts, numbers and the like, of which a copy is the same."""
    values = dict.values(table) if isinstance(table, dict) else ()
    return isinstance(table, dict) and all(isinstance(option, PLAIN_VALUES) for value in values for option in options_of(value))
