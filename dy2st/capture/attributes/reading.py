"""Attributes of plain objects, as ``object.__getattribute__`` reads them: of the class, of the instance, of bases."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dy2st.capture.attributes import attribute_tables, tensor_attributes
from dy2st.capture.attributes.assignment import put
from dy2st.capture.attributes.class_attributes import (
    is_written,
    of_class,
    read_classes,
    read_descriptor,
    source_of,
    was_written,
)
from dy2st.capture.attributes.holders import is_librarys, own_method
from dy2st.capture.branching import unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment import written_out
from dy2st.capture.environment.sources import Source
from dy2st.capture.environment.users_code import as_written, is_library
from dy2st.capture.objects import cells
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import replacements
from dy2st.capture.types import absent_attributes
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined
from dy2st.capture.writes.places import AttributePlace

_MAY_BE_INPUTS = (bool, int, float, set, collections.deque, np.ndarray)
"""Classes of values in whose place something may stand once they have been read."""


def given_otherwise(session: Session, value: Any, name: str, default: Any) -> Any:
    """Return what an object gives for an attribute that it does not have itself."""
    return attempt(session, lambda: _otherwise(session, value, storage.of_class(type(value), name), name), lambda: default)


def attempt(session: Session, step: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Return what the user's code gives for an attribute, or something else where it says that there is none."""
    return session.call(written_out.attempted, step, AttributeError, otherwise)


def plain(session: Session, value: Any, name: str, fallback: bool = True) -> Any:
    """Return what ``object.__getattribute__`` gives, and after it the fallback, if the class has one."""
    described = storage.of_class(type(value), name)
    if storage.is_data(described) and not storage.is_slot(described):
        return _of_class_first(session, value, described, name, fallback)
    value = attribute_tables.holder(session, value)
    held = storage.own(value, name)
    if cells.are(held):
        return cells.read(session, held)
    if storage.is_hidden(value, name) or (fallback and _is_hidden_table_entry(value, name)):
        return _otherwise(session, value, described, name, fallback)
    return _held(session, value, described, held, name, fallback)


def _held(session: Session, value: Any, described: Any, held: Any, name: str, fallback: bool) -> Any:
    """Return what an object has itself, or what there is where it has nothing."""
    if may_be_undefined(held):
        there = unions.presence(held)
        if not has_other(value, name):
            return unions.certain(held, name=name, obj=value)
        other = functools.partial(_otherwise, session, value, described, name, fallback)
        return other() if there is False else capture_if_exp(there, held.without_unbound, other)
    if held is MISSING:
        return _otherwise(session, value, described, name, fallback)
    if isinstance(value, type):
        return _read_plainly(session, value, name)
    if not isinstance(value, Represents) and source_of(session, value) is not None:
        session.outside.read(AttributePlace(value, name))
        held = storage.own(value, name)  # a number that is an input stands there by now
    elif isinstance(value, types.ModuleType):
        replacements.read(session, value, name, held)
    if name in storage.MODULE_TABLES and isinstance(value, torch.nn.Module):
        attribute_tables.know(session, value, held)
    return held


def _is_hidden_table_entry(value: Any, name: str) -> bool:
    """Tell whether a module has an attribute in one of its tables, and the user's fallback decides what it gives."""
    return storage.is_registered(value, name) and own_method(value, "__getattr__") is not None


def _otherwise(session: Session, value: Any, described: Any, name: str, fallback: bool = True) -> Any:
    """Return an attribute that an object does not have itself."""
    if isinstance(value, type) and (described is MISSING or any(name in vars(base) for base in value.__mro__[1:])):
        return _of_bases(session, value, name)
    if described is not MISSING and not storage.is_slot(described):
        return _of_class_first(session, value, described, name, fallback)
    method = own_method(value, "__getattr__") if fallback else None
    if method is not None:
        of_class(session, value, "__getattr__")
        source = unwritten_source(session, value, name)
        if source is not None:
            session.tracker.guards.missing(session.tracker.table.plain_attribute(source, name))
        return session.call(types.MethodType(method, value), name)
    if fallback:
        return _read_plainly(session, value, name)
    return object.__getattribute__(value, name)


def _of_class_first(session: Session, value: Any, described: Any, name: str, has_fallback: bool) -> Any:
    """Return an attribute that the class defines, and where its code says that there is none what ``__getattr__`` gives."""
    fallback = as_written(storage.of_class(type(value), "__getattr__")) if has_fallback else None
    if not isinstance(fallback, types.FunctionType) or not asks_user(value, name):
        return from_class(session, value, described, name)

    def otherwise() -> Any:
        if fallback is torch.nn.Module.__getattr__:
            if not storage.is_registered(value, name):
                raise raised(absent_attributes.error(value, name))
            held = storage.own(value, name)
            if may_be_undefined(held):
                return unions.certain(held, name=name, obj=value)
            return _held(session, value, MISSING, held, name, False)
        of_class(session, value, "__getattr__")
        return session.call(types.MethodType(fallback, value), name)

    return attempt(session, lambda: from_class(session, value, described, name), otherwise)


def _of_bases(session: Session, kind: type, name: str) -> Any:
    """Return an attribute of a class that is one of a base, or of its own class."""
    base = next((base for base in kind.__mro__[1:] if name in vars(base)), None)
    written = is_written(session, kind.__mro__, name)
    if written:
        read_classes(session, kind.__mro__, name)
    if base is None or not written:
        return _read_plainly(session, kind, name)
    described = vars(base)[name]
    result = described.__get__(None, kind) if hasattr(type(described), "__get__") else described
    return unions.certain(result, name=name, obj=kind) if may_be_undefined(result) else result


def _read_plainly(session: Session, value: Any, name: str) -> Any:
    source = None if isinstance(value, Represents) else source_of(session, value)
    try:
        result = getattr(value, name)
    except AttributeError:
        guard_missing(session, value, name)
        if isinstance(value, torch.Tensor):
            raise raised(absent_attributes.error(value, name)) from None
        raise
    if source is not None and not was_written(session, value, name):
        _read_given(session, value, name, result, source)
        result = getattr(value, name)  # a number that is an input stands there by now
    return result


def _read_given(session: Session, value: Any, name: str, obj: Any, source: Source) -> None:
    """Note that an attribute is read that comes from outside, be it the object's own or one of its class."""
    place, table = AttributePlace(value, name), session.tracker.table
    given = table.attribute(source, name)
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    kind = next((kind for kind in kinds if name in vars(kind)), None)
    if given.name in session.tracker.dynamic and kind is not None and place.read() is MISSING:
        session.tracker.guards.missing(table.item(table.attribute(source, "__dict__"), name, given.name))
        place = AttributePlace(kind, name)  # an object that gets one of its own on some ways only has none on the others
    session.outside.read_at(place, obj, given)


def from_class(session: Session, value: Any, described: Any, name: str) -> Any:
    """Return what the class of an object makes of an attribute that it defines."""
    if isinstance(described, TaggedUnion):
        return session.over(described, lambda option: from_class(session, value, option, name))
    getter = storage.getter_of(described)
    in_c = getter is not None and not isinstance(getter, types.FunctionType) and not is_library(type(value).__module__)
    if getter is not None and (in_c or not is_librarys(getter)):
        of_class(session, value, name)
        if isinstance(getter, types.FunctionType):
            return session.call(types.MethodType(getter, value))
        read_descriptor(session, type(value).__mro__, name, described)
        return session.call(getter, value)
    if isinstance(getattr(type(described), "__get__", None), types.FunctionType) and not isinstance(value, types.ModuleType):
        return _described(session, described, value, name)
    place = AttributePlace(value, name)
    nothing_own = place.read() is MISSING and not was_written(session, value, name)
    if storage.is_data(described) or nothing_own:
        return _read_held(session, value, described, name)
    return _read_from_class(session, value, described, name)


def _read_held(session: Session, value: Any, described: Any, name: str) -> Any:
    """Return what the class holds for an object that has nothing of its own, or what a library computes."""
    source = None if isinstance(value, Represents) else source_of(session, value)
    if name == "__dict__" and attribute_tables.has(value):
        return attribute_tables.read(session, value, source)
    if name == "__dict__" and isinstance(value, type) and source is not None:
        return attribute_tables.of_class(session, value, source)
    if name == "__dict__" and isinstance(value, types.ModuleType) and source is not None:
        return attribute_tables.of_module(session, vars(value), session.tracker.table.attribute(source, name))
    if source is None and not isinstance(value, types.ModuleType) and described is not MISSING:
        return _of_made_object(session, value, described, name)
    get = getattr if own_method(value, "__getattribute__") is None else object.__getattribute__
    result = get(value, name)
    if source is not None:
        _read_given(session, value, name, result, source)
        result = get(value, name) if type(result) in _MAY_BE_INPUTS else result  # an input may stand there by now
    return unions.certain(result, name=name, obj=value) if may_be_undefined(result) else result


def _of_made_object(session: Session, value: Any, described: Any, name: str) -> Any:
    """Return what a class holds for an object that the capture has made: with a class from outside it comes from outside."""
    kind = next(base for base in type(value).__mro__ if name in vars(base))
    if is_library(kind.__module__):
        return getattr(value, name)
    if hasattr(type(described), "__get__"):
        of_class(session, value, name)
        return getattr(value, name)
    result = plain(session, type(value), name)
    return unions.certain(result, name=name, obj=value) if may_be_undefined(result) else result


def _read_from_class(session: Session, value: Any, described: Any, name: str) -> Any:
    """Return what the class holds, for an object that had it itself, or where the code has written it."""
    kind = next(base for base in type(value).__mro__ if name in vars(base))
    if source_of(session, value) is not None:
        session.outside.read(AttributePlace(value, name))
    if session.tracker.source_of(value) is not None or session.tracker.source_of(kind) is not None:
        read_classes(session, type(value).__mro__, name)
        now = vars(kind)[name]
        described = described if isinstance(now, TaggedUnion) else now  # an input may stand there by now
    result = described.__get__(value, type(value)) if hasattr(type(described), "__get__") else described
    return unions.certain(result, name=name, obj=value) if may_be_undefined(result) else result


def _described(session: Session, descriptor: Any, value: Any, name: str) -> Any:
    """Return the attribute that a descriptor makes; a cached one is written where it is kept."""
    read_descriptor(session, type(value).__mro__, name, descriptor)
    if source_of(session, value) is not None and not storage.is_data(descriptor):
        session.outside.read(AttributePlace(value, name))
    if not isinstance(descriptor, functools.cached_property):
        return session.call(types.MethodType(type(descriptor).__get__, descriptor), value, type(value))
    result = session.call(types.MethodType(descriptor.func, value))
    put(session, value, name, result, None if isinstance(value, type) else object.__setattr__)
    return result


def sometimes(value: Any, name: str) -> Any:
    """Return what an object has itself on some ways only; ``None`` for any other attribute."""
    if isinstance(value, (Represents, super, *SYMBOLIC_NUMBERS)) or own_method(value, "__getattribute__") is not None:
        return None
    if isinstance(value, torch.Tensor) and not tensor_attributes.is_users(value, name):
        return None
    described = storage.of_class(type(value), name)
    if storage.is_data(described) and not storage.is_slot(described):
        return None
    held = storage.own(value, name)
    if storage.is_hidden(value, name) or _is_hidden_table_entry(value, name):
        return None
    return held if may_be_undefined(held) else None


def has_other(value: Any, name: str) -> bool:
    """Tell whether something else gives an attribute that an object does not have itself."""
    if isinstance(value, type) and any(name in vars(base) for base in value.__mro__[1:]):
        return True
    described = storage.of_class(type(value), name)
    of_class = described is not MISSING and not storage.is_slot(described)
    return of_class or own_method(value, "__getattr__") is not None


def asks_user(value: Any, name: str) -> bool:
    """Tell whether the user's code decides if there is an attribute."""
    if isinstance(value, (torch.Tensor, Represents, *SYMBOLIC_NUMBERS)):
        return False
    if isinstance(value, super) or own_method(value, "__getattribute__") is not None:
        return True
    described = storage.of_class(type(value), name)
    if isinstance(described, property) and not is_librarys(described.fget):
        return True
    if isinstance(getattr(type(described), "__get__", None), types.FunctionType):
        return storage.is_data(described) or storage.own(value, name) is MISSING or storage.is_hidden(value, name)
    if described is not MISSING or own_method(value, "__getattr__") is None:
        return False
    return storage.own(value, name) is MISSING or _is_hidden_table_entry(value, name)


def guard_missing(session: Session, value: Any, name: str) -> None:
    source = None if isinstance(value, (Represents, super)) else unwritten_source(session, value, name)
    if source is not None and not asks_user(value, name):
        session.tracker.guards.missing(session.tracker.table.attribute(source, name))
    elif id(value) in session.allocations.created:
        read_classes(session, type(value).__mro__, name)


def unwritten_source(session: Session, value: Any, name: str) -> Any:
    """Return where an object comes from whose attribute is as it was when the program was called."""
    if isinstance(value, SYMBOLIC_NUMBERS) or (isinstance(value, torch.Tensor) and not tensor_attributes.is_users(value, name)):
        return None
    source = source_of(session, value)
    if source is None or not was_written(session, value, name):
        return source
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    if is_written(session, kinds, name):
        read_classes(session, kinds, name)
        session.outside.read(AttributePlace(value, name))
    return None
