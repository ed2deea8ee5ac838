"""Attributes that are set and deleted."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables, registration, tensor_attributes, written_attributes
from dy2st.capture.attributes.class_attributes import (
    of_class,
    read_descriptor,
    source_of,
)
from dy2st.capture.attributes.holders import holder_of, is_librarys, over_names, own_method
from dy2st.capture.branching import keys, unions
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined
from dy2st.capture.writes.places import AttributePlace


def set_attr(target: Any, name: str, value: Any) -> None:
    """Do ``target.name = value``."""
    session = current()
    if session is not None and keys.is_open(name):
        over_names(session, name, lambda known: set_attr(target, known, value))
        return
    if session is None or (isinstance(target, torch.Tensor) and not tensor_attributes.is_users(target, name)):
        setattr(target, name, value)
        return
    if isinstance(target, TaggedUnion):
        session.over(target, lambda option: set_attr(option, name, value))
        return
    target = holder_of(session, target, name)
    own_way = own_method(target, "__setattr__")
    if own_way is None:
        put(session, target, name, value)
    else:
        of_class(session, target, "__setattr__")
        session.call(types.MethodType(own_way, target), name, value)


def put(session: Session, target: Any, name: str, value: Any, setter: Callable[[Any, str, Any], None] | None = None) -> None:
    """Do what ``object.__setattr__`` does.

    Args:
        setter: what was called for it, where that is no statement.
    """
    if isinstance(target, (Represents, *SYMBOLIC_NUMBERS)):
        _refused_as_eager(session, target, lambda real: setattr(real, name, value))
    if isinstance(target, torch.nn.Module):
        if setter is object.__setattr__:
            registration.check_apart(session, target, name)
        elif registration.is_assigned(session, target, name, value, lambda option: put(session, target, name, option, setter)):
            return
    if _of_user(session, target, name, "fset", "__set__", value) or _is_setting(session, target, name, value):
        return
    if name == "__dict__" and isinstance(value, dict) and storage.table_of(target) is not None:
        attribute_tables.replace(session, target, value)
        return
    if not storage.is_data(storage.of_class(type(target), name)):
        target = attribute_tables.holder(session, target)
    source_of(session, target)  # a class comes from outside even if nothing of it has been read
    written_attributes.write(session, target, name, value, setter or setattr)


def _is_setting(session: Session, module: Any, name: str, value: Any) -> bool:
    """Change what a module of a library shows as its attribute: it is changed there and then, not at the end of the program."""
    if not isinstance(module, types.ModuleType):
        return False
    described = storage.of_class(type(module), name)
    if isinstance(described, torch.backends.ContextProp) and not torch.backends.flags_frozen():
        session.call(described.setter, value)
    elif isinstance(described, property) and described.fset is not None:
        session.call(described.fset, module, value)
    else:
        return False
    return True


def _refused_as_eager(session: Session, target: Any, change: Callable[[Any], None]) -> None:
    """Refuse as eager does: what is represented has no attributes that may change: raise what such an object raises."""
    try:
        change(target.example if isinstance(target, Represents) else session.call(type, target)())
    except AttributeError as error:
        raise raised(error.with_traceback(None)) from None


def del_attr(target: Any, name: str) -> None:
    """Do ``del target.name``."""
    session = current()
    if session is None:
        delattr(target, name)
        return
    if keys.is_open(name):
        over_names(session, name, lambda known: del_attr(target, known))
        return
    if isinstance(target, TaggedUnion):
        session.over(target, lambda option: del_attr(option, name))
        return
    target = holder_of(session, target, name)
    own_way = own_method(target, "__delattr__")
    if own_way is None:
        remove(session, target, name)
    else:
        of_class(session, target, "__delattr__")
        session.call(types.MethodType(own_way, target), name)


def remove(session: Session, target: Any, name: str, deleter: Callable[[Any, str], None] = delattr) -> None:
    """Do what ``object.__delattr__`` does."""
    if isinstance(target, (Represents, *SYMBOLIC_NUMBERS)):
        _refused_as_eager(session, target, lambda real: delattr(real, name))
    described = storage.of_class(type(target), name)
    registered = deleter is not object.__delattr__ and storage.is_registered(target, name)
    if registered:
        registration.check_slot(session, target, name)
    if registered and described is not MISSING and may_be_undefined(storage.own(target, name)):
        place = AttributePlace(target, name)
        written_attributes.by_presence(session, place, lambda: remove(session, target, name, deleter))
        return
    if not registered and _of_user(session, target, name, "fdel", "__delete__"):
        return
    if not storage.is_data(described):
        target = attribute_tables.holder(session, target)
    held = storage.own(target, name)
    if may_be_undefined(held):
        unions.certain(held)
    source_of(session, target)
    if registered and storage.kept_in(target, name) == "_buffers":
        registration.note_persistence(session, target, name, is_persistent=True)
    written_attributes.delete(session, target, name, deleter)


def _of_user(session: Session, target: Any, name: str, part: str, method: str, *values: Any) -> bool:
    """Let a property or descriptor of the user's do it; says whether there is one."""
    described = storage.of_class(type(target), name)
    written = getattr(type(described), method, None)
    if isinstance(described, property) and not isinstance(written, types.FunctionType):
        function = getattr(described, part)
        if function is None:
            getattr(described, method)(target, *values)  # raises
        if is_librarys(function):
            return False
        session.call(types.MethodType(function, target), *values)
        return True
    if not isinstance(written, types.FunctionType) or is_librarys(written):
        return False
    read_descriptor(session, type(target).__mro__, name, described)
    session.call(types.MethodType(written, described), target, *values)
    return True
