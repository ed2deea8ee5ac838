"""Takes nested values apart: their structure, and the leaves in order."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from dy2st_runtime.ir.structure import (
    AbstractOf,
    CellOf,
    CollectionOf,
    Const,
    DictOf,
    HolderOf,
    Leaf,
    ListOf,
    ObjectOf,
    Shared,
    Structure,
    TupleOf,
)
from dy2st_runtime.primitives.cells import Cell, slots_of

FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "set": set, "int": int, "float": float, "None": None}
ANY_FACTORY = "defaultdict"


def kind_of_table(value: Any) -> str | None:
    """Return the kind of collection that a ``Counter`` or ``defaultdict`` is; ``None`` for anything else.

    One whose factory has no name here is made of the factory and what is in it.
    """
    if type(value) is collections.Counter:
        return "Counter"
    if type(value) is not collections.defaultdict:
        return None
    names = (f"defaultdict({name})" for name, factory in FACTORIES.items() if value.default_factory is factory)
    return next(names, ANY_FACTORY)


def children(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]] | None:
    """Return the parts of a container and how to describe it from those of its parts; ``None`` for anything else."""
    kind = type(value)
    if isinstance(value, tuple):
        factory = None if kind is tuple else kind
        return value if kind is tuple else tuple(tuple.__iter__(value)), lambda items: TupleOf(items, factory)
    if kind is list:
        return value, ListOf
    if kind in (dict, collections.OrderedDict):
        return _of_dict(value)
    if kind in (collections.Counter, collections.defaultdict) and kind_of_table(value) != ANY_FACTORY:
        keys, name = tuple(value), str(kind_of_table(value))
        return list(value.values()), lambda items: CollectionOf(name, (DictOf(keys, items, dict),))
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):
        return _of_dict_with_fields(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        result = attributes(value)  # past the methods of the user's class
        fields = tuple(dict.fromkeys([*_slots(kind, result), *result]))
        return [result[name] for name in fields], lambda items: ObjectOf(kind, fields, items)
    if is_followed(value) and not _holds_itself(value):
        result = attributes(value)
        return list(result.values()), lambda items: ObjectOf(kind, tuple(result), items)
    if kind is Cell:
        return [value.items], CellOf
    if "of_list" in vars(kind) and hasattr(kind, "__dy2st_stands_in__"):
        return [value.items], lambda items: AbstractOf(kind, items, value.maxlen)
    return None


def _of_dict(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]]:
    kind = type(value)
    keys = tuple(value)
    if kind is collections.OrderedDict and vars(value):  # what state_dict() gives
        names, count = tuple(vars(value)), len(keys)
        parts = [*value.values(), *vars(value).values()]
        return parts, lambda items: HolderOf(kind, names, (DictOf(keys, items[:count]), *items[count:]))
    return list(value.values()), lambda items: DictOf(keys, items, kind)


def _of_dict_with_fields(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]]:
    """Return the parts of a dict that is a dataclass: where its items are its fields that are not ``None``, in any order, those
    alone.
    """
    kind = type(value)
    result, names = attributes(value), [field.name for field in dataclasses.fields(kind)]
    base: Any = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    keys = tuple(base.__iter__(value))
    inside = [dict.__getitem__(value, key) for key in keys]  # past the methods of the user's class
    fields = {name for name in names if result.get(name) is not None}
    if fields == set(keys) and result.keys() == set(names) and all(result[key] is item for key, item in zip(keys, inside)):
        return inside, lambda items: ObjectOf(kind, keys, items)
    own, count = tuple(result), len(keys)
    return [*inside, *result.values()], lambda items: HolderOf(kind, own, (DictOf(keys, items[:count]), *items[count:]))


def _slots(kind: Any, results: Collection[str]) -> Iterator[str]:
    """Yield the fields of a dataclass that are in slots, which have no order but that of the class."""
    for field in dataclasses.fields(kind):
        if field.name in results and isinstance(getattr(kind, field.name, None), types.MemberDescriptorType):
            yield field.name


_local = threading.local()


def shallow(value: Any) -> tuple[list[Any], Structure]:
    """Return the parts of a container, and its structure with a leaf for each; of anything else a constant."""
    parts = children(value)
    if parts is None:
        return [], Const(value)
    return list(parts[0]), parts[1](tuple(map(Leaf, range(len(parts[0])))))


def follow(objects: dict[int, Any] | None) -> dict[int, Any] | None:
    """Take these objects of plain classes, by identity, as containers of their attributes, in this thread; gives those before."""
    before: dict[int, Any] | None = getattr(_local, "objects", None)
    _local.objects = objects
    return before


def follow_new(value: Any) -> None:
    """Note that an object of a plain class that has just been made is taken as those are that :func:`follow` was given."""
    objects = getattr(_local, "objects", None)
    if objects is not None:
        objects[id(value)] = value


def is_followed(value: Any) -> bool:
    """Tell whether an object of a plain class is a container of its attributes."""
    objects = getattr(_local, "objects", None)
    return objects is not None and id(value) in objects


def attributes(value: Any) -> dict[str, Any]:
    """Return what an object has in its slots and its dict; what this library keeps there is left out."""
    results: dict[str, Any] = {}
    for name, described in slots_of(type(value)):
        with contextlib.suppress(AttributeError):
            results[name] = described.__get__(value, type(value))
    try:
        table = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return results
    return results | {name: item for name, item in table.items() if not name.startswith("__dy2st_")}


def has_slots(kind: type) -> bool:
    """Tell whether objects of a class have attributes that are not in their ``__dict__``."""
    return bool(slots_of(kind)) or kind.__dictoffset__ == 0


def parts_of(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]] | None:
    """Return what :func:`children` gives, also for objects of plain classes that hold themselves."""
    if not is_followed(value) or dataclasses.is_dataclass(value) or isinstance(value, (dict, list, tuple)):
        return children(value)
    result = attributes(value)
    return list(result.values()), lambda items: ObjectOf(type(value), tuple(result), items)


def _holds_itself(value: Any) -> bool:
    """Tell whether there is a way from an object back to it."""
    seen, waiting = set[int](), list(attributes(value).values())
    while waiting:
        part = waiting.pop()
        if part is value:
            return True
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
        elif is_followed(part) or (dataclasses.is_dataclass(part) and not isinstance(part, type)):
            waiting += attributes(part).values()
    return False


def flatten(
    value: Any, is_leaf: Callable[[Any], bool], leaves: list[Any] | None = None, repeated: Mapping[int, int] | None = None
) -> tuple[list[Any], Structure]:
    """Take a nested value apart.

    Args:
        value: any Python value; tuples, lists, dicts, named tuples and dataclass instances are taken apart.
        is_leaf: which values become leaves; every other value becomes a constant.
        leaves: an existing list to append to.
        repeated: what :func:`repeated_containers` gives for the value: these are described once, and are shared.

    Returns:
        The leaves in order and the structure that :func:`unflatten` puts them back into.

    Example:
        >>> flatten((1.5, [2.5]), lambda v: isinstance(v, float))
        ([1.5, 2.5], TupleOf(items=(Leaf(index=0), ListOf(items=(Leaf(index=1),))), factory=None))
    """
    results: list[Any] = [] if leaves is None else leaves
    numbers, seen = repeated or {}, set[int]()

    def visit(part: Any) -> Structure:
        if is_leaf(part):
            results.append(part)
            return Leaf(len(results) - 1)
        parts = children(part)
        if parts is None:
            return Const(part)
        if id(part) in seen:
            return Shared(numbers[id(part)], ())
        if id(part) in numbers:
            seen.add(id(part))
        items, describe = parts
        result = describe(tuple(visit(item) for item in items))
        return Shared(numbers[id(part)], (result,)) if id(part) in numbers else result

    return results, visit(value)


class HoldsItselfError(ValueError):
    """Lists, dicts or objects hold themselves.

    Args:
        parts: all such that have been met, by their identity.
    """

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts
        super().__init__(f"a {type(next(iter(parts.values()))).__name__} holds itself")


def repeated_containers(value: Any, is_leaf: Callable[[Any], bool]) -> dict[int, int]:
    """Return the mutable containers that stand more than once in a value: a number for each, by its identity.

    Raises:
        HoldsItselfError: some hold themselves.

    Example:
        >>> items = [1]
        >>> repeated_containers((items, [items], [2]), lambda value: False) == {id(items): 0}
        True
    """
    counts: dict[int, int] = {}
    around: list[Any] = []

    def visit(part: Any) -> None:
        parts = None if is_leaf(part) else children(part)
        if parts is None:
            return
        if any(part is other for other in around):
            first = next(at for at, other in enumerate(around) if other is part)
            raise HoldsItselfError({id(other): other for other in around[first:] if not isinstance(other, tuple)})
        counts[id(part)] = counts.get(id(part), 0) + (not isinstance(part, tuple))
        if counts[id(part)] < 2:
            around.append(part)
            for item in parts[0]:
                visit(item)
            around.pop()

    visit(value)
    return {key: number for number, key in enumerate(key for key, count in counts.items() if count > 1)}
