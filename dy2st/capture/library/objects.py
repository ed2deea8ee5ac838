"""Builtins that look at objects, or turn them into text."""

from __future__ import annotations

import abc
import collections
import functools
import inspect
import string
import types
import typing
from typing import Any

import torch

from dy2st.capture.attributes import assignment, attributes, class_attributes, reading
from dy2st.capture.branching import unions
from dy2st.capture.diagnostics.user_frames import FromUserFrames
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import is_library, is_users_function
from dy2st.capture.environment.written_out import Generator
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.looping.truth import truth
from dy2st.capture.objects import construction, hidden_state
from dy2st.capture.operators import identities, plain_identity
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text, wording
from dy2st.capture.types import tensor_traits
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.kinds import number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion
from dy2st.capture.writes.places import AttributePlace
from dy2st_runtime.primitives import control


@handles(isinstance, takes_unions=True)
def _isinstance(session: Session, value: Any, kinds: Any) -> Any:
    if isinstance(value, TaggedUnion):
        return unions.is_option(value, lambda option: bool(_isinstance(session, option, kinds)))
    if isinstance(kinds, TaggedUnion):
        return session.over(kinds, lambda option: _isinstance(session, value, option))
    if isinstance(kinds, tuple) and any(isinstance(kind, TaggedUnion) for kind in kinds):
        return session.call(any, [_isinstance(session, value, kind) for kind in kinds])
    if isinstance(value, SYMBOLIC_NUMBERS):
        if isinstance(1, kinds) is not isinstance(1.0, kinds):
            plain_identity.tell_kinds_apart(session, value)
        example = {"bool": True, "int": 1, "float": 1.0}[number_kind(value)]
        return isinstance(example, kinds) or isinstance(value, kinds)
    if isinstance(value, Generator):
        value = torch.Generator(value.device)
    if isinstance(value, torch.Tensor) and _tells_parameters(kinds):
        return issubclass(tensor_traits.asked_class(session, value), kinds)
    if isinstance(kinds, tuple) and any(map(_asks, kinds)):
        return session.call(any, [_isinstance(session, value, kind) for kind in kinds])
    if _asks(kinds) and type(value) is not kinds:
        return _said_by_class(session, value, kinds)
    example = value.example if isinstance(value, Represents) else value
    _guard_registered(session, torch.Tensor if isinstance(example, torch.Tensor) else type(example), kinds)
    return isinstance(example, kinds)


@handles(issubclass)
def _issubclass(session: Session, kind: Any, kinds: Any) -> bool:
    _guard_registered(session, kind, kinds)
    return issubclass(kind, kinds)


def _guard_registered(session: Session, kind: Any, kinds: Any) -> None:
    """Guard what abstract classes say of a class, which may be registered with them later, where one of both is the user's."""
    for one in kinds if isinstance(kinds, tuple) else (kinds,):
        both = kind, one
        if not isinstance(one, abc.ABCMeta) or not isinstance(kind, type) or any(map(session.outside.is_of_call, both)):
            continue
        if not all(is_library(part.__module__) for part in both):
            session.tracker.answer(issubclass, both, f"issubclass({kind.__qualname__}, {one.__qualname__})")


def _asks(kind: Any) -> bool:
    """Tell whether a class decides by code, or by attributes, what is an instance of it."""
    return isinstance(kind, type) and (_is_protocol(kind) or is_users_function(getattr(type(kind), "__instancecheck__", None)))


def _is_protocol(kind: Any) -> bool:
    return getattr(kind, "_is_protocol", False) and getattr(kind, "_is_runtime_protocol", False)


def _said_by_class(session: Session, value: Any, kind: Any) -> Any:
    if not _is_protocol(kind):
        return truth(session, session.call(types.MethodType(type(kind).__instancecheck__, kind), value))
    if kind in type(value.example if isinstance(value, Represents) else value).__mro__:
        return True
    return session.call(all, [attributes.has_attr(value, name) for name in typing._get_protocol_attrs(kind)])  # type: ignore[attr-defined]


def _tells_parameters(kinds: Any) -> bool:
    """Tell whether what ``isinstance`` says depends on more than that a value is a tensor."""
    given = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(isinstance(kind, type) and issubclass(kind, torch.Tensor) and kind is not torch.Tensor for kind in given)


@handles(type)
def _type(session: Session, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], SYMBOLIC_NUMBERS):
        plain_identity.tell_kinds_apart(session, args[0])
        return {"bool": bool, "int": int, "float": float}[number_kind(args[0])]
    if len(args) == 1 and isinstance(args[0], Generator):
        return torch.Generator
    if len(args) == 1 and isinstance(args[0], Represents):
        return type(args[0].example)
    if len(args) == 1 and isinstance(args[0], torch.Tensor):
        result = tensor_traits.asked_class(session, args[0])
        return torch.Tensor if result is torch.nn.Buffer else result  # a buffer is a tensor that says so
    return type(*args) if len(args) == 1 else construction.registered(session, FromUserFrames(session, type)(*args, **kwargs))


@handles(collections.namedtuple)
def _namedtuple(session: Session, *args: Any, **kwargs: Any) -> Any:
    return construction.registered(session, FromUserFrames(session, collections.namedtuple)(*args, **kwargs))


@handles(id, takes_unions=True)
def _id(session: Session, value: Any) -> Any:
    return identities.of(session, value)


@handles(getattr, takes_unions=True)
def _getattr(session: Session, value: Any, name: str, *default: Any) -> Any:
    return attributes.attr_or(value, name, default[0]) if default else attributes.attr(value, name)


@handles(hasattr, takes_unions=True)
def _hasattr(session: Session, value: Any, name: str) -> Any:
    return attributes.has_attr(value, name)


@handles(callable)
def _callable(session: Session, value: Any) -> bool:
    return callable(value.example if isinstance(value, Represents) else value)


@handles(vars)
def _vars(session: Session, value: Any) -> Any:
    if attributes.has_attr(value, "__dict__") is False:
        raise raised(TypeError("vars() argument must have __dict__ attribute"))
    return attributes.attr(value, "__dict__")


@handles(inspect.getattr_static)
def _getattr_static(session: Session, value: Any, name: str, *default: Any) -> Any:
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    if class_attributes.source_of(session, value) is not None:
        session.outside.read(AttributePlace(value, name))
    class_attributes.read_classes(session, kinds, name)
    return inspect.getattr_static(value, name, *default)


@handles(setattr)
def _setattr(session: Session, target: Any, name: str, value: Any) -> None:
    assignment.set_attr(target, name, value)


@handles(delattr)
def _delattr(session: Session, target: Any, name: str) -> None:
    assignment.del_attr(target, name)


@handles(object.__getattribute__, type.__getattribute__)
def _getattribute(session: Session, value: Any, name: str) -> Any:
    return reading.plain(session, value, name, fallback=False)


@handles(property.__get__)
def _property_get(session: Session, descriptor: Any, value: Any, kind: Any = None) -> Any:
    """Return what a property gives, for the ``__get__`` of a class made from it."""
    if value is None or descriptor.fget is None:
        return property.__get__(descriptor, value, kind)
    return session.call(descriptor.fget, value)


@handles(property.__set__)
def _property_set(session: Session, descriptor: Any, target: Any, value: Any) -> None:
    if descriptor.fset is None:
        property.__set__(descriptor, target, value)  # raises
    session.call(descriptor.fset, target, value)


@handles(property.__delete__)
def _property_delete(session: Session, descriptor: Any, target: Any) -> None:
    if descriptor.fdel is None:
        property.__delete__(descriptor, target)  # raises
    session.call(descriptor.fdel, target)


@handles(object.__setattr__)
def _object_setattr(session: Session, target: Any, name: str, value: Any) -> None:
    assignment.put(session, target, name, value, object.__setattr__)


@handles(type.__setattr__)
def _type_setattr(session: Session, target: Any, name: str, value: Any) -> None:
    assignment.put(session, target, name, value, type.__setattr__)


@handles(torch.nn.Module.__setattr__)
def _module_setattr(session: Session, target: Any, name: str, value: Any) -> None:
    assignment.put(session, target, name, value, torch.nn.Module.__setattr__)


@handles(object.__delattr__)
def _object_delattr(session: Session, target: Any, name: str) -> None:
    assignment.remove(session, target, name, object.__delattr__)


@handles(type.__delattr__)
def _type_delattr(session: Session, target: Any, name: str) -> None:
    assignment.remove(session, target, name, type.__delattr__)


@handles(torch.nn.Module.__delattr__)
def _module_delattr(session: Session, target: Any, name: str) -> None:
    assignment.remove(session, target, name, torch.nn.Module.__delattr__)


@handles(print, takes_unions=True)
def _print(
    session: Session, *values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False
) -> None:
    parts = text.joined(session, values, " " if sep is None else sep)
    if hidden_state.is_in_memory(session, file):
        session.call(file.write, text.create(session, (*parts, "\n" if end is None else end)))
        return
    if file is not None:
        line = wording.node_value(session, text.create(session, parts))
        session.builder.call(control.call_, (print, (line,), {"end": end, "file": file, "flush": flush}))
        return
    session.builder.call(control.print_, (parts, "\n" if end is None else end))


def _to_text(function: Any, conversion: str | None) -> Handler:
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if args and not kwargs and len(args) <= 1 + (conversion is None) and not wording.is_constant(args[0]):
            specification = args[1] if conversion is None and len(args) > 1 else ""
            return text.put_together(session, [(args[0], conversion, specification)])
        return function(*args, **kwargs)

    return handle


def _asked_as_it_is(function: Any, session: Session, *args: Any, **kwargs: Any) -> Any:
    """Return what puts the texts of its arguments next to each other, and does no more with them."""
    return text.create(session, wording.asked(lambda: function(*args, **kwargs)))


for _function in (string.Template.substitute, string.Template.safe_substitute):
    handles(_function)(functools.partial(_asked_as_it_is, _function))
handles(str, takes_unions=True)(_to_text(str, "s"))
handles(repr, takes_unions=True)(_to_text(repr, "r"))
handles(ascii, takes_unions=True)(_to_text(ascii, "a"))
handles(format)(_to_text(format, None))


def _of_whole(function: Any, specification: str) -> Handler:
    """Return what puts a whole number into words, of a number of the program by a format."""

    def handle(session: Session, value: Any) -> Any:
        number = session.to_number(value) if isinstance(value, torch.Tensor) and not value.is_floating_point() else value
        if not isinstance(number, torch.SymInt):
            return function(value)
        if function is chr:
            session.call(written_out.check_character, number)
        return text.put_together(session, [(number, None, specification)])

    return handle


for _in_words, _specification in ((hex, "#x"), (oct, "#o"), (bin, "#b"), (chr, "c")):
    handles(_in_words)(_of_whole(_in_words, _specification))


@handles(super)
def _super(session: Session, *args: Any) -> Any:
    """Return ``super(kind, obj)``: it takes hold of the object, and looks at nothing in it."""
    return super(*args)
