"""Structures as plain data and back. Classes come back as ones of the same name and fields."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.ir import constants
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.structure import (
    Absent,
    AbstractOf,
    BoundOf,
    CellOf,
    ClassOf,
    CollectionOf,
    Const,
    DictOf,
    FunctionOf,
    HolderOf,
    InstanceOf,
    Leaf,
    ListOf,
    ObjectOf,
    Recreated,
    SameAs,
    Shared,
    Structure,
    TaggedUnionOf,
    TupleOf,
    VariableOf,
)
from dy2st_runtime.ir.unflattening import collection, is_collection


def to_json(structure: Structure) -> Any:
    """Plain data for an archive.

    Raises:
        SaveError: it holds a constant or a class that only exists in this process.
    """
    match structure:
        case Leaf(index):
            return {"leaf": index}
        case Const(value):
            return {"const": constants.encode(value)}
        case TupleOf(items, factory):
            return {"tuple": [to_json(item) for item in items], **_tuple_class(factory)}
        case ListOf(items):
            return {"list": [to_json(item) for item in items]}
        case DictOf(keys, items, factory):
            pairs = [[constants.encode(k), to_json(v)] for k, v in zip(keys, items, strict=True)]
            return {"dict": pairs, **({} if factory is dict else {"ordered": True})}
        case ObjectOf(factory, fields, items, in_order):
            results = {"object": [to_json(item) for item in items], "name": factory.__name__, "fields": list(fields)}
            return results | ({"mapping": True} if issubclass(factory, dict) else {}) | ({"ordered": True} if in_order else {})
        case CollectionOf(kind, items, maxlen):
            return {"collection": to_json(items[0]), "kind": kind, "maxlen": constants.encode(maxlen)}
        case TaggedUnionOf(tag, tags, items):
            results = {"choice": [[number, to_json(item)] for number, item in zip(tags, items, strict=True)], "tag": to_json(tag)}
            return results | ({"same": True} if isinstance(structure, SameAs) else {})
        case _:
            return _container_to_json(structure)


def _container_to_json(structure: Absent | HolderOf | Shared | CellOf | AbstractOf | Recreated) -> Any:
    if isinstance(structure, Absent):
        return {"absent": True}
    if isinstance(structure, InstanceOf):
        return to_json(structure.items[1])
    if isinstance(structure, (FunctionOf, ClassOf)):
        return {"const": constants.encode(structure.function if isinstance(structure, FunctionOf) else structure.kind)}
    if isinstance(structure, (AbstractOf, VariableOf)):
        raise SaveError("what is no value of its own cannot be written to an archive")
    if isinstance(structure, CellOf):
        return {"cell": to_json(structure.items[0])}
    if isinstance(structure, HolderOf):
        kind = structure.factory.__qualname__
        raise SaveError(f"a {kind} among the results cannot be written to an archive; give what is in it instead")
    if isinstance(structure, BoundOf):
        kind = structure.kind.__name__
        raise SaveError(f"a {kind} of what is made inside cannot be written to an archive; give what it is bound to instead")
    if not structure.items:
        raise SaveError("a list, dict or object that holds itself cannot be written to an archive; give what is in it instead")
    return {"shared": structure.number, "item": to_json(structure.items[0])}


def _tuple_class(factory: type | None) -> dict[str, Any]:
    if factory is None:
        return {}
    if factory is torch.Size:
        return {"size": True}
    if factory.__module__ == "torch.return_types":
        return {"return_type": factory.__name__}
    if hasattr(factory, "_fields"):
        return {"name": factory.__name__, "fields": list(factory._fields)}
    raise SaveError(f"a {factory.__qualname__} among the arguments or results cannot be written to an archive")


def from_json(json: Json, depth: int = 0) -> Structure:
    """Return the inverse of :func:`to_json`; a class of the saving process comes back as one of the same name and fields.

    Raises:
        LoadError: it is no structure, with its place.
    """
    if depth > constants.MAX_DEPTH:
        json.fail(f"at most {constants.MAX_DEPTH} levels")
    kind = next((key for key in _READERS if json.optional(key) is not None), None)
    if kind is None:
        json.fail("a structure")
    return _READERS[kind](json, depth + 1)


def _read_item(json: Json, depth: int) -> Structure:
    """Read what may be in a container or be a container's item; it has to be there always."""
    structure = from_json(json, depth)
    if _may_be_absent(structure):
        json.fail("what is always there")
    return structure


def _may_be_absent(structure: Structure) -> bool:
    return isinstance(structure, Absent) or (isinstance(structure, TaggedUnionOf) and any(map(_may_be_absent, structure.items)))


def _read_items(json: Json, depth: int) -> tuple[Structure, ...]:
    return tuple(_read_item(item, depth) for item in json.array())


def _read_tuple(json: Json, depth: int) -> Structure:
    items = _read_items(json.field("tuple"), depth)
    if json.optional("size") is not None:
        return TupleOf(items, torch.Size)
    if (named := json.optional("return_type")) is not None:
        factory = getattr(torch.return_types, named.text(), None)
        if not (isinstance(factory, type) and issubclass(factory, tuple)):
            named.fail("a result type of torch")
        return TupleOf(items, factory)
    if json.optional("name") is None:
        return TupleOf(items)
    fields = _read_fields(json)
    if len(fields) != len(items):
        json.fail("as many fields as items")
    return TupleOf(items, _class_of(json, lambda name: _named_tuple(name, fields)))


def _read_dict(json: Json, depth: int) -> Structure:
    pairs = [pair.array(2) for pair in json.field("dict").array()]
    keys = tuple(constants.decode(key) for key, _ in pairs)
    if any(isinstance(key, (list, slice)) for key in keys):
        json.fail("keys that can be hashed")
    factory = dict if json.optional("ordered") is None else collections.OrderedDict
    return DictOf(keys, tuple(from_json(item, depth) for _, item in pairs), factory)


def _read_union(json: Json, depth: int) -> Structure:
    pairs = [pair.array(2) for pair in json.field("choice").array()]
    tags = tuple(tag.integer(0) for tag, _ in pairs)
    kind = TaggedUnionOf if json.optional("same") is None else SameAs
    return kind(_read_item(json.field("tag"), depth), tags, tuple(from_json(item, depth) for _, item in pairs))


def _read_collection(json: Json, depth: int) -> Structure:
    kind, maxlen = json.field("kind"), constants.decode(json.field("maxlen"))
    if kind.text() != "deque" and not is_collection(kind.text()):
        kind.fail("set, deque or tuple")
    if maxlen is not None and (type(maxlen) is not int or maxlen < 0):
        json.field("maxlen").fail("a length")
    inside = _read_item(json.field("collection"), depth)
    if isinstance(inside, Const):
        try:
            collection(kind.text())(inside.value)
        except (TypeError, ValueError):
            json.field("collection").fail(f"what a {kind.text()} is made of")
    return CollectionOf(kind.text(), (inside,), maxlen)


def _read_object(json: Json, depth: int) -> Structure:
    fields = _read_fields(json)
    items = tuple(from_json(item, depth) for item in json.field("object").array())
    if len(fields) != len(items):
        json.fail("as many fields as items")
    mapping = json.optional("mapping") is not None
    in_order = json.optional("ordered") is not None
    return ObjectOf(_class_of(json, lambda name: _record_class(name, fields, mapping)), fields, items, in_order)


def _read_fields(json: Json) -> tuple[str, ...]:
    return tuple(field.identifier() for field in json.field("fields").array())


def _class_of(json: Json, make: Callable[[str], type]) -> type:
    try:
        return make(json.field("name").identifier())
    except (ValueError, TypeError) as error:  # a keyword, or a field twice
        raise LoadError(f"{json.path} cannot be made a class: {error}") from None


@functools.lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> type:
    return collections.namedtuple(name, fields)


class Record(dict[str, Any]):
    """An abstract value for a class whose instances are a dict and have the same items as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@functools.lru_cache(maxsize=256)
def _record_class(name: str, fields: tuple[str, ...], mapping: bool) -> type:
    return type(name, (Record,), {}) if mapping else dataclasses.make_dataclass(name, fields)


_READERS: dict[str, Callable[[Json, int], Structure]] = {
    "leaf": lambda json, depth: Leaf(json.field("leaf").integer(0)),
    "const": lambda json, depth: Const(constants.decode(json.field("const"))),
    "tuple": _read_tuple,
    "list": lambda json, depth: ListOf(_read_items(json.field("list"), depth)),
    "dict": _read_dict,
    "object": _read_object,
    "choice": _read_union,
    "collection": _read_collection,
    "cell": lambda json, depth: CellOf((_read_item(json.field("cell"), depth),)),
    "shared": lambda json, depth: Shared(json.field("shared").integer(0), (_read_item(json.field("item"), depth),)),
    "absent": lambda json, depth: Absent(),
}
"""How each kind of structure is read, by the field that tells it."""
constants.hold_structures((TupleOf, ListOf, DictOf, ObjectOf, CellOf), to_json, from_json)
