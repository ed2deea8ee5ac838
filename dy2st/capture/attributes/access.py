"""Reads and writes of attributes, items and names by converted code.

Reads of what lies outside of the captured function are remembered and guarded; writes are noted so that they can be undone,
joined, and done again at each call.
"""

from __future__ import annotations

import collections
import dataclasses
import operator as python
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from dy2st.capture.attributes import attribute_tables
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.attributes.class_attributes import LIBRARIES, call_own
from dy2st.capture.attributes.reading import plain
from dy2st.capture.attributes.runtime_items import is_runtime, item_at_runtime, length
from dy2st.capture.branching import keys, lookup, optional, tensor_keys, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if, capture_if_exp
from dy2st.capture.containers import list_tensors, lists, set_views, tuples
from dy2st.capture.environment.sources import behind
from dy2st.capture.environment.standard_library import is_followed_class
from dy2st.capture.environment.users_code import as_written, has_own, is_users_function, module_of, user_method
from dy2st.capture.objects import cells, hidden_state, table_sites
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray, is_open
from dy2st.capture.values.abstract_objects import AbstractObject, AbstractTable, AbstractTuple, example_of
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.writes.places import ContentsPlace, ItemPlace


def ld(value: Any, kind: type[NameError], message: str) -> Any:
    """Read a name that may be unbound.

    Raises:
        UnboundLocalError, NameError: it is unbound, in Python's own words.
    """
    if isinstance(value, Undefined):
        raise raised(_unbound(value, kind, message))
    if isinstance(value, TaggedUnion):
        for tag, option in value.options.items():
            if isinstance(option, Undefined):
                about = {} if kind is UnboundLocalError else {"name": option.name}
                check(need(), value.tag != tag, kind, message, about=about)
                return value.without_unbound()
    return value


def _unbound(value: Undefined, kind: type[NameError], message: str) -> NameError:
    """Return the exception for a name; Python tells only of those that are no locals which they are."""
    error = kind(message)
    if kind is not UnboundLocalError:
        error.name = value.name
    return error


def look_into(session: Session, *values: Any) -> None:
    """Note that code that is not converted reads all that is in objects, and guard what comes from outside.

    An attribute that is there on some ways only has been written since, so that nothing is to be guarded.

    Args:
        session: the capture.
        values: any; objects and containers in them too.
    """
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(
            value, (torch.Tensor, torch.nn.Module, type, types.ModuleType, AbstractObject, TaggedUnion)
        ):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += storage.plain(value)
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
        table = storage.table_of(value) or {}
        names = {field.name for field in fields} | table.keys()
        if module_of(type(value)).partition(".")[0] not in LIBRARIES or is_followed_class(type(value)):
            known = session.tracker.source_of(value) is not None
            there = [name for name in names if not may_be_undefined(table.get(name))]
            if has_own(value, "__getattribute__"):  # which may do anything: what is copied lies under it
                waiting += [plain(session, value, name) if known else table[name] for name in there if name in table]
                continue
            waiting += [attr(value, name) if known else getattr(value, name) for name in there if hasattr(value, name)]


def item(value: Any, key: Any) -> Any:
    """Return ``value[key]``."""
    session = current()
    if session is None:
        return value[key]
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: item(option, key))
    value = optional.behind_proxy(session, value)
    if keys.is_open(key):
        if has_factory(value):
            unless_there(session, value, key, lambda: set_item(value, key, session.call(value.default_factory)))
        if keys.has_union(key) or isinstance(value, lookup.MAPPINGS):
            resolve = keys.over if isinstance(value, lookup.MAPPINGS) else keys.over_unions
            return resolve(session, key, lambda known: _item(session, value, known))
    return _item(session, value, key)


def _item(session: Session, value: Any, key: Any) -> Any:
    value, key = behind(value), lookup.known(key)
    return tensor_keys.over(session, value, key, lambda one: _item_under(session, value, one))


def _item_under(session: Session, value: Any, key: Any) -> Any:
    key = lookup.by_identity(session, value, key, puts=False)
    if isinstance(value, AbstractArray):
        return value[key]  # type: ignore[index]
    if isinstance(value, np.ndarray) and is_open(key):
        return session.call(value.__getitem__, key)
    if isinstance(value, AbstractObject):
        return tuples.item(session, value, key) if isinstance(value, AbstractTuple) else value[key]  # type: ignore[index]
    if isinstance(value, type) and (of_class := _subscripting(value)) is not None:
        return session.call(of_class, key)
    known = session.lists.of(value)
    if known is not None and not has_own(value, "__getitem__"):
        return lists.get(session, known, key)
    if isinstance(value, (list, tuple, str, bytes)) and is_users_function(as_written(getattr(type(key), "__index__", None))):
        key = session.call(python.index, key)
    if isinstance(value, (torch.Tensor, types.GenericAlias)):
        return value[list_tensors.as_index(session, key)]
    at_runtime = lookup.is_runtime(key) if isinstance(value, lookup.MAPPINGS) else is_runtime(key)
    if at_runtime and not is_users_function(getattr(type(value), "__getitem__", None)):
        return item_at_runtime(session, value, key)
    if isinstance(getattr(type(value), "__getitem__", None), types.FunctionType) and not isinstance(value, type):
        return call_own(session, value, "__getitem__", key)
    return _plain_item(session, value, key)


def _subscripting(kind: type) -> Any:
    """Return the user's method that a subscript of a class calls: of its metaclass, or its own ``__class_getitem__``."""
    method = as_written(getattr(type(kind), "__getitem__", None))
    if is_users_function(method):
        return types.MethodType(method, kind)
    own = getattr(kind, "__class_getitem__", None)
    return own if method is None and is_users_function(getattr(own, "__func__", None)) else None


def _item_of_container(session: Session, value: Any, key: Any) -> Any:
    """Return what ``dict.__getitem__`` gives, and its like."""
    known = session.lists.of(value)
    if known is not None:
        return lists.get(session, known, key)
    if is_runtime(key) and not isinstance(value, dict):
        return item_at_runtime(session, value, key)
    return _plain_item(session, value, key, storage.base_of(value).__getitem__)


def _plain_item(session: Session, value: Any, key: Any, get: Callable[[Any, Any], Any] = python.getitem) -> Any:
    if id(value) in session.places.tables:
        return attribute_tables.item(session, value, key)
    if id(value) in session.places.class_tables:
        return attribute_tables.item_of_class(session, value, key, get)
    makes = isinstance(value, dict) and hasattr(type(value), "__missing__") and not dict.__contains__(value, key)
    if makes and has_factory(value):
        return item_or_put(session, value, key, lambda: session.call(value.default_factory))
    if makes and user_method(type(value), "__missing__") is None:  # the user's own writes where it says so
        session.places.write(ItemPlace(value, key))
    result = get(value, key)
    if cells.are(result):
        return cells.read(session, result)
    if isinstance(value, dict) and may_be_undefined(result):
        return _item_or_default(session, value, key, result) if hasattr(type(value), "__missing__") else unions.certain(result)
    if isinstance(result, list) and (makes or isinstance(key, slice)):
        session.lists.own(result)
    return result


def has_factory(table: Any) -> bool:
    """Tell whether a dict makes what is missing with its ``default_factory``: a class of the user's may have its own way."""
    if not isinstance(table, collections.defaultdict) or table.default_factory is None:
        return False
    return type(table).__missing__ is collections.defaultdict.__missing__


def unless_there(session: Session, table: Any, key: Any, put: Callable[[], None]) -> None:
    """Put an item into a dict if none is there under a key known only at run time."""
    there = keys.over(session, key, lambda known: lookup.presence(session, table, known))
    if not isinstance(there, bool):
        session.allocations.own_variables(put)
        capture_if(there, lambda: None, put, ())
    elif not there:
        put()


def _item_or_default(session: Session, table: Any, key: Any, value: Any) -> Any:
    """Return an item that is there on some ways only, of a dict that makes what is missing."""
    makes = has_factory(table)
    if not makes and type(table).__missing__ is collections.defaultdict.__missing__:
        return unions.certain(value)
    default: Any = (lambda: session.call(table.default_factory)) if makes else (lambda: type(table).__missing__(table, key))
    if makes:
        return item_or_put(session, table, key, default)
    there = unions.presence(value)
    return default() if there is False else capture_if_exp(there, value.without_unbound, default)


def item_or_put(session: Session, table: Any, key: Any, make: Callable[[], Any]) -> Any:
    """Return the item of a dict under a key; where none is there, one is made and put in."""
    if lookup.is_runtime(key):  # one of those that are there
        return lookup.find(session, table, key, lambda known: lookup.held(table, known), lambda: _refuse_new(session, table, key))
    result = dict.get(table, key, MISSING)
    there = result is not MISSING and unions.presence(result)
    if there is True:
        return result
    value = capture_if_exp(there, result.without_unbound, make) if there is not False else make()
    _set_in_container(session, table, key, value)
    return value


def _refuse_new(session: Session, table: Any, key: Any) -> NoReturn:
    table_sites.require(session, table, keys.refused(session, key, "is put into a dict"))


def set_item(target: Any, key: Any, value: Any) -> None:
    """Do ``target[key] = value``."""
    session = current()
    if isinstance(target, TaggedUnion):
        target.session.over(target, lambda option: set_item(option, key, value))
    elif session is not None and keys.is_open(key) and (keys.has_union(key) or isinstance(target, dict)):
        resolve = keys.over if isinstance(target, dict) else keys.over_unions
        resolve(session, key, lambda known: _set_item(session, target, known, value))
    elif isinstance(value, TaggedUnion) and isinstance(key, slice) and isinstance(target, list):
        value.session.over(value, lambda option: set_item(target, key, option))
    elif session is not None and isinstance(key, slice) and isinstance(target, list) and not isinstance(value, (list, tuple)):
        _set_item(session, target, key, value if has_own(target, "__setitem__") else session.call(list, value))
    else:
        _set_item(session, target, key, value)


def _set_item(session: Session | None, target: Any, key: Any, value: Any) -> None:
    target, key = behind(target), lookup.known(key)
    if isinstance(target, np.ndarray) and session is not None:
        hidden_state.check_array(session, target, (key, value))
    if session is None or isinstance(target, (torch.Tensor, AbstractArray)):
        target[key if session is None else list_tensors.as_index(session, key)] = value
        return
    tensor_keys.over(session, target, key, lambda one: _set_under(session, target, one, value))


def _set_under(session: Session, target: Any, key: Any, value: Any) -> None:
    key = lookup.by_identity(session, target, key)
    known = session.lists.of(target)
    if known is not None and not has_own(target, "__setitem__"):
        lists.set_item(session, known, key, value)
        return
    if isinstance(getattr(type(target), "__setitem__", None), types.FunctionType):
        call_own(session, target, "__setitem__", key, value)
        return
    _set_plainly(session, target, key, value)


def _set_plainly(
    session: Session, target: Any, key: Any, value: Any, put: Callable[[Any, Any, Any], None] = python.setitem
) -> None:
    if isinstance(target, list) and (is_runtime(key) or (isinstance(key, slice) and session.lists.of(value) is not None)):
        lists.set_item(session, session.lists.required(target), key, value)
        return
    if is_runtime(key):
        session.outside.check_changed(target)
    if isinstance(target, dict) and lookup.is_runtime(key):
        lookup.put(session, target, key, lambda known: _set_plainly(session, target, known, value, put))
        return
    if id(target) in session.places.tables:
        attribute_tables.put(session, target, key, value)
        return
    held = dict.get(target, key) if isinstance(target, dict) else None
    if cells.are(held):
        cells.write(session, held, value)
        return
    _note_items(session, target, key)
    if isinstance(target, dict) and may_be_undefined(held):
        session.blocks.key_orders.write(target, key, unions.presence, unions.where_there)
    put(target, key, value)


def _set_in_container(session: Session, target: Any, key: Any, value: Any) -> None:
    """Do what ``dict.__setitem__`` does, and its like."""
    known = session.lists.of(target)
    if known is not None:
        lists.set_item(session, known, key, value)
        return
    _set_plainly(session, target, key, value, storage.base_of(target).__setitem__)


def _note_items(session: Session, target: Any, key: Any) -> None:
    if isinstance(target, dict) and isinstance(dict.get(target, key), Undefined):
        session.places.write(ItemPlace(target, key))
        session.blocks.key_orders.moved(target, key)  # it has been taken out on this way, and comes last now
    elif isinstance(target, dict):
        session.places.write(ItemPlace(target, key))
    elif isinstance(target, (list, collections.deque)) and not isinstance(target, AbstractObject):
        session.places.write(ContentsPlace(target))
    else:
        hidden_state.set_item(session, target)


def normalized_key(value: Any, key: Any) -> Any:
    """Return the key of an item that is read and written: see :func:`~dy2st.capture.branching.lookup.normalized`."""
    session = current()
    return key if session is None or not isinstance(value, dict) else lookup.normalized(session, value, key)


def del_item(target: Any, key: Any) -> None:
    """Do ``del target[key]``."""
    session = current()
    if session is not None and isinstance(target, TaggedUnion):
        session.over(target, lambda option: del_item(option, key))
    elif session is not None and keys.is_open(key) and (keys.has_union(key) or isinstance(target, dict)):
        resolve = keys.over if isinstance(target, dict) else keys.over_unions
        resolve(session, key, lambda known: _del_item(session, target, known))
    else:
        _del_item(session, target, key)


def _del_item(session: Session | None, target: Any, key: Any) -> None:
    if session is None:
        _del_under(session, target, key)
    else:
        tensor_keys.over(session, target, key, lambda one: _del_under(session, target, one))


def _del_under(session: Session | None, target: Any, key: Any) -> None:
    if session is not None and isinstance(target, (list, dict, collections.deque)) and has_own(target, "__delitem__"):
        call_own(session, target, "__delitem__", key)
    else:
        _del_in_container(session, target, key)


def _del_in_container(session: Session | None, target: Any, key: Any) -> None:
    """Do what ``dict.__delitem__`` does, and its like."""
    if session is not None:
        known = session.lists.of(target)
        if known is not None:
            lists.del_item(session, known, key)
            return
        key = lookup.by_identity(session, target, key, puts=False)
        if isinstance(target, dict):
            if lookup.is_runtime(key):
                missing = lambda: unions.certain(Undefined("key", KeyError, (key,)))  # noqa: E731
                lookup.find(session, target, key, lambda known: _del_in_container(session, target, known), missing)
                return
            if id(target) in session.places.tables:
                attribute_tables.remove(session, target, key)
                return
            held = dict.get(target, key, MISSING)
            if may_be_undefined(held):
                unions.certain(held)
            elif held is not MISSING or not hasattr(type(target), "__missing__"):
                _item_of_container(session, target, key)
            else:
                raise raised(KeyError(key))
            optional.remove(session, target, key)
            return
        if isinstance(target, list) and is_runtime(key):
            lists.del_item(session, session.lists.required(target), key)
            return
        if isinstance(target, (list, collections.deque)) and not isinstance(target, AbstractObject):
            session.places.write(ContentsPlace(target))
            storage.base_of(target).__delitem__(target, key)
            return
        hidden_state.set_item(session, target)
    del target[key]


OF_CONTAINERS: dict[str, Callable[..., Any]] = {
    "__getitem__": _item_of_container, "__setitem__": _set_in_container, "__len__": length,
    "__delitem__": _del_in_container,
}  # fmt: skip
"""What special methods do that a container has from the class of Python's own."""
_SET_CHANGES: dict[Callable[[Any, Any], Any], str] = {
    python.ior: "update",
    python.isub: "difference_update",
    python.iand: "intersection_update",
    python.ixor: "symmetric_difference_update",
}
"""The methods that do what ``|=`` and its kin do to a set."""


def inplace(function: Callable[[Any, Any], Any], target: Any, value: Any) -> Any:
    """Return ``target += value`` and its kin; gives the new value of the target."""
    session = current()
    if session is None:
        return function(target, value)
    if isinstance(target, TaggedUnion):
        return session.over(target, lambda option: inplace(function, option, value))
    if isinstance(value, TaggedUnion) and isinstance(target, (set, dict, collections.deque, AbstractObject)):
        return session.over(value, lambda option: inplace(function, target, option))
    if set_views.takes(function, target, value):
        return set_views.combined(session, function, target, value)
    if isinstance(value, AbstractTable) and isinstance(target, (dict, set)):  # Python would make a new one
        what = f"is put into a {type(example_of(target)).__name__}"
        table_sites.require(session, target, keys.refused(session, None, what))
    return _inplace(session, function, target, value)


def _inplace(session: Session, function: Callable[[Any, Any], Any], target: Any, value: Any) -> Any:
    if isinstance(target, (list, collections.deque)) and function is python.iadd and not isinstance(target, AbstractObject):
        session.call(target.extend, value)
        return target
    hidden_state.set_item(session, target)
    if function is python.iadd and tuples.are(target, value):
        return tuples.concat(session, target, value)
    if isinstance(target, (list, collections.deque)) and function is python.imul and not isinstance(target, AbstractObject):
        result = lists.repeat(session, target, value) if isinstance(target, list) else target * value
        session.call(target.clear)
        session.call(target.extend, result)
        return target
    if isinstance(target, dict) and function is python.ior and not isinstance(target, collections.Counter):
        session.call(dict.update, target, value)
        return target
    if isinstance(target, set) and function in _SET_CHANGES and isinstance(value, (set, frozenset)):
        session.call(getattr(set, _SET_CHANGES[function]), target, value)
        return target
    if isinstance(target, (list, dict, set, collections.deque)) and not isinstance(target, AbstractObject):
        session.places.write(ContentsPlace(target))
    if function is python.imul and isinstance(target, (str, tuple, *SYMBOLIC_NUMBERS)):  # none of them changes
        return session.call(python.mul, target, value)
    return function(target, value)
