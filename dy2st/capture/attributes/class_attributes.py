"""What classes give their objects: looked up as Python does, guarded, and taken apart where it is there on some ways only."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st.capture.branching import unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.users_code import definition, is_library, module_of, user_method
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, may_be_undefined
from dy2st.capture.writes.places import AttributePlace

LIBRARIES = ("torch", "numpy", "math", "builtins", "operator", "functools", "itertools", "collections", "typing", "dy2st")


def _is_constant(module: str) -> bool:
    """Tell whether what a module holds stays; settings of torch's backends do not."""
    return module.partition(".")[0] in LIBRARIES and not module.startswith("torch.backends.")


def source_of(session: Session, value: Any) -> Any:
    """Return where an object comes from whose attributes are guarded; ``None`` for one of the capture, and for libraries."""
    if isinstance(value, types.ModuleType) and _is_constant(value.__name__):
        return None
    source = session.tracker.source_of(value)
    if (
        source is None
        and isinstance(value, (torch.nn.Module, type, types.ModuleType))
        and id(value) not in session.allocations.created
    ):
        source = session.tracker.table.held(value, getattr(value, "__name__", type(value).__name__))
        session.tracker.read(value, source)
    return source


def of_class(session: Session, value: Any, name: str) -> None:
    """Python itself has looked up a method or property in the class of a value."""
    kind = type(value)
    if is_written(session, kind.__mro__, name):
        read_classes(session, kind.__mro__, name)
        return
    if session.tracker.source_of(value) is not None or not (is_library(kind.__module__) or source_of(session, kind) is None):
        table, written = session.tracker.table, user_method(kind, name)
        if written is None:
            step = table.attribute(table.held(kind, kind.__qualname__), name)
        else:
            step = table.attribute(table.held(definition(kind, name), f"{kind.__qualname__}.{name}"), "method")
        result = written or inspect.getattr_static(kind, name)
        session.tracker.guards.same(step, getattr(kind, name) if isinstance(result, (classmethod, staticmethod)) else result)


def call_own(session: Session, value: Any, name: str, *args: Any) -> Any:
    """Call the method that the class of a value has in Python, as an operator or a function in C does."""
    of_class(session, value, name)
    return session.call(types.MethodType(getattr(type(value), name), value), *args)


def read_descriptor(session: Session, kinds: Iterable[type], name: str, descriptor: Any) -> None:
    """Note that a descriptor of some classes is asked: it comes from outside as they do, and so does what it holds."""
    kind = next(kind for kind in kinds if name in vars(kind))
    read_classes(session, kinds, name)
    if is_written(session, kinds, name) or source_of(session, kind) is None:
        return
    table = session.tracker.table
    source = table.item(table.attribute(table.held(kind, kind.__qualname__), "__dict__"), name, f"{kind.__qualname__}.{name}")
    session.tracker.guards.same(source, descriptor)
    if is_library(type(descriptor).__module__) and not isinstance(descriptor, property):
        return
    session.tracker.know(descriptor, source)
    if isinstance(descriptor, property) and not isinstance(descriptor.fget, types.FunctionType):
        session.tracker.read(descriptor.fget, table.attribute(source, "fget"))


def open_class(value: Any, name: str) -> type | None:
    """Return the class that gives an object an attribute on some ways only."""
    if isinstance(value, (torch.Tensor, AbstractObject, *SYMBOLIC_NUMBERS)):
        return None
    kinds = type(value).__mro__
    if isinstance(value, super):
        kinds = after(value)
    elif isinstance(value, type):
        kinds = value.__mro__[1:]
    kind = next((kind for kind in kinds if name in vars(kind)), None)
    if kind is None or not may_be_undefined(vars(kind)[name]):
        return None
    own = MISSING if isinstance(value, super) else storage.own(value, name)
    return kind if own is MISSING or may_be_undefined(own) or storage.is_hidden(value, name) else None


def after(value: Any) -> tuple[type, ...]:
    """Return the classes in which ``super()`` looks."""
    mro: tuple[type, ...] = value.__self_class__.__mro__
    return mro[mro.index(value.__thisclass__) + 1 :]


def over_class(session: Session, kind: type, name: str, use: Callable[[], Any]) -> Any:
    """Do something once with the attribute of a class that is there on some ways only, and once without."""
    place = AttributePlace(kind, name)
    held = place.read()

    def once(known: Any) -> Any:
        session.places.write(place)
        place.write(known)
        return use()

    there = unions.presence(held)
    if there is False:
        return once(MISSING)
    return capture_if_exp(there, lambda: once(held.without_unbound()), lambda: once(MISSING))


# -- what the code has written -------------------------------------------------------------------------------------------


def is_written(session: Session, kinds: Iterable[type], name: str) -> bool:
    """Tell whether the captured code has written an attribute of some classes."""
    return any(session.blocks.was_written(AttributePlace(kind, name).key) for kind in kinds)


def was_written(session: Session, value: Any, name: str) -> bool:
    """Tell whether the captured code has written an attribute of an object, or that of the class which gives it."""
    if session.blocks.was_written(AttributePlace(value, name).key):
        return True
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    holder = next((place for place, kind in enumerate(kinds) if name in vars(kind)), len(kinds))
    return is_written(session, kinds[: holder + 1], name)


def read_classes(session: Session, kinds: Iterable[type], name: str) -> None:
    """Guard an attribute for which the code looks, and of which some classes had it written.

    What the others hold is guarded, class by class.
    """
    for kind in kinds:
        if module_of(kind).partition(".")[0] in LIBRARIES:
            return
        source = source_of(session, kind)
        if source is not None:
            table = session.tracker.table
            held = table.item(table.attribute(source, "__dict__"), name, f"{source.name}.{name}")
            session.outside.read(AttributePlace(kind, name), held)
        if name in vars(kind) and not may_be_undefined(vars(kind)[name]):
            return
