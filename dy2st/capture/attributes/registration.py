"""What modules register, as ``nn.Module.__setattr__`` does before a property or descriptor of the class is asked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables, written_attributes
from dy2st.capture.attributes.class_attributes import source_of
from dy2st.capture.attributes.holders import own_method
from dy2st.capture.environment import written_out
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined, options_of
from dy2st.capture.writes.places import AttributePlace
from dy2st.errors import CaptureError


def is_assigned(session: Session, module: torch.nn.Module, name: str, value: Any, assign: Callable[[Any], None]) -> bool:
    """Do what a module does by itself when an attribute is assigned.

    Args:
        assign: assigns one of several values.

    Returns:
        Whether that is all; else the attribute is assigned as that of any object.
    """
    if isinstance(value, torch.Tensor) and tensor_traits.CLASS in tensor_traits.mixed(value):
        tensor_traits.asked_class(session, value)  # a parameter on some ways is registered there
    if storage.is_kept_by_option(module, name, value):
        session.over(value, assign)
        return True
    place, held = AttributePlace(module, name), storage.own(module, name)
    if may_be_undefined(held) and storage.is_registered(module, name) and not _registers_anyway(module, value):
        written_attributes.by_presence(session, place, lambda: assign(value))
        return True
    written_attributes.check_table(session, module, name, value)
    table = storage.registers(module, name, next(iter(options_of(value))))
    if not table:
        return False
    module = attribute_tables.holder(session, module)
    source_of(session, module)
    if table not in module.__dict__ or (not isinstance(value, TaggedUnion) and storage.is_refused(module, name, value)):
        real = session.call(type, value)() if isinstance(value, SYMBOLIC_NUMBERS) else value
        torch.nn.Module.__setattr__(module, name, real)  # raises, before anything is done
    _prepare(session, module, name, value, table)
    setter: Any = torch.nn.Module.__setattr__
    if isinstance(value, TaggedUnion) or _asks_user(module, name):
        setter = functools.partial(storage.keep, table=table)  # the module itself asks what the value is, and its class
    written_attributes.write(session, module, name, value, setter)
    return True


def _prepare(session: Session, module: torch.nn.Module, name: str, value: Any, table: str) -> None:
    """Do what a module does before it has something in a table.

    Raises:
        CaptureError: a tensor decides whether that is in the module's dict, which comes before what the class has, or after it.
    """
    if storage.kept_in(module, name) == "__dict__" and session.blocks.nesting > 1 and _is_asked(module, name):
        raise CaptureError(
            f"a tensor decides where a module keeps its attribute '{name}', and its class has one of that name",
            session.here(),
            fix="register it in the same way in both branches, or under two names",
        )
    if table != "_buffers":
        note_persistence(session, module, name, is_persistent=True)
        _check_name(session, module, name, table)
        return
    is_persistent = name not in module.__dict__["_non_persistent_buffers_set"]
    if isinstance(value, torch.Tensor) and tensor_traits.class_of(value) is torch.nn.Buffer:
        is_persistent = bool(session.call(getattr, value, "persistent"))
        if not hasattr(value, "persistent"):
            value.persistent = is_persistent  # type: ignore[attr-defined]  # torch asks what stands for a buffer from outside
    _check_name(session, module, name, table)
    note_persistence(session, module, name, is_persistent)


def _registers_anyway(module: torch.nn.Module, value: Any) -> bool:
    """Tell whether a module registers a value under any name."""
    return all(storage.registers(module, "", option) for option in options_of(value))


def _asks_user(module: torch.nn.Module, name: str) -> bool:
    """Tell whether code of the user's runs where a module is asked if it has an attribute."""
    ways = ("__getattr__", "__getattribute__")
    return storage.is_code(storage.of_class(type(module), name)) or any(own_method(module, way) is not None for way in ways)


def _is_asked(module: torch.nn.Module, name: str) -> bool:
    """Tell whether the class of a module may say that there is an attribute."""
    return storage.of_class(type(module), name) is not MISSING or _asks_user(module, name)


def _check_name(session: Session, module: torch.nn.Module, name: str, table: str) -> None:
    """Do what a module does before it registers something: a parameter or buffer does not get the name of another attribute."""
    check_slot(session, module, name)
    if table == "_modules":
        return
    is_registered = name in module.__dict__[table]
    is_asked = _is_asked(module, name)
    if is_asked and table == "_parameters" and not is_registered and storage.own(module, name) is not MISSING:
        session.places.write(AttributePlace(module, name))
        storage.drop(module, name)  # torch takes out what is there before it asks
    if is_asked or (table == "_buffers" and name in module.__dict__):
        session.call(written_out.check_is_new, module, name, is_registered)
        if not is_registered and name in module.__dict__:
            raise _refused(session, module, name, "has an attribute")


def check_slot(session: Session, module: torch.nn.Module, name: str) -> None:
    """Check a module that registers something, or takes it out of its tables.

    Raises:
        CaptureError: the class has a slot of that name, which stays as it is.
    """
    if storage.is_slot(storage.of_class(type(module), name)):
        raise _refused(session, module, name, "has a slot")


def check_apart(session: Session, module: torch.nn.Module, name: str) -> None:
    """Check what ``object.__setattr__`` writes past a module.

    Raises:
        CaptureError: the module has something registered under the name, and would have both.
    """
    described = storage.of_class(type(module), name)
    if storage.is_registered(module, name) and not (storage.is_code(described) and storage.is_data(described)):
        raise _refused(session, module, name, "gets an attribute")


def _refused(session: Session, module: torch.nn.Module, name: str, what: str) -> CaptureError:
    return CaptureError(
        f"{type(module).__qualname__} {what} {name!r} beside a parameter, buffer or submodule of that name",
        session.here(),
        fix="delete one of them first, or give it another name",
    )


def note_persistence(session: Session, module: torch.nn.Module, name: str, is_persistent: bool) -> None:
    """Have a module know whether what it has under a name is a buffer that its ``state_dict`` leaves out."""
    if is_persistent is (name in module.__dict__["_non_persistent_buffers_set"]):
        session.call(written_out.note_persistence, module, name, is_persistent)
