"""Attributes of objects, read and written as Python does: the user's methods for it, properties and descriptors, what an object has
itself, what its class has, ``__getattr__``.

What an object has itself may be there on some ways only. On the others its class gives the attribute, or the user's fallback.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.attributes import number_attributes, tensor_attributes
from dy2st.capture.attributes.class_attributes import (
    after,
    of_class,
    open_class,
    over_class,
    read_classes,
    read_descriptor,
)
from dy2st.capture.attributes.holders import holder_of, is_librarys, over_names, own_method
from dy2st.capture.attributes.reading import (
    asks_user,
    attempt,
    given_otherwise,
    guard_missing,
    has_other,
    plain,
    sometimes,
    unwritten_source,
)
from dy2st.capture.branching import keys, unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.diagnostics.attribution import is_users
from dy2st.capture.environment.users_code import as_written
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.torch_functions import backward
from dy2st.capture.types import absent_attributes, tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import OF_TABLES, AbstractTable, Represents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, Stale, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st.errors import CaptureError


def attr(value: Any, name: str) -> Any:
    """Return ``value.name``."""
    session = current()
    if session is None:
        return getattr(value, name)
    if keys.is_open(name):
        return over_names(session, name, lambda known: attr(value, known))
    if isinstance(value, TaggedUnion):
        if all(type(option) in _METHODS_ALONE and hasattr(type(option), name) for option in value.options.values()):
            return TaggedUnion(session, value.tag, {tag: attr(option, name) for tag, option in value.options.items()})
        return session.over(value, lambda option: attr(option, name))
    try:
        result = _attr(session, value, name)
    except AttributeError as error:
        if error.name is None and error.obj is None:  # as each read of an attribute in Python does
            error.name, error.obj = name, value
        raise
    return result.fail() if isinstance(value, AttributeError) and isinstance(result, Stale) else result


_METHODS_ALONE = frozenset((list, dict, set))
"""Classes whose objects have methods and no other attributes: nothing happens where one is read, of however many objects."""


def _attr(session: Session, value: Any, name: str) -> Any:
    value = holder_of(session, value, name)
    if isinstance(value, SYMBOLIC_NUMBERS):
        return number_attributes.read(session, value, name)
    if isinstance(value, torch.Tensor) and not tensor_attributes.is_users(value, name):
        return _of_tensor(session, value, name)
    if session.iterators.is_spent(value):
        session.iterators.fail_spent(value)
    if isinstance(value, Represents) and not (isinstance(value, AbstractTable) and name in OF_TABLES):
        return _of_represented(session, value, name)
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: attr(value, name))
    if isinstance(value, types.ModuleType) and (getter := _setting_of(value, name)) is not None:
        return session.call(getter)
    if isinstance(value, super):
        return _through_super(session, value, name)
    own_way = own_method(value, "__getattribute__")
    return plain(session, value, name) if own_way is None else _by_own_way(session, own_way, value, name)


def _setting_of(module: types.ModuleType, name: str) -> Callable[[], Any] | None:
    """Return what says how a setting is that a module of a library shows as its attribute."""
    described = storage.of_class(type(module), name) if type(module) is not types.ModuleType else None
    if isinstance(described, torch.backends.ContextProp):
        return described.getter  # type: ignore[no-any-return]
    return functools.partial(described.fget, module) if isinstance(described, property) and described.fget is not None else None


def _of_represented(session: Session, value: Represents, name: str) -> Any:
    """Return an attribute of what represents an object."""
    if not hasattr(value.example, name):
        raise raised(absent_attributes.error(value, name))
    if name in ("__class__", "__doc__"):
        return getattr(value.example, name)
    if not hasattr(value, name) and not isinstance(value, Text):  # which has an error of its own
        raise CaptureError(
            f"the attribute {name!r} of a {type(value.example).__name__} that the static function makes",
            session.here(),
            fix="loop over it, or keep what it gives in a list",
        )
    return plain(session, value, name)


def _of_tensor(session: Session, value: torch.Tensor, name: str) -> Any:
    """Return an attribute of a tensor."""
    if name in tensor_traits.OF_AUTOGRAD:
        session.note_question("whether a tensor requires a gradient")
        return tensor_traits.read(session, value, name)
    if name == "grad":
        return backward.get(session, value)
    if name == "_version":
        return session.number(torch.ops.aten._version.default, (session.outside.adopted(value),), "int")
    if tensor_traits.is_of_abstracts(value, name):
        raise raised(absent_attributes.error(value, name))
    if name in ("_base", "_is_view") and session.fakes.is_abstract(value) and tensor_traits.has_no_operation(value):
        raise CaptureError(
            "whether this tensor is a view, and of what, is known only when the program runs: it is an input, or one that a branch "
            "or loop gives",
            session.here(),
            fix="ask where the view is made, or outside of the static function",
        )
    return getattr(value, name) if name != "__class__" else session.call(type, value)


def attr_or(value: Any, name: str, default: Any) -> Any:
    """Return ``getattr(value, name, default)``."""
    session = need()
    if keys.is_open(name):
        return over_names(session, name, lambda known: attr_or(value, known, default))
    value = holder_of(session, value, name)
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: attr_or(option, name, default))
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: attr_or(value, name, default))
    own = sometimes(value, name)
    if own is not None and not has_other(value, name):
        there = unions.presence(own)
        return default if there is False else capture_if_exp(there, own.without_unbound, lambda: default)
    if own is not None and is_symbolic(unions.presence(own)):
        return capture_if_exp(unions.presence(own), own.without_unbound, lambda: given_otherwise(session, value, name, default))
    if asks_user(value, name):
        return attempt(session, lambda: attr(value, name), lambda: default)
    try:
        return attr(value, name)
    except AttributeError as error:
        if not is_users(session, error):
            raise
        guard_missing(session, value, name)
        return default


def has_attr(value: Any, name: str) -> Any:
    """Return ``hasattr(value, name)``."""
    session = need()
    if keys.is_open(name):
        return over_names(session, name, lambda known: has_attr(value, known))
    value = holder_of(session, value, name)
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: has_attr(option, name))
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: has_attr(value, name))
    if isinstance(value, torch.Tensor) and tensor_traits.is_of_abstracts(value, name):
        return False
    if isinstance(value, Represents):
        return hasattr(value.example, name)
    if isinstance(value, SYMBOLIC_NUMBERS):
        return number_attributes.has(session, value, name)
    own = sometimes(value, name)
    if own is not None and not has_other(value, name):
        return unions.presence(own)
    if own is not None and is_symbolic(there := unions.presence(own)):
        return capture_if_exp(there, lambda: True, lambda: given_otherwise(session, value, name, MISSING) is not MISSING)
    if own is not None or asks_user(value, name):
        return attempt(session, lambda: (attr(value, name), True)[1], lambda: False)
    return _has_plainly(session, value, name)


def _has_plainly(session: Session, value: Any, name: str) -> bool:
    """Tell whether there is an attribute, where no code of the user's decides."""
    there = hasattr(value, name)
    if not there:
        guard_missing(session, value, name)
    elif (source := unwritten_source(session, value, name)) is not None:
        session.tracker.guards.present(session.tracker.table.attribute(source, name))
    elif id(value) in session.allocations.created and storage.own(value, name) is MISSING:
        read_classes(session, type(value).__mro__, name)
    return there


def _by_own_way(session: Session, way: Any, value: Any, name: str) -> Any:
    """Return an object whose class says how attributes are read."""
    of_class(session, value, "__getattribute__")
    own = types.MethodType(way, value)
    fallback = own_method(value, "__getattr__")
    if fallback is None:
        return session.call(own, name)
    return attempt(session, lambda: session.call(own, name), lambda: session.call(types.MethodType(fallback, value), name))


def _through_super(session: Session, value: Any, name: str) -> Any:
    """Return ``super().name``."""
    bound, bases = value.__self__, after(value)
    described = next((vars(base)[name] for base in bases if name in vars(base)), MISSING)
    read_classes(session, itertools.takewhile(lambda base: name not in vars(base), bases), name)
    written = as_written(described)
    if written is not described:
        return types.MethodType(written, bound)
    if bound is value.__self_class__ or described is MISSING:
        return getattr(value, name)
    getter = storage.getter_of(described)
    if getter is not None and not is_librarys(getter):
        return session.call(types.MethodType(getter, bound))
    if isinstance(getattr(type(described), "__get__", None), types.FunctionType):
        read_descriptor(session, bases, name, described)
        return session.call(types.MethodType(type(described).__get__, described), bound, type(bound))
    return getattr(value, name)


# -- writing ---------------------------------------------------------------------------------------------------------------


# -- what there is -----------------------------------------------------------------------------------------------------------
