"""``copy``, and the functions of ``dataclasses`` that copy.

A copy of a tensor is one that the program makes, and a copy of an object is an object of the function.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes import access
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.branching import tensor_keys
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.sources import Source
from dy2st.capture.iterables import iterators
from dy2st.capture.library import tensor_copies
from dy2st.capture.library.registry import handles
from dy2st.capture.looping import comprehensions, iteration, zipped
from dy2st.capture.objects import cells, construction
from dy2st.capture.operators import comparisons
from dy2st.capture.session.session import Session
from dy2st.capture.texts import wording
from dy2st.capture.types import value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import MAY_BE_ABSENT, PLAIN_VALUES, SYMBOLIC_NUMBERS, RuntimeList, TaggedUnion, may_be_undefined
from dy2st.capture.values.texts import Text
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.ir.flattening import attributes, children
from dy2st_runtime.ir.unflattening import HOLDERS, empty_like

_OWN_WAYS = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
"""With which a class says how its objects are copied."""


@handles(copy.copy)
def _copy(session: Session, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_copies.shallow(session, value)
    iterators.check_asked(session, value)
    access.look_into(session, value)
    if cells.holds(value):
        value = cells.as_read(session, value)
    if type(value) is list and session.lists.of(value) is not None:
        return session.call(value.copy)
    result = copy.copy(value)
    if any(cells.are(item) for item in attributes(result).values()):
        for name, item in attributes(result).items():
            storage.keep(result, name, cells.create(session, cells.read(session, item)) if cells.are(item) else item)
    if type(result) is list:
        session.lists.own(result)
        return result
    if result is value:
        return result
    session.blocks.key_orders.follow_object(result, value)
    return construction.completed(session, result)


@handles(copy.deepcopy, takes_unions=True)
def _deepcopy(session: Session, value: Any, memo: Any = None) -> Any:
    iterators.check_asked(session, value)
    access.look_into(session, value)
    if isinstance(memo, tensor_copies.Memo):
        return memo.copied(value)
    deep = _Deep(session, tensor_copies.Memo() if memo is None else memo)
    result = deep.copied(value)
    if len(deep.sources) > 1:
        session.tracker.guards.all_apart(deep.sources, "objects that are copied")
    if deep.tensors:
        session.tracker.guards.same_memory(*zip(*deep.tensors, strict=True))
    return result


class _Deep:
    """One deep copy: what has been copied, by the identity of the original."""

    def __init__(self, session: Session, known: dict[int, Any]) -> None:
        self.session, self.known = session, known
        if isinstance(known, tensor_copies.Memo):
            known.copied = self.copied
        self._copies: list[tuple[Any, Any]] = []
        """The tensors, and lists of the program with tensors, that have been copied."""
        self.sources: list[Source] = []
        """Where what has been copied comes from: if two become one, so do their copies."""
        self.tensors: list[tuple[Source, torch.Tensor]] = []
        """The tensors from outside among it, with where they come from: what shares memory does so in the copies."""

    def copied(self, part: Any) -> Any:
        """Return the copy of a part."""
        if isinstance(part, (*SYMBOLIC_NUMBERS, Text)):
            return part
        if isinstance(part, TaggedUnion):
            return self._union(part)
        if id(part) in self.known:
            return self.known[id(part)]
        result = self._copy_part(part)
        self.known[id(part)] = result
        source = None if result is part else self.session.tracker.source_of(part)
        if source is not None:
            self.sources.append(source)
        return result

    def _note(self, tensor: torch.Tensor) -> None:
        real = self.session.outside.behind(tensor)
        source = self.session.tracker.source_of(real)
        if source is not None and real.layout == torch.strided:
            self.tensors.append((source, real))

    def _union(self, part: TaggedUnion) -> Any:
        if all(isinstance(option, PLAIN_VALUES) for option in part.options.values()):
            return part
        if may_be_undefined(part):
            raise errors.CaptureError(
                "a deep copy of an object with an attribute or item that is there on some ways only",
                self.session.here(),
                fix="give it a value on all ways, None for example",
            )
        if all(map(self._is_on_all_ways, part.options.values())):
            return TaggedUnion(part.session, part.tag, {tag: self.copied(option) for tag, option in part.options.items()})
        return self.session.over(part, self._apart)

    def _is_on_all_ways(self, option: Any) -> bool:
        """Tell whether an object is there whichever of several is meant: then it has one copy, wherever it is met again."""
        if isinstance(option, (*PLAIN_VALUES, *SYMBOLIC_NUMBERS, Text)):
            return True
        if not (type(option) in (list, dict) or _is_plain(type(option))):
            return False
        waiting, seen = [option], set[int]()
        while waiting:
            one = waiting.pop()
            if getattr(one, MAY_BE_ABSENT, False) or self.session.lists.of(one) is not None:
                return False
            if id(one) not in seen and not isinstance(one, PLAIN_VALUES):
                seen.add(id(one))
                parts = one.options.values() if isinstance(one, TaggedUnion) else (children(one) or ((),))[0]
                waiting += parts
        return True

    def _apart(self, part: Any) -> Any:
        """Return the copy of a part in a block of its own: what is copied there is nothing that is there afterwards."""
        known, copies = dict(self.known), [*self._copies]
        try:
            return self.copied(part)
        finally:
            self.known.clear()
            self.known.update(known)
            self._copies[:] = copies

    def _copy_part(self, part: Any) -> Any:
        if isinstance(part, torch.Tensor):
            results: Any = self._tensor(part, *self._copied_before(part))
            self._note(part)
            self._copies.append((part, results))
            return results
        if type(part) is tuple:
            items = tuple(map(self.copied, part))
            return part if all(new is old for new, old in zip(items, part)) else items
        if cells.are(part):
            return cells.create(self.session, self.copied(cells.read(self.session, part)))
        known = self.session.lists.of(part)
        if known is not None:
            is_flat = isinstance(known.element, value_types.TensorType)
            return self._tensors(part, known) if is_flat else comprehensions.mapped(part, self._apart)
        if type(part) is list:
            results = []
            self.known[id(part)] = results
            results += map(self.copied, part)
            self.session.lists.own(results)
            return results
        if type(part) is dict:
            table = self.known[id(part)] = construction.registered(self.session, {})
            table.update({key: self.copied(item) for key, item in part.items()})
            return self.session.blocks.key_orders.follow(table, part)
        if _is_plain(type(part)):
            return self._object(part)
        if isinstance(part, HOLDERS) and not isinstance(part, AbstractObject) and not _own_ways(type(part)) and self._is_new(part):
            return self._holder(part)
        return self._by_own_ways(part)

    def _by_own_ways(self, part: Any) -> Any:
        """Return the copy of an object whose class says how it is copied."""
        before = {*self.known}
        results = copy.deepcopy(part, self.known)
        for inside in [copied for known, copied in self.known.items() if known not in before and known != id(self.known)]:
            self.session.ownership.own_all(inside)
            if construction.is_plain(type(inside)):
                construction.registered(self.session, inside)
        return results if results is part else construction.registered(self.session, results)

    def _tensors(self, part: list[Any], known: RuntimeList) -> list[Any]:
        """Return a list of the program, in which a tensor may stand more than once, or as elsewhere: so does its copy."""
        session = self.session
        result = session.lists.copy(known)
        earlier, others = [*self._copies], [pair for pair in self._copies if isinstance(pair[0], torch.Tensor)]
        k: Any = 0

        def look(item: Any) -> None:
            nonlocal k
            first = _position(session, part, item)
            value = capture_if_exp(first >= k, lambda: self._tensor(item, earlier, others), lambda: access.item(result, first))
            access.set_item(result, k, value)
            k = k + 1

        session.allocations.own_variables(look)
        iteration.capture_for(zipped.by_position(session, part), look, ("k",), None)
        self._copies.append((part, result))
        return result

    def _tensor(self, item: torch.Tensor, earlier: Sequence[tuple[Any, Any]], others: Sequence[tuple[Any, Any]]) -> Any:
        """Return a copy of a tensor, or the one of an earlier tensor, or of a list with tensors, that it is or is in.

        It may lie in the memory of the others.
        """
        if not earlier:
            return tensor_copies.deep(self.session, item, self.copied, others)
        (part, result), *rest = earlier
        if isinstance(part, list):
            first = _position(self.session, part, item)
            return capture_if_exp(first >= 0, lambda: access.item(result, first), lambda: self._tensor(item, rest, others))
        if (part.dtype, part.dim()) != (item.dtype, item.dim()):
            return self._tensor(item, rest, others)
        return capture_if_exp(comparisons.is_(item, part), lambda: result, lambda: self._tensor(item, rest, others))

    def _copied_before(self, item: torch.Tensor) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return what has been copied that may be this tensor when the program runs, or have it; and the other tensors."""
        may_be = {id(one) for one in tensor_keys.candidates(self.session, item, [one for one, _ in self._copies])}
        earlier = [pair for pair in self._copies if isinstance(pair[0], list) or id(pair[0]) in may_be]
        return earlier, [pair for pair in self._copies if isinstance(pair[0], torch.Tensor) and id(pair[0]) not in may_be]

    def _is_new(self, part: Any) -> bool:
        return id(part) in self.session.allocations.created and self.session.lists.of(part) is None

    def _holder(self, part: Any) -> Any:
        """Return a container of a class of the user's, of which Python would keep the items and attributes."""
        result = construction.registered(self.session, empty_like(part))
        self.known[id(part)] = result
        held = ContentsPlace(part).read()
        inside = {key: self.copied(item) for key, item in held.items()} if isinstance(part, dict) else list(map(self.copied, held))
        ContentsPlace(result).write(inside)
        for name, item in attributes(part).items():
            storage.keep(result, name, self.copied(item))
        return result

    def _object(self, part: Any) -> Any:
        result = construction.registered(self.session, object.__new__(type(part)))
        self.known[id(part)] = result
        for name, item in attributes(part).items():
            storage.keep(result, name, self.copied(item))
        self.session.blocks.key_orders.follow_object(result, part)
        return construction.completed(self.session, result)


def _position(session: Session, items: list[Any], tensor: torch.Tensor) -> Any:
    """Return where a tensor is in a list of the program."""
    return comparisons.position(session, items, tensor, lambda _, value, item: comparisons.is_(value, item))


def _own_ways(kind: type) -> list[Any]:
    """Return the methods of the user's with which a class says how its objects are copied."""
    return [way for name in _OWN_WAYS if isinstance(way := storage.of_class(kind, name), types.FunctionType)]


def _is_plain(kind: type) -> bool:
    """Tell whether a deep copy of an object is one of each of its attributes."""
    results = [
        storage.of_class(kind, name) for name in _OWN_WAYS if storage.of_class(kind, name) is not vars(object).get(name, MISSING)
    ]
    own = any(getattr(way, "__module__", "") != "dataclasses" for way in results)  # those of frozen ones with slots do the same
    return construction.is_plain(kind) and not own and storage.of_class(kind, "__new__") is vars(object)["__new__"]


def _pickled(function: Callable[..., Any], session: Session, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Bytes that hold what only the program knows cannot be part of it."""
    if wording.has_runtime_parts(session, value):
        raise errors.CaptureError(
            "pickle gets a value that is known only at run time",
            session.here(),
            fix="copy it with copy.deepcopy(), or pickle it outside of the static function",
        )
    access.look_into(session, value)
    return function(value, *args, **kwargs)


for _function in (pickle.dumps, pickle.dump):
    handles(_function)(functools.partial(_pickled, _function))


# -- dataclasses -------------------------------------------------------------------------------------------------------------


@handles(dataclasses.asdict)
def _asdict(session: Session, value: Any, *, dict_factory: Callable[[Any], Any] = dict) -> Any:
    def rebuilt(part: Any, parts: list[Any]) -> Any:
        return session.call(dict_factory, list(zip((field.name for field in dataclasses.fields(part)), parts)))

    return _taken_apart(session, dataclasses.asdict, value, rebuilt)


@handles(dataclasses.astuple)
def _astuple(session: Session, value: Any, *, tuple_factory: Callable[[Any], Any] = tuple) -> Any:
    return _taken_apart(session, dataclasses.astuple, value, lambda part, parts: session.call(tuple_factory, parts))


def _taken_apart(session: Session, function: Any, value: Any, make: Callable[[Any, list[Any]], Any]) -> Any:
    """Return what ``asdict`` and ``astuple`` do, given what they make of an object and its fields, taken apart."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return function(value)  # raises what eager raises

    def inner(part: Any) -> Any:
        if isinstance(part, TaggedUnion):
            return session.over(part, inner)
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            return make(part, [inner(attr(part, field.name)) for field in dataclasses.fields(part)])
        if isinstance(part, tuple) and hasattr(type(part), "_fields"):
            return type(part)(*map(inner, part))
        if session.lists.of(part) is not None:
            return comprehensions.mapped(part, inner)
        if isinstance(part, (list, tuple)):
            result = type(part)(map(inner, part))
            if type(result) is list:
                session.lists.own(result)
            return result
        if type(part) is dict:
            return construction.registered(session, {inner(key): inner(item) for key, item in part.items()})
        return _deepcopy(session, part)

    return inner(value)


@handles(dataclasses.replace)
def _replace(session: Session, value: Any, /, **changes: Any) -> Any:
    known = getattr(type(value), "__dataclass_fields__", {})
    fields = dataclasses.fields(value) if known and not isinstance(value, type) else ()
    plain = len(fields) == len(known) and not any(field.name in changes for field in fields if not field.init)
    if not fields or not plain:  # other kinds of fields, and what eager refuses
        access.look_into(session, value, changes)
        return construction.completed(session, dataclasses.replace(value, **changes))
    given = {field.name: attr(value, field.name) for field in fields if field.init and field.name not in changes}
    return session.call(type(value), **{**changes, **given})
