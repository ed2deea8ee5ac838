"""Calls of classes: the metaclass, ``__new__`` and ``__init__`` of the user's are captured as other calls are."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, cast

import torch
from torch.utils._pytree import tree_leaves

from dy2st.capture.environment import written_out
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.standard_library import is_followed_class
from dy2st.capture.environment.users_code import is_converted_module, is_heap_type, is_library, is_skipped, is_users_function
from dy2st.capture.objects import cells, made_modules
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_classes, tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractTable, Represents
from dy2st.capture.values.symbolic import TaggedUnion

_ABSTRACT = frozenset({"builtins", "abc", "typing", "collections.abc", "_collections_abc"})
"""Modules of which the classes that a plain one may have as bases hold nothing."""
_NEW_CONTAINERS = (dict.__new__, list.__new__, collections.OrderedDict.__new__, collections.deque.__new__)
"""They make an empty one, whatever they get."""
Plainly = Callable[[Session, Any, Any, Any], Any]
"""Calls something as it is."""


def construct(session: Session, kind: type, args: Any, kwargs: Any, plainly: Plainly) -> Any:
    """Call a class."""
    session.tracker.met(kind)
    own_way = storage.of_class(type(kind), "__call__")
    if is_users_function(own_way):
        return session.call(types.MethodType(own_way, kind), *args, **kwargs)
    if own_way is vars(type)["__call__"]:
        return instantiate(session, kind, args, kwargs, plainly)
    return registered(session, plainly(session, kind, args, kwargs | _made_defaults(session, kind, args, kwargs)))


def instantiate(session: Session, kind: type, args: Any, kwargs: Any, plainly: Plainly) -> Any:
    """Return what ``type.__call__`` does."""
    new, init = cast(Any, kind).__new__, kind.__init__  # type: ignore[misc]
    is_error = issubclass(kind, BaseException) and isinstance(new, types.BuiltinFunctionType)
    if is_users_function(new) or (issubclass(kind, torch.Tensor) and tensor_classes.is_users(kind)):
        result = session.call(new, kind, *args, **kwargs)
        _initialize(session, kind, result, args, kwargs)
        return result
    is_container = new in _NEW_CONTAINERS and kind.__module__ != collections.__name__
    plain = (new is object.__new__ or is_error or is_container) and isinstance(init, types.FunctionType)
    if plain and not is_skipped(init) and session.operators.convert(cast(types.FunctionType, init)) is not None:
        result = registered(session, new(kind, *args) if is_error else new(kind))
        session.call(types.MethodType(init, result), *args, **kwargs)
        return _initialized(session, result, (args, kwargs))
    make = functools.partial(type.__call__, kind)
    made_first = new is object.__new__ or (is_container and is_generated(kind, init))
    if made_first and isinstance(init, types.FunctionType) and not _has_union(init, kind, args, kwargs):
        result = registered(session, new(kind))
        given = kwargs | _made_defaults(session, kind, args, kwargs)
        if is_generated(kind, init):
            init(result, *args, **given)  # it keeps what it gets, as a statement would
        else:
            plainly(session, types.MethodType(init, result), args, given)
        return _initialized(session, result, (args, kwargs))
    return completed(session, plainly(session, make, args, kwargs | _made_defaults(session, kind, args, kwargs)))


def completed(session: Session, value: Any) -> Any:
    """Return an object that has been made whole at once: by code that was not converted, or as a copy of another."""
    result = registered(session, value)
    cells.give_attributes(session, result)
    return result


def _initialized(session: Session, value: Any, given: Any) -> Any:
    """Return an object that is made, of what its ``__init__`` was given."""
    cells.give_attributes(session, value)
    if isinstance(value, torch.nn.Module):
        made_modules.own(session, value, given, registered)
    return value


def keeps(session: Session, function: types.FunctionType, args: Any, kwargs: Any) -> bool:
    """Call the ``__init__`` that ``dataclasses`` has written, if it is one that another function calls; it keeps what it gets."""
    kind = type(args[0]) if args else object
    fields = getattr(kind, "__dataclass_fields__", {})
    if function.__name__ != "__init__" or not fields or not is_generated(kind, function):
        return False
    if _has_union(function, kind, args[1:], kwargs):
        return False
    code = function.__code__
    if not {*code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]} <= fields.keys():
        return False
    function(*args, **(kwargs | _made_defaults(session, kind, args[1:], kwargs)))
    return True


def registered(session: Session, value: Any) -> Any:
    """Return an object that a class has made now; a constant may be older."""
    if not isinstance(value, (TaggedUnion, *CONSTANTS)) and session.tracker.source_of(value) is None:
        session.tracker.met(type(value))
        session.allocations.created[id(value)] = value
        session.allocations.own(value)
        if is_plain(type(value)):
            session.allocations.followed[id(value)] = value
    return value


def is_plain(kind: type) -> bool:
    """Tell whether objects of a class are no more than their attributes: another one with the same is as good."""
    steps = getattr(kind, "__next__", None)  # an iterator written in Python has no other state than its attributes
    if kind is object or issubclass(kind, torch.nn.Module) or hasattr(kind, "__del__"):
        return False
    if steps is not None and not isinstance(steps, types.FunctionType):
        return False
    bases = [base for base in kind.__mro__ if base.__module__ not in _ABSTRACT and not _is_mark(base)]
    made_by_class = all(base is object or is_heap_type(base) for base in kind.__mro__)
    return made_by_class and not any(_is_unknown(base) for base in bases)


def is_record(kind: type) -> bool:
    """Tell whether objects of a class are no more than what is in them: they are plain ones, named tuples or sizes."""
    return is_plain(kind) or kind is torch.Size or (issubclass(kind, tuple) and is_named_tuple(kind))


def _is_mark(kind: type) -> bool:
    """Tell whether a class has nothing of its own, and marks what stands for something during a capture."""
    return kind is Represents or kind in (AbstractTable, AbstractKeys)


def _is_unknown(kind: type) -> bool:
    """Tell whether a class is of a library whose methods are called as they are, or stands for one during a capture only."""
    is_converted = is_converted_module(kind.__module__) and kind.__module__ != written_out.__name__
    return is_library(kind.__module__) and not (is_followed_class(kind) or is_converted)


def is_generated(kind: type, init: Any) -> bool:
    """Tell whether an ``__init__`` is the one that ``dataclasses`` writes."""
    return dataclasses.is_dataclass(kind) and isinstance(init, types.FunctionType) and init.__code__.co_filename == "<string>"


def is_named_tuple(kind: type) -> bool:
    """Tell whether objects of a class are made by the ``__new__`` that ``collections.namedtuple`` writes, and by nothing else."""
    return is_written_new(kind, cast(Any, kind).__new__) and cast(Any, kind).__init__ is object.__init__


def is_written_new(kind: type, new: Any) -> bool:
    """Tell whether a function is the ``__new__`` that ``collections.namedtuple`` writes, of a class or one of its bases."""
    is_written = isinstance(new, types.FunctionType) and new.__code__.co_filename.startswith("<string>")
    return is_written and new.__name__ == "__new__" and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _has_union(init: Any, kind: type, args: Any, kwargs: Any) -> bool:
    """Tell whether an argument is one of several: then an object is made for each."""
    given = (*args, *kwargs.values())
    return any(isinstance(part, TaggedUnion) for part in (given if is_generated(kind, init) else tree_leaves(given)))


def _initialize(session: Session, kind: type, value: Any, args: Any, kwargs: Any) -> None:
    if isinstance(value, TaggedUnion):
        session.over(value, lambda option: _initialize(session, kind, option, args, kwargs))
    elif isinstance(value, kind):
        init: Any = (tensor_traits.users_class(value) or type(value)).__init__  # type: ignore[misc]
        if init is object.__init__ and isinstance(value, torch.Tensor):
            return
        if isinstance(init, types.FunctionType):
            session.call(types.MethodType(init, value), *args, **kwargs)
        else:
            init(value, *args, **kwargs)


def _made_defaults(session: Session, kind: type, args: Any, kwargs: Any) -> dict[str, Any]:
    """Fields of a dataclass that a function makes when they are not given: what it makes is an object of this call."""
    makers: dict[str, Any] = {
        field.name: field.default_factory
        for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if field.init and field.default_factory is not dataclasses.MISSING
    }
    if not makers:
        return {}
    try:
        given = inspect.signature(kind).bind(*args, **kwargs).arguments
    except TypeError:
        return {}  # the call itself says what is wrong with it
    return {name: session.call(maker) for name, maker in makers.items() if name not in given}
