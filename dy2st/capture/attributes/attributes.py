"""Attributes of objects, read and written as Python does: the user's methods for it, properties and descriptors, what an object has
itself, what its class has, ``__getattr__``.

What an object has itself may be there on some ways only. On the others its class gives the attribute, or the user's fallback.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st.capture.attributes import attribute_tables, tensor_attributes
from dy2st.capture.attributes.class_attributes import (
    LIBRARIES,
    after,
    is_written,
    of_class,
    open_class,
    over_class,
    read_classes,
    read_descriptor,
    source_of,
    was_written,
)
from dy2st.capture.branching import keys, unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.diagnostics.attribution import is_users
from dy2st.capture.environment import written_out
from dy2st.capture.environment.sources import Source, behind
from dy2st.capture.environment.standard_library import is_followed
from dy2st.capture.environment.users_code import as_written, is_library, is_users_function
from dy2st.capture.objects import cells
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.torch_functions import replacements
from dy2st.capture.types import absent_attributes, tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, AbstractObject, Stale, TaggedUnion, is_symbolic, may_be_undefined
from dy2st.capture.writes.places import AttributePlace
from dy2st.errors import CaptureError
from dy2st_runtime.primitives.cells import Cell

_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)
_CONTAINERS = (dict, list, tuple, set, frozenset)
"""Classes whose methods may be those of a class of the user's under another name."""


def attr(value: Any, name: str) -> Any:
    """``value.name``."""
    session = current()
    if session is None:
        return getattr(value, name)
    if keys.is_open(name):
        return _over_names(session, name, lambda known: attr(value, known))
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: attr(option, name))
    try:
        found = _attr(session, value, name)
    except AttributeError as error:
        if error.name is None and error.obj is None:  # as each read of an attribute in Python does
            error.name, error.obj = name, value
        raise
    return found.fail() if isinstance(value, AttributeError) and isinstance(found, Stale) else found


def _attr(session: Session, value: Any, name: str) -> Any:
    value = _holder(session, value, name)
    if isinstance(value, SYMBOLIC_NUMBERS) or (isinstance(value, torch.Tensor) and not tensor_attributes.is_users(value, name)):
        return _of_tensor(session, value, name)
    if session.iterators.is_spent(value):
        raise spent(session)
    if isinstance(value, AbstractObject) and not hasattr(absent_attributes.stood_for(value), name):
        raise raised(absent_attributes.error(value, name))
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: attr(value, name))
    if isinstance(value, super):
        return _through_super(session, value, name)
    own_way = _method(value, "__getattribute__")
    return plain(session, value, name) if own_way is None else _by_own_way(session, own_way, value, name)


def _holder(session: Session, value: Any, name: str) -> Any:
    """What holds an attribute of a value during the capture."""
    value = behind(value)
    return tensor_attributes.holder(session, value, name) if tensor_attributes.is_users(value, name) else value


def _of_tensor(session: Session, value: Any, name: str) -> Any:
    """An attribute of a tensor or number."""
    if name in tensor_traits.OF_AUTOGRAD and isinstance(value, torch.Tensor):
        session.note_question("whether a tensor requires a gradient")
        return tensor_traits.read(session, value, name)
    if name == "_version" and isinstance(value, torch.Tensor):
        return session.number(torch.ops.aten._version.default, (session.outside.adopted(value),), "int")
    if isinstance(value, torch.Tensor) and tensor_traits.is_of_abstracts(value, name):
        raise raised(absent_attributes.error(value, name))
    if name in ("_base", "_is_view") and session.fakes.is_abstract(value) and tensor_traits.is_made(value):
        raise CaptureError(
            "whether this tensor is a view, and of what, is known only when the program runs: it is an input, or one that a branch "
            "or loop gives",
            session.here(),
            fix="ask where the view is made, or outside of the static function",
        )
    if isinstance(value, torch.SymFloat):
        session.call(isinstance, value, int)  # each kind of number has other attributes
    return getattr(value, name) if name != "__class__" else session.call(type, value)


def _over_names(session: Session, name: Any, use: Callable[[Any], Any]) -> Any:
    """Do something with an attribute, once for each that it may be."""

    def known(one: Any) -> Any:
        if keys.is_open(one):
            raise keys.refused(session, one, "is the name of an attribute")
        return use(one)

    return keys.over(session, name, known)


def spent(session: Session) -> CaptureError:
    """The error for the use of an iterator from which a tensor decides how many items have been taken."""
    return CaptureError(
        "this uses an iterator from which a tensor decides how many items have been taken",
        session.here(),
        fix="loop over a list by position, or collect the items in a list first",
    )


def attr_or(value: Any, name: str, default: Any) -> Any:
    """``getattr(value, name, default)``."""
    session = need()
    if keys.is_open(name):
        return _over_names(session, name, lambda known: attr_or(value, known, default))
    value = _holder(session, value, name)
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: attr_or(option, name, default))
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: attr_or(value, name, default))
    own = _sometimes(value, name)
    if own is not None and not _has_other(value, name):
        there = unions.presence(own)
        return default if there is False else capture_if_exp(there, own.without_unbound, lambda: default)
    if own is not None and is_symbolic(unions.presence(own)):
        return capture_if_exp(unions.presence(own), own.without_unbound, lambda: _given_otherwise(session, value, name, default))
    if _asks_user(value, name):
        return _or(session, lambda: attr(value, name), lambda: default)
    try:
        return attr(value, name)
    except AttributeError as error:
        if not is_users(session, error):
            raise
        _guard_missing(session, value, name)
        return default


def _given_otherwise(session: Session, value: Any, name: str, default: Any) -> Any:
    """What an object gives for an attribute that it does not have itself."""
    return _or(session, lambda: _otherwise(session, value, storage.of_class(type(value), name), name), lambda: default)


def _or(session: Session, step: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """What the user's code gives for an attribute, or something else where it says that there is none."""
    return session.call(written_out.attempted, step, AttributeError, otherwise)


def has_attr(value: Any, name: str) -> Any:
    """``hasattr(value, name)``."""
    session = need()
    if keys.is_open(name):
        return _over_names(session, name, lambda known: has_attr(value, known))
    value = _holder(session, value, name)
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: has_attr(option, name))
    kind = open_class(value, name)
    if kind is not None:
        return over_class(session, kind, name, lambda: has_attr(value, name))
    if isinstance(value, torch.Tensor) and tensor_traits.is_of_abstracts(value, name):
        return False
    if isinstance(value, AbstractObject):
        return hasattr(absent_attributes.stood_for(value), name)
    own = _sometimes(value, name)
    if own is not None and not _has_other(value, name):
        return unions.presence(own)
    if own is not None and is_symbolic(there := unions.presence(own)):
        return capture_if_exp(there, lambda: True, lambda: _given_otherwise(session, value, name, MISSING) is not MISSING)
    if own is not None or _asks_user(value, name):
        return _or(session, lambda: (attr(value, name), True)[1], lambda: False)
    return _has_plainly(session, value, name)


def _has_plainly(session: Session, value: Any, name: str) -> bool:
    """Whether there is an attribute, where no code of the user's decides."""
    there = hasattr(value, name)
    if not there:
        _guard_missing(session, value, name)
    elif (source := _unwritten_source(session, value, name)) is not None:
        session.tracker.guards.present(session.tracker.table.attribute(source, name))
    return there


def plain(session: Session, value: Any, name: str, fallback: bool = True) -> Any:
    """What ``object.__getattribute__`` gives, and after it the fallback, if the class has one."""
    described = storage.of_class(type(value), name)
    if storage.is_data(described) and not storage.is_slot(described):
        return _of_class_first(session, value, described, name, fallback)
    value = attribute_tables.holder(session, value)
    held = storage.own(value, name)
    if type(held) is Cell:
        return cells.read(session, held)
    if may_be_undefined(held):
        there = unions.presence(held)
        if not _has_other(value, name):
            return unions.certain(held, name=name, obj=value)
        other = functools.partial(_otherwise, session, value, described, name, fallback)
        return other() if there is False else capture_if_exp(there, held.without_unbound, other)
    if held is MISSING or (fallback and _is_hidden_table_entry(value, name)):
        return _otherwise(session, value, described, name, fallback)
    if isinstance(value, type):
        return _read_plainly(session, value, name)
    if not isinstance(value, AbstractObject) and source_of(session, value) is not None:
        session.outside.read(AttributePlace(value, name))
        held = storage.own(value, name)  # a number that is an input stands there by now
    elif isinstance(value, types.ModuleType):
        replacements.read(session, value, name, held)
    if name in storage.MODULE_TABLES and isinstance(value, torch.nn.Module):
        attribute_tables.know(session, value, held)
    return held


def _is_hidden_table_entry(value: Any, name: str) -> bool:
    """Whether a module has an attribute in one of its tables, and the user's fallback decides what it gives."""
    if not isinstance(value, torch.nn.Module) or name in vars(value):
        return False
    return _method(value, "__getattr__") is not None


def _by_own_way(session: Session, way: Any, value: Any, name: str) -> Any:
    """An object whose class says how attributes are read."""
    of_class(session, value, "__getattribute__")
    own = types.MethodType(way, value)
    fallback = _method(value, "__getattr__")
    if fallback is None:
        return session.call(own, name)
    return _or(session, lambda: session.call(own, name), lambda: session.call(types.MethodType(fallback, value), name))


def _otherwise(session: Session, value: Any, described: Any, name: str, fallback: bool = True) -> Any:
    """An attribute that an object does not have itself."""
    if isinstance(value, type) and (described is MISSING or any(name in vars(base) for base in value.__mro__[1:])):
        return _of_bases(session, value, name)
    if described is not MISSING and not storage.is_slot(described):
        return _of_class_first(session, value, described, name, fallback)
    method = _method(value, "__getattr__") if fallback else None
    if method is not None:
        of_class(session, value, "__getattr__")
        source = _unwritten_source(session, value, name)
        if source is not None:
            session.tracker.guards.missing(session.tracker.table.plain_attribute(source, name))
        return session.call(types.MethodType(method, value), name)
    if fallback:
        return _read_plainly(session, value, name)
    return object.__getattribute__(value, name)


def _of_class_first(session: Session, value: Any, described: Any, name: str, has_fallback: bool) -> Any:
    """An attribute that the class defines, and where its code says that there is none what ``__getattr__`` gives."""
    fallback = as_written(storage.of_class(type(value), "__getattr__")) if has_fallback else None
    if not isinstance(fallback, types.FunctionType) or not _asks_user(value, name):
        return _of_class(session, value, described, name)

    def otherwise() -> Any:
        if fallback is torch.nn.Module.__getattr__:
            raise raised(absent_attributes.error(value, name))
        of_class(session, value, "__getattr__")
        return session.call(types.MethodType(fallback, value), name)

    return _or(session, lambda: _of_class(session, value, described, name), otherwise)


def _of_bases(session: Session, kind: type, name: str) -> Any:
    """An attribute of a class that is one of a base, or of its own class."""
    base = next((base for base in kind.__mro__[1:] if name in vars(base)), None)
    written = is_written(session, kind.__mro__, name)
    if written:
        read_classes(session, kind.__mro__, name)
    if base is None or not written:
        return _read_plainly(session, kind, name)
    described = vars(base)[name]
    made = described.__get__(None, kind) if hasattr(type(described), "__get__") else described
    return unions.certain(made, name=name, obj=kind) if may_be_undefined(made) else made


def _read_plainly(session: Session, value: Any, name: str) -> Any:
    source = None if isinstance(value, AbstractObject) else source_of(session, value)
    try:
        found = getattr(value, name)
    except AttributeError:
        _guard_missing(session, value, name)
        if isinstance(value, torch.Tensor):
            raise raised(absent_attributes.error(value, name)) from None
        raise
    if source is not None and not was_written(session, value, name):
        _read_given(session, value, name, found, source)
        found = getattr(value, name)  # a number that is an input stands there by now
    return found


def _read_given(session: Session, value: Any, name: str, found: Any, source: Source) -> None:
    """An attribute is read that comes from outside, be it the object's own or one of its class."""
    place, table = AttributePlace(value, name), session.tracker.table
    given = table.attribute(source, name)
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    kind = next((kind for kind in kinds if name in vars(kind)), None)
    if given.name in session.tracker.dynamic and kind is not None and place.read() is MISSING:
        session.tracker.guards.missing(table.item(table.attribute(source, "__dict__"), name, given.name))
        place = AttributePlace(kind, name)  # an object that gets one of its own on some ways only has none on the others
    session.outside.read_at(place, found, given)


def _of_class(session: Session, value: Any, described: Any, name: str) -> Any:
    """What the class of an object makes of an attribute that it defines."""
    if isinstance(described, TaggedUnion):
        return session.over(described, lambda option: _of_class(session, value, option, name))
    getter = described.fget if isinstance(described, property) else None
    in_c = getter is not None and not isinstance(getter, types.FunctionType) and not is_library(type(value).__module__)
    if getter is not None and (in_c or not _is_librarys(getter)):
        of_class(session, value, name)
        if not isinstance(getter, types.FunctionType):
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
    """What the class holds for an object that has nothing of its own, or what a library computes."""
    source = None if isinstance(value, AbstractObject) else source_of(session, value)
    if name == "__dict__" and attribute_tables.has(value):
        return attribute_tables.read(session, value, source)
    if name == "__dict__" and isinstance(value, type) and source is not None:
        return attribute_tables.of_class(session, value, source)
    if source is None and not isinstance(value, types.ModuleType) and described is not MISSING:
        return _of_made_object(session, value, described, name)
    get = getattr if _method(value, "__getattribute__") is None else object.__getattribute__
    found = get(value, name)
    if source is not None:
        _read_given(session, value, name, found, source)
        found = get(value, name) if type(found) in (bool, int, float) else found  # an input may stand there by now
    return unions.certain(found, name=name, obj=value) if may_be_undefined(found) else found


def _of_made_object(session: Session, value: Any, described: Any, name: str) -> Any:
    """What a class holds for an object that the capture has made: with a class from outside it comes from outside."""
    kind = next(base for base in type(value).__mro__ if name in vars(base))
    if is_library(kind.__module__):
        return getattr(value, name)
    if hasattr(type(described), "__get__"):
        of_class(session, value, name)
        return getattr(value, name)
    found = plain(session, type(value), name)
    return unions.certain(found, name=name, obj=value) if may_be_undefined(found) else found


def _read_from_class(session: Session, value: Any, described: Any, name: str) -> Any:
    """What the class holds, for an object that had it itself, or where the code has written it."""
    kind = next(base for base in type(value).__mro__ if name in vars(base))
    if source_of(session, value) is not None:
        session.outside.read(AttributePlace(value, name))
    if session.tracker.source_of(value) is not None or session.tracker.source_of(kind) is not None:
        read_classes(session, type(value).__mro__, name)
        now = vars(kind)[name]
        described = described if isinstance(now, TaggedUnion) else now  # an input may stand there by now
    found = described.__get__(value, type(value)) if hasattr(type(described), "__get__") else described
    return unions.certain(found, name=name, obj=value) if may_be_undefined(found) else found


def _described(session: Session, descriptor: Any, value: Any, name: str) -> Any:
    """The attribute that a descriptor makes; a cached one is written where it is kept."""
    read_descriptor(session, type(value).__mro__, name, descriptor)
    if source_of(session, value) is not None and not storage.is_data(descriptor):
        session.outside.read(AttributePlace(value, name))
    if not isinstance(descriptor, functools.cached_property):
        return session.call(types.MethodType(type(descriptor).__get__, descriptor), value, type(value))
    made = session.call(types.MethodType(descriptor.func, value))
    put(session, value, name, made)
    return made


def _through_super(session: Session, value: Any, name: str) -> Any:
    """``super().name``."""
    bound, bases = value.__self__, after(value)
    described = next((vars(base)[name] for base in bases if name in vars(base)), MISSING)
    written = as_written(described)
    if written is not described:
        return types.MethodType(written, bound)
    if bound is value.__self_class__ or described is MISSING:
        return getattr(value, name)
    getter = described.fget if isinstance(described, property) else None
    if getter is not None and not _is_librarys(getter):
        return session.call(types.MethodType(getter, bound))
    if isinstance(getattr(type(described), "__get__", None), types.FunctionType):
        read_descriptor(session, bases, name, described)
        return session.call(types.MethodType(type(described).__get__, described), bound, type(bound))
    return getattr(value, name)


# -- writing ---------------------------------------------------------------------------------------------------------------


def set_attr(target: Any, name: str, value: Any) -> None:
    """``target.name = value``."""
    session = current()
    if session is not None and keys.is_open(name):
        _over_names(session, name, lambda known: set_attr(target, known, value))
        return
    if session is None or (isinstance(target, torch.Tensor) and not tensor_attributes.is_users(target, name)):
        setattr(target, name, value)
        return
    if isinstance(target, TaggedUnion):
        session.over(target, lambda option: set_attr(option, name, value))
        return
    target = _holder(session, target, name)
    own_way = _method(target, "__setattr__")
    if own_way is None:
        put(session, target, name, value)
    else:
        of_class(session, target, "__setattr__")
        session.call(types.MethodType(own_way, target), name, value)


def put(session: Session, target: Any, name: str, value: Any, setter: Callable[[Any, str, Any], None] | None = None) -> None:
    """What ``object.__setattr__`` does.

    Args:
        setter: what was called for it, where that is no statement.
    """
    if isinstance(target, AbstractObject):
        _refused_as_eager(target, lambda real: setattr(real, name, value))
    if _of_user(session, target, name, "fset", "__set__", value):
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


def _refused_as_eager(target: AbstractObject, change: Callable[[Any], None]) -> None:
    """Sets, deques and tuples have no attributes that may change: raise what such an object raises."""
    try:
        change(absent_attributes.example(target))
    except AttributeError as error:
        raise raised(error.with_traceback(None)) from None


def _check_table(session: Session, module: torch.nn.Module, name: str, value: Any) -> None:
    """A module keeps what it does not register where it has something of that name.

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
    """An attribute was in some dicts: if it comes back to one that does not have it any more, it comes last."""
    for table in tables:
        if name not in table:
            session.blocks.key_orders.taken_out(table, name)


def del_attr(target: Any, name: str) -> None:
    """``del target.name``."""
    session = current()
    if session is None:
        delattr(target, name)
        return
    if keys.is_open(name):
        _over_names(session, name, lambda known: del_attr(target, known))
        return
    if isinstance(target, TaggedUnion):
        session.over(target, lambda option: del_attr(option, name))
        return
    target = _holder(session, target, name)
    own_way = _method(target, "__delattr__")
    if own_way is None:
        remove(session, target, name)
    else:
        of_class(session, target, "__delattr__")
        session.call(types.MethodType(own_way, target), name)


def remove(session: Session, target: Any, name: str, deleter: Callable[[Any, str], None] = delattr) -> None:
    """What ``object.__delattr__`` does."""
    if isinstance(target, AbstractObject):
        _refused_as_eager(target, lambda real: delattr(real, name))
    described = storage.of_class(type(target), name)
    if _of_user(session, target, name, "fdel", "__delete__"):
        return
    if not storage.is_data(described):
        target = attribute_tables.holder(session, target)
    held = storage.own(target, name)
    if may_be_undefined(held):
        unions.certain(held)
    source_of(session, target)
    session.places.write(AttributePlace(target, name))
    held_in = [table for table in storage.tables(target) if name in table]
    deleter(target, name)
    _taken_out(session, held_in, name)


def _of_user(session: Session, target: Any, name: str, part: str, method: str, *values: Any) -> bool:
    """Let a property or descriptor of the user's do it; says whether there is one."""
    described = storage.of_class(type(target), name)
    if isinstance(described, property):
        function = getattr(described, part)
        if function is None or _is_librarys(function):
            return False
        session.call(types.MethodType(function, target), *values)
        return True
    written = getattr(type(described), method, None)
    if not isinstance(written, types.FunctionType) or _is_librarys(written):
        return False
    read_descriptor(session, type(target).__mro__, name, described)
    session.call(types.MethodType(written, described), target, *values)
    return True


# -- what there is -----------------------------------------------------------------------------------------------------------


def _method(value: Any, name: str) -> Any:
    """The method with which the user's class of a value follows its attributes, if there is one: ``__getattr__ = dict.get`` too."""
    found = as_written(storage.of_class(type(value), name))
    of_container = isinstance(found, _IN_C) and found.__name__ != name and issubclass(found.__objclass__, _CONTAINERS)
    return found if of_container or is_users_function(found) else None


def _is_librarys(function: Any) -> bool:
    module = getattr(function, "__module__", None) or "builtins"
    return module.partition(".")[0] in LIBRARIES and not is_followed(function)


def _sometimes(value: Any, name: str) -> Any:
    """What an object has itself on some ways only; ``None`` for any other attribute."""
    if isinstance(value, (AbstractObject, super, *SYMBOLIC_NUMBERS)) or _method(value, "__getattribute__") is not None:
        return None
    if isinstance(value, torch.Tensor) and not tensor_attributes.is_users(value, name):
        return None
    described = storage.of_class(type(value), name)
    if storage.is_data(described) and not storage.is_slot(described):
        return None
    held = storage.own(value, name)
    return held if may_be_undefined(held) else None


def _has_other(value: Any, name: str) -> bool:
    """Whether something else gives an attribute that an object does not have itself."""
    if isinstance(value, type) and any(name in vars(base) for base in value.__mro__[1:]):
        return True
    described = storage.of_class(type(value), name)
    of_class = described is not MISSING and not storage.is_slot(described)
    return of_class or _method(value, "__getattr__") is not None


def _asks_user(value: Any, name: str) -> bool:
    """Whether the user's code decides if there is an attribute."""
    if isinstance(value, (torch.Tensor, AbstractObject, *SYMBOLIC_NUMBERS)):
        return False
    if isinstance(value, super) or _method(value, "__getattribute__") is not None:
        return True
    described = storage.of_class(type(value), name)
    if isinstance(described, property) and not _is_librarys(described.fget):
        return True
    if isinstance(getattr(type(described), "__get__", None), types.FunctionType):
        return storage.is_data(described) or storage.own(value, name) is MISSING
    return described is MISSING and storage.own(value, name) is MISSING and _method(value, "__getattr__") is not None


def _guard_missing(session: Session, value: Any, name: str) -> None:
    source = None if isinstance(value, (AbstractObject, super)) else _unwritten_source(session, value, name)
    if source is not None and not _asks_user(value, name):
        session.tracker.guards.missing(session.tracker.table.attribute(source, name))


def _unwritten_source(session: Session, value: Any, name: str) -> Any:
    """Where an object comes from whose attribute is as it was when the program was called."""
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
