"""Attributes that are set and deleted."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables, tensor_attributes
from dy2st.capture.attributes.class_attributes import (
    of_class,
    read_descriptor,
    source_of,
)
from dy2st.capture.attributes.holders import holder_of, is_librarys, over_names, own_method
from dy2st.capture.branching import keys, unions
from dy2st.capture.objects import cells
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined
from dy2st.capture.writes.places import AttributePlace
from dy2st.errors import CaptureError
from dy2st_runtime.primitives.cells import Cell


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
    if _of_user(session, target, name, "fset", "__set__", value) or _is_setting(session, target, name, value):
        return
    if isinstance(target, torch.nn.Module) and storage.is_kept_by_option(target, name, value):
        session.over(value, lambda option: put(session, target, name, option, setter))
        return
    if name == "__dict__" and isinstance(value, dict) and storage.table_of(target) is not None:
        attribute_tables.replace(session, target, value)
        return
    if not storage.is_data(storage.of_class(type(target), name)):
        target = attribute_tables.holder(session, target)
    source_of(session, target)  # a class comes from outside even if nothing of it has been read
    held = storage.own(target, name)
    if type(held) is Cell:
        cells.write(session, held, value)
        return
    session.places.write(AttributePlace(target, name))
    held_in = [table for table in storage.tables(target) if name in table]
    for table in held_in:
        session.blocks.key_orders.write(table, name, unions.where_there)
    if isinstance(target, torch.Tensor):
        tensor_attributes.written(session, target, name)
    if isinstance(target, torch.nn.Module):
        _check_table(session, target, name, value)
        setter = storage.keep if isinstance(value, TaggedUnion) else setter  # the module itself asks what the value is
    (setter or setattr)(target, name, value)
    _taken_out(session, held_in, name)


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


def _check_table(session: Session, module: torch.nn.Module, name: str, value: Any) -> None:
    """Check a module: it keeps what it does not register where it has something of that name.

    Raises:
        CaptureError: a tensor decides where that is.
    """
    held = storage.own(module, name)
    if not isinstance(held, TaggedUnion) or storage.may_register(value) or not storage.may_register(held):
        return
    if all(map(storage.may_register, held.options.values())):
        return
    key = AttributePlace(module, name).key
    if any(entry.kept_in == "__dict__" and entry.place.key == key for entry in session.blocks.entries()):
        raise CaptureError(
            f"a tensor decides where a module keeps its attribute '{name}', and the attribute is assigned again",
            session.here(),
            fix="register it in the same way in both branches, or under two names",
        )


def _taken_out(session: Session, tables: Iterable[dict[str, Any]], name: str) -> None:
    """Note that an attribute was in some dicts: if it comes back to one that does not have it any more, it comes last."""
    for table in tables:
        if name not in table:
            session.blocks.key_orders.taken_out(table, name)


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
    if _of_user(session, target, name, "fdel", "__delete__"):
        return
    if not storage.is_data(described):
        target = attribute_tables.holder(session, target)
    held = storage.own(target, name)
    if may_be_undefined(held):
        unions.certain(held)
    source_of(session, target)
    session.outside.ask_presence(AttributePlace(target, name))
    session.places.write(AttributePlace(target, name))
    held_in = [table for table in storage.tables(target) if name in table]
    deleter(target, name)
    _taken_out(session, held_in, name)


def _of_user(session: Session, target: Any, name: str, part: str, method: str, *values: Any) -> bool:
    """Let a property or descriptor of the user's do it; says whether there is one."""
    described = storage.of_class(type(target), name)
    if isinstance(described, property):
        function = getattr(described, part)
        if function is None or is_librarys(function):
            return False
        session.call(types.MethodType(function, target), *values)
        return True
    written = getattr(type(described), method, None)
    if not isinstance(written, types.FunctionType) or is_librarys(written):
        return False
    read_descriptor(session, type(target).__mro__, name, described)
    session.call(types.MethodType(written, described), target, *values)
    return True
