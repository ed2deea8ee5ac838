"""Nested Python values whose leaves are numbered: how arguments and results of a program are put together.

``(x, {"a": y}, 3)`` is ``TupleOf((Leaf(0), DictOf(("a",), (Leaf(1),)), Const(3)))``. A structure is immutable and
hashable, so it can be part of a cache key, and made only of plain data unless it holds a :class:`Const` of a live
object.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import operator
import threading
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.ir import constants
from dy2st_runtime.ir.document import Json
from dy2st_runtime.primitives.cells import Cell


def exact(value: Any) -> Any:
    """What tells a constant from all that it cannot stand for: its type, the sign of a zero; a nan is like any other."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind in (range, slice):
        return kind, *map(exact, (value.start, value.stop, value.step))
    return (kind, kind(map(exact, value))) if kind in (tuple, frozenset) else (kind, value)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The value at position ``index`` of the flat list."""

    index: int


@dataclasses.dataclass(frozen=True)
class Const:
    """A Python value that is the same at every call; equal only to a constant of the same type."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and _same_constant(self.value, other.value)

    def __hash__(self) -> int:
        try:
            return hash(exact(self.value))
        except TypeError:
            return hash((type(self.value), id(self.value)))


@dataclasses.dataclass(frozen=True)
class TupleOf:
    """A tuple, or with ``factory`` a named tuple or ``torch.Size``."""

    items: tuple[Structure, ...]
    factory: type | None = None


@dataclasses.dataclass(frozen=True)
class ListOf:
    """A list."""

    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class DictOf:
    """A mapping with constant keys, in order; ``factory`` is its class."""

    keys: tuple[Any, ...]
    items: tuple[Structure, ...]
    factory: type = dict

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DictOf) or (self.factory, self.items) != (other.factory, other.items):
            return False
        return bool(exact(self.keys) == exact(other.keys))

    def __hash__(self) -> int:
        return hash((exact(self.keys), self.items, self.factory))


@dataclasses.dataclass(frozen=True)
class ObjectOf:
    """An instance of a dataclass, rebuilt field by field without calling ``__init__``.

    With ``in_order``, the program of which it is an argument goes through its attributes in this order.
    """

    factory: type
    fields: tuple[str, ...]
    items: tuple[Structure, ...]
    in_order: bool = False


@dataclasses.dataclass(frozen=True)
class TaggedUnionOf:
    """One of several values: the one at the position where ``tags`` has the value of ``tag``."""

    tag: Structure
    tags: tuple[int, ...]
    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class SameAs(TaggedUnionOf):
    """A tuple that may be one that was there before; the first of ``items`` gives one of what is in it, whichever it is."""


@dataclasses.dataclass(frozen=True)
class CollectionOf:
    """A set, deque, tuple or another dict (``kind``) of what one structure, the only one in ``items``, gives."""

    kind: str
    items: tuple[Structure, ...]
    maxlen: int | None = None


@dataclasses.dataclass(frozen=True)
class AbstractOf:
    """What stands for a deque while a program is made, of the list of what is in it; no program has one.

    Attributes:
        kind: the class of the abstract value, whose ``of_list`` makes one.
        items: the structure of that list, and nothing more.
        maxlen: of the deque.
    """

    kind: Any
    items: tuple[Structure, ...]
    maxlen: int | None


@dataclasses.dataclass(frozen=True)
class CellOf:
    """A :class:`~dy2st_runtime.primitives.cells.Cell`, with the structure of its list."""

    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class HolderOf:
    """A list, dict or deque of a class with attributes, made without calling its methods.

    The first of ``items`` gives what is in it, and the others the attributes named in ``fields``.
    """

    factory: type
    fields: tuple[str, ...]
    items: tuple[Structure, ...]
    maxlen: int | None = None


@dataclasses.dataclass(frozen=True)
class Shared:
    """A container that is one object wherever its number stands.

    ``items`` holds its structure alone; where a container of an argument stands again, nothing.
    """

    number: int
    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class VariableOf:
    """A variable that functions share, with what it holds; ``items`` is empty where it is not bound."""

    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class FunctionOf:
    """A function that is made anew, with the code of another one.

    ``items`` has its defaults, those by name, its attributes, and the variables of its closure.
    """

    function: types.FunctionType
    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class ClassOf:
    """A class that is made anew, like another one; the first of ``items`` gives its bases, the others what is under ``names``."""

    kind: type
    names: tuple[str, ...]
    items: tuple[Structure, ...]


@dataclasses.dataclass(frozen=True)
class InstanceOf:
    """An object of a class that is made anew: the class, and the object as it would be of the class that is there."""

    items: tuple[Structure, ...]


_Made = VariableOf | FunctionOf | ClassOf | InstanceOf
Structure = (
    Leaf
    | Const
    | TupleOf
    | ListOf
    | DictOf
    | ObjectOf
    | TaggedUnionOf
    | CollectionOf
    | AbstractOf
    | CellOf
    | HolderOf
    | Shared
    | _Made
)


def _same_constant(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in (int, float, complex, str, bytes, tuple, frozenset, range, slice):
        compares = type(a).__eq__ is not object.__eq__  # type: ignore[comparison-overlap]  # a class may inherit it
        return type(a) is type(b) and compares and bool(a == b)
    return bool(exact(a) == exact(b))  # 0.0 is not -0.0, (1,) is not (True,)


def children(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]] | None:
    """The parts of a container and how to describe it from those of its parts; ``None`` for anything else."""
    kind = type(value)
    if isinstance(value, tuple):
        factory = None if kind is tuple else kind
        return value if kind is tuple else tuple(tuple.__iter__(value)), lambda items: TupleOf(items, factory)
    if kind is list:
        return value, ListOf
    if kind in (dict, collections.OrderedDict):
        keys = tuple(value)
        return list(value.values()), lambda items: DictOf(keys, items, kind)
    if isinstance(value, dict) and dataclasses.is_dataclass(kind):  # a dict and a dataclass at once: both views must agree
        fields = tuple(f.name for f in dataclasses.fields(kind) if getattr(value, f.name) is not None)
        return [getattr(value, name) for name in fields], lambda items: ObjectOf(kind, fields, items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = attributes(value)  # past the methods of the user's class
        fields = tuple(dict.fromkeys([*_slots(kind, found), *found]))
        return [found[name] for name in fields], lambda items: ObjectOf(kind, fields, items)
    if is_followed(value) and not _holds_itself(value):
        found = attributes(value)
        return list(found.values()), lambda items: ObjectOf(kind, tuple(found), items)
    if kind is Cell:
        return [value.items], CellOf
    if "of_list" in vars(kind) and hasattr(kind, "__dy2st_stands_in__"):
        return [value.items], lambda items: AbstractOf(kind, items, value.maxlen)
    return None


def _slots(kind: Any, found: Collection[str]) -> Iterator[str]:
    """The fields of a dataclass that are in slots, which have no order but that of the class."""
    for field in dataclasses.fields(kind):
        if field.name in found and isinstance(getattr(kind, field.name, None), types.MemberDescriptorType):
            yield field.name


_local = threading.local()


def shallow(value: Any) -> tuple[list[Any], Structure]:
    """The parts of a container, and its structure with a leaf for each; of anything else a constant."""
    parts = children(value)
    if parts is None:
        return [], Const(value)
    return list(parts[0]), parts[1](tuple(map(Leaf, range(len(parts[0])))))


def follow(objects: dict[int, Any] | None) -> dict[int, Any] | None:
    """Take these objects of plain classes, by identity, as containers of their attributes, in this thread; gives those before."""
    before: dict[int, Any] | None = getattr(_local, "objects", None)
    _local.objects = objects
    return before


def is_followed(value: Any) -> bool:
    """Whether an object of a plain class is a container of its attributes."""
    objects = getattr(_local, "objects", None)
    return objects is not None and id(value) in objects


def attributes(value: Any) -> dict[str, Any]:
    """What an object has in its slots and its dict; what this library keeps there is left out."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        for name, described in vars(kind).items():
            if isinstance(described, types.MemberDescriptorType) and name != "__dict__":  # a SimpleNamespace has it like a slot
                with contextlib.suppress(AttributeError):
                    found[name] = described.__get__(value, type(value))
    try:
        table = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    return found | {name: item for name, item in table.items() if not name.startswith("__dy2st_")}


def parts_of(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]] | None:
    """What :func:`children` gives, also for objects of plain classes that hold themselves."""
    if not is_followed(value) or dataclasses.is_dataclass(value) or isinstance(value, (dict, list, tuple)):
        return children(value)
    found = attributes(value)
    return list(found.values()), lambda items: ObjectOf(type(value), tuple(found), items)


def _holds_itself(value: Any) -> bool:
    """Whether there is a way from an object back to it."""
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
    found: list[Any] = [] if leaves is None else leaves
    numbers, seen = repeated or {}, set[int]()

    def visit(part: Any) -> Structure:
        if is_leaf(part):
            found.append(part)
            return Leaf(len(found) - 1)
        parts = children(part)
        if parts is None:
            return Const(part)
        if id(part) in seen:
            return Shared(numbers[id(part)], ())
        if id(part) in numbers:
            seen.add(id(part))
        items, describe = parts
        made = describe(tuple(visit(item) for item in items))
        return Shared(numbers[id(part)], (made,)) if id(part) in numbers else made

    return found, visit(value)


class HoldsItselfError(ValueError):
    """Lists, dicts or objects hold themselves.

    Args:
        parts: all such that have been met, by their identity.
    """

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts
        super().__init__(f"a {type(next(iter(parts.values()))).__name__} holds itself")


def repeated_containers(value: Any, is_leaf: Callable[[Any], bool]) -> dict[int, int]:
    """The mutable containers that stand more than once in a value: a number for each, by its identity.

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


def unflatten(structure: Structure, leaves: Sequence[Any], made: dict[int, Any] | None = None) -> Any:
    """Put leaves back into a structure: the inverse of :func:`flatten`; new containers are made at each call.

    Args:
        structure: what to make.
        leaves: what the leaves stand for.
        made: the shared containers that are there already, by number; those made here are added.
    """
    made = {} if made is None else made
    match structure:
        case Leaf(index):
            return leaves[index]
        case Const(value):
            return value
        case TupleOf(items, factory):
            values = tuple(unflatten(item, leaves, made) for item in items)
            return _make_tuple(factory, values)
        case ListOf(items):
            return [unflatten(item, leaves, made) for item in items]
        case DictOf(keys, items, factory):
            return factory(zip(keys, (unflatten(item, leaves, made) for item in items), strict=True))
        case ObjectOf(factory, fields, items):
            return _make_object(factory, dict(zip(fields, (unflatten(item, leaves, made) for item in items), strict=True)))
        case _:
            return _unflatten_one(structure, leaves, made)


def _unflatten_one(
    structure: CollectionOf | AbstractOf | CellOf | HolderOf | Shared | TaggedUnionOf | _Made,
    leaves: Sequence[Any],
    made: dict[int, Any],
) -> Any:
    match structure:
        case CollectionOf(kind, items, maxlen):
            inside = unflatten(items[0], leaves, made)
            return collections.deque(inside, maxlen) if kind == "deque" else _COLLECTIONS[kind](inside)
        case CellOf(items):
            return Cell(unflatten(items[0], leaves, made))
        case AbstractOf(kind, items, maxlen):
            return kind.of_list(unflatten(items[0], leaves, made), maxlen)
        case HolderOf(factory, fields, items, maxlen):
            inside, *parts = (unflatten(item, leaves, made) for item in items)
            return _make_holder(factory, maxlen, inside, dict(zip(fields, parts)))
        case Shared(number, items):
            if number not in made:
                found = _unflatten_shared(number, items[0], leaves, made)
                made.setdefault(number, found)
            return made[number]
        case TaggedUnionOf(tag, tags, items):
            return unflatten(items[tags.index(unflatten(tag, leaves, made))], leaves, made)
        case _:
            return _unflatten_made(structure, leaves, made, None)


def _unflatten_made(structure: _Made, leaves: Sequence[Any], made: dict[int, Any], number: int | None) -> Any:
    """A function or class that is made anew, under a number if it has one, or an object of such a class."""
    match structure:
        case InstanceOf((kind, item)):
            item = _of_kind(item, unflatten(kind, leaves, made))
            return unflatten(item, leaves, made) if number is None else _unflatten_shared(number, item, leaves, made)
        case FunctionOf():
            return _make_function(structure, leaves, made, number)
        case ClassOf():
            return _make_class(structure, leaves, made, number)
    raise TypeError(f"no value is made of {structure}")


def _of_kind(structure: Structure, kind: type) -> Structure:
    """The same object of another class."""
    if isinstance(structure, (TaggedUnionOf, Shared)):
        return dataclasses.replace(structure, items=tuple(_of_kind(item, kind) for item in structure.items))
    return dataclasses.replace(structure, factory=kind)  # type: ignore[arg-type]  # an object or named tuple


_LATER = -1
"""The number under which variables wait for what they hold, which is still being made."""


def _make_function(structure: FunctionOf, leaves: Sequence[Any], made: dict[int, Any], number: int | None) -> Any:
    old, (defaults, named, attributes_, *variables) = structure.function, structure.items
    later = made.setdefault(_LATER, [])
    cells = []
    for item in variables:
        place = item.number if isinstance(item, Shared) else None
        inside = item.items[0] if isinstance(item, Shared) and item.items else item
        if isinstance(inside, Const):  # one that is there
            cells.append(inside.value)
        elif place is not None and place in made:
            cells.append(made[place])
        else:
            cells.append(types.CellType())
            made.update({} if place is None else {place: cells[-1]})
            later += [(cells[-1], part) for part in inside.items]  # type: ignore[union-attr]  # a variable
    new = types.FunctionType(old.__code__, old.__globals__, old.__name__, None, tuple(cells))
    new.__qualname__, new.__doc__, new.__module__ = old.__qualname__, old.__doc__, old.__module__
    new.__annotations__ = dict(old.__annotations__)
    if number is not None:
        made[number] = new
    new.__defaults__, new.__kwdefaults__ = unflatten(defaults, leaves, made), unflatten(named, leaves, made)
    new.__dict__.update(unflatten(attributes_, leaves, made))
    _fill_variables(leaves, made)
    return new


def _fill_variables(leaves: Sequence[Any], made: dict[int, Any]) -> None:
    """Have variables hold what is there by now."""
    waiting, made[_LATER] = made[_LATER], []
    for cell, inside in waiting:
        if isinstance(inside, Shared) and not inside.items and inside.number not in made:
            made[_LATER].append((cell, inside))
        else:
            cell.cell_contents = unflatten(inside, leaves, made)


def _make_class(structure: ClassOf, leaves: Sequence[Any], made: dict[int, Any], number: int | None) -> Any:
    old, (bases, *items) = structure.kind, structure.items
    made.setdefault(_LATER, [])
    held = {name: unflatten(item, leaves, made) for name, item in zip(structure.names, items, strict=True)}
    new = type(old)(old.__name__, unflatten(bases, leaves, made), held)
    new.__qualname__ = old.__qualname__
    if number is not None:
        made[number] = new
    _fill_variables(leaves, made)
    return new


def _unflatten_shared(number: int, structure: Structure, leaves: Sequence[Any], made: dict[int, Any]) -> Any:
    """The same of a container that may hold itself: it is there before what is in it."""
    match structure:
        case TaggedUnionOf(tag, tags, items):
            return _unflatten_shared(number, items[tags.index(unflatten(tag, leaves, made))], leaves, made)
        case InstanceOf() | FunctionOf() | ClassOf():
            return _unflatten_made(structure, leaves, made, number)
        case ListOf(items):
            found: list[Any] = []
            made[number] = found
            found += [unflatten(item, leaves, made) for item in items]
            return found
        case DictOf(keys, items, factory):
            made[number] = table = factory()
            for key, item in zip(keys, items, strict=True):
                table[key] = unflatten(item, leaves, made)
            return table
        case ObjectOf(factory, fields, items) if not issubclass(factory, dict):
            made[number] = owner = _new_object(factory)
            for name, item in zip(fields, items, strict=True):
                object.__setattr__(owner, name, unflatten(item, leaves, made))
            return owner
    return unflatten(structure, leaves, made)


_FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "set": set, "int": int, "float": float, "None": None}
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "set": set,
    "tuple": tuple,
    "range": lambda bounds: range(*bounds),
    **{name: operator.methodcaller(name) for name in ("keys", "values", "items")},
    "Counter": collections.Counter,
    **{f"defaultdict({name})": functools.partial(collections.defaultdict, factory) for name, factory in _FACTORIES.items()},
}


def kind_of_table(value: Any) -> str | None:
    """The kind of collection that a ``Counter`` or ``defaultdict`` is; ``None`` for anything else."""
    if type(value) is collections.Counter:
        return "Counter"
    if type(value) is not collections.defaultdict:
        return None
    names = (f"defaultdict({name})" for name, factory in _FACTORIES.items() if value.default_factory is factory)
    return next(names, None)


_HEAP_TYPE = 1 << 9
"""The flag of classes that a ``class`` statement makes (CPython's ``Py_TPFLAGS_HEAPTYPE``)."""


def _make_tuple(factory: type | None, values: tuple[Any, ...]) -> Any:
    if factory is None:
        return values
    in_c: Any = next(kind for kind in factory.__mro__ if not kind.__flags__ & _HEAP_TYPE)
    if hasattr(factory, "n_fields"):  # one in C that has names too
        return factory(values)
    return in_c.__new__(factory, values)  # past a ``__new__`` of the user's, which has run


def _make_object(factory: type, fields: dict[str, Any]) -> Any:
    if issubclass(factory, dict):
        return factory(**fields)
    made = _new_object(factory)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


HOLDERS: tuple[Any, ...] = (collections.OrderedDict, dict, list, collections.deque)
"""The classes in C of what has items, the more special ones first."""


def empty_like(holder: Any) -> Any:
    """A list, dict or deque of the same class with nothing in it, made without calling the methods of the class."""
    return _make_holder(type(holder), getattr(holder, "maxlen", None), {}, {})


def _make_holder(factory: Any, maxlen: int | None, inside: Any, fields: dict[str, Any]) -> Any:
    base: Any = next(kind for kind in HOLDERS if issubclass(factory, kind))
    made = base.__new__(factory)
    if base is collections.deque:
        base.__init__(made, inside, maxlen)
    elif base is list:
        base.extend(made, inside)
    else:
        for key, item in inside.items():
            base.__setitem__(made, key, item)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _new_object(factory: type) -> Any:
    made: Any = object.__new__(factory)
    objects = getattr(_local, "objects", None)
    if objects is not None:
        objects[id(made)] = made
    return made


def walk(structure: Structure) -> Iterator[Structure]:
    """The structure and everything in it, outside first."""
    yield structure
    if isinstance(structure, TaggedUnionOf):
        yield from walk(structure.tag)
    for item in getattr(structure, "items", ()):
        yield from walk(item)


def marked(structure: Structure, paths: Sequence[tuple[Any, ...]]) -> Structure:
    """A structure in which the containers at some paths are shared, under the positions of their paths.

    Raises:
        ValueError: there is no list, dict or object at a path.

    Example:
        >>> marked(TupleOf((ListOf(()),)), [(0,)])
        TupleOf(items=(Shared(number=0, items=(ListOf(items=()),)),), factory=None)
    """
    found = set[int]()

    def visit(part: Structure, path: tuple[Any, ...]) -> Structure:
        match part:
            case DictOf(keys):
                pass
            case ObjectOf(_, keys):
                pass
            case TupleOf(items) | ListOf(items):
                keys = tuple(range(len(items)))
            case _:
                return part
        items = tuple(visit(item, (*path, key)) for key, item in zip(keys, part.items, strict=True))
        made: Structure = dataclasses.replace(part, items=items)
        if path not in paths:
            return made
        found.add(paths.index(path))
        return Shared(paths.index(path), (made,))

    made = visit(structure, ())
    if len(found) < len(set(paths)):
        raise ValueError("a container of the arguments is named that they do not have")
    return made


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
            made = {"object": [to_json(item) for item in items], "name": factory.__name__, "fields": list(fields)}
            return made | ({"mapping": True} if issubclass(factory, dict) else {}) | ({"ordered": True} if in_order else {})
        case CollectionOf(kind, items, maxlen):
            return {"collection": to_json(items[0]), "kind": kind, "maxlen": constants.encode(maxlen)}
        case HolderOf() | Shared() | CellOf() | AbstractOf() | InstanceOf() | FunctionOf() | ClassOf() | VariableOf():
            return _container_to_json(structure)
        case TaggedUnionOf(tag, tags, items):
            made = {"choice": [[number, to_json(item)] for number, item in zip(tags, items, strict=True)], "tag": to_json(tag)}
            return made | ({"same": True} if isinstance(structure, SameAs) else {})


def _container_to_json(structure: HolderOf | Shared | CellOf | AbstractOf | _Made) -> Any:
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


def ordered(structure: Structure, orders: Collection[tuple[Any, ...]]) -> Structure:
    """A structure in which mappings and objects with some keys are ordered ones, which no other order of the keys can stand for."""
    if isinstance(structure, (Leaf, Const)):
        return structure
    items = tuple(ordered(item, orders) for item in structure.items)
    if isinstance(structure, DictOf) and structure.keys in orders:
        return DictOf(structure.keys, items, collections.OrderedDict)
    if isinstance(structure, ObjectOf) and structure.fields in orders:
        return dataclasses.replace(structure, items=items, in_order=True)
    return dataclasses.replace(structure, items=items)


def from_json(json: Json, depth: int = 0) -> Structure:
    """The inverse of :func:`to_json`; a class of the saving process comes back as one of the same name and fields.

    Raises:
        LoadError: it is no structure, with its place.
    """
    if depth > constants.MAX_DEPTH:
        json.fail(f"at most {constants.MAX_DEPTH} levels")
    kind = next((key for key in _READERS if json.optional(key) is not None), None)
    if kind is None:
        json.fail("a structure")
    return _READERS[kind](json, depth + 1)


def _read_items(json: Json, depth: int) -> tuple[Structure, ...]:
    return tuple(from_json(item, depth) for item in json.array())


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
    return kind(from_json(json.field("tag"), depth), tags, tuple(from_json(item, depth) for _, item in pairs))


def _read_collection(json: Json, depth: int) -> Structure:
    kind, maxlen = json.field("kind"), constants.decode(json.field("maxlen"))
    if kind.text() not in ("deque", *_COLLECTIONS):
        kind.fail("set, deque or tuple")
    if maxlen is not None and (type(maxlen) is not int or maxlen < 0):
        json.field("maxlen").fail("a length")
    return CollectionOf(kind.text(), (from_json(json.field("collection"), depth),), maxlen)


def _read_object(json: Json, depth: int) -> Structure:
    fields, items = _read_fields(json), _read_items(json.field("object"), depth)
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
    "cell": lambda json, depth: CellOf((from_json(json.field("cell"), depth),)),
    "shared": lambda json, depth: Shared(json.field("shared").integer(0), (from_json(json.field("item"), depth),)),
}
"""How each kind of structure is read, by the field that tells it."""

constants.hold_structures((TupleOf, ListOf, DictOf, ObjectOf, CellOf), to_json, from_json)
