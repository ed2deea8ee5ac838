"""Nested Python values whose leaves are numbered: how arguments and results of a program are put together.

``(x, {"a": y}, 3)`` is ``TupleOf((Leaf(0), DictOf(("a",), (Leaf(1),)), Const(3)))``. A structure is immutable and
hashable, so it can be part of a cache key, and made only of plain data unless it holds a :class:`Const` of a live
object.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any


def exact(value: Any) -> Any:
    """Return what tells a constant from all that it cannot stand for: its type, the sign of a zero; a nan is like any other."""
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
class Absent:
    """An item of a dict, or an attribute of an object, that is not there: an option of a union that stands for the item."""

    items: tuple[Structure, ...] = ()


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


@dataclasses.dataclass(frozen=True)
class BoundOf:
    """A method of something that is made anew, or a partial function.

    ``items`` has what is called; then what a method is bound to, or the arguments of a partial function and those by name.
    """

    kind: type
    items: tuple[Structure, ...]


Recreated = VariableOf | FunctionOf | ClassOf | InstanceOf | BoundOf
Structure = (
    Leaf
    | Const
    | TupleOf
    | ListOf
    | DictOf
    | ObjectOf
    | Absent
    | TaggedUnionOf
    | CollectionOf
    | AbstractOf
    | CellOf
    | HolderOf
    | Shared
    | Recreated
)


def _same_constant(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in (int, float, complex, str, bytes, tuple, frozenset, range, slice):
        compares = type(a).__eq__ is not object.__eq__  # type: ignore[comparison-overlap]  # a class may inherit it
        return type(a) is type(b) and compares and bool(a == b)
    return bool(exact(a) == exact(b))  # 0.0 is not -0.0, (1,) is not (True,)


def walk(structure: Structure) -> Iterator[Structure]:
    """Yield the structure and everything in it, outside first."""
    yield structure
    if isinstance(structure, TaggedUnionOf):
        yield from walk(structure.tag)
    for item in getattr(structure, "items", ()):
        yield from walk(item)


def marked(structure: Structure, paths: Sequence[tuple[Any, ...]]) -> Structure:
    """Return a structure in which the containers at some paths are shared, under the positions of their paths.

    Raises:
        ValueError: there is no list, dict or object at a path.

    Example:
        >>> marked(TupleOf((ListOf(()),)), [(0,)])
        TupleOf(items=(Shared(number=0, items=(ListOf(items=()),)),), factory=None)
    """
    result = set[int]()

    def visit(part: Structure, path: tuple[Any, ...]) -> Structure:
        match part:
            case DictOf(keys):
                pass
            case ObjectOf(_, keys):
                pass
            case TupleOf(items) | ListOf(items):
                keys = tuple(range(len(items)))
            case CollectionOf():
                keys = (0,)
            case _:
                return part
        items = tuple(visit(item, (*path, key)) for key, item in zip(keys, part.items, strict=True))
        value: Structure = dataclasses.replace(part, items=items)
        if path not in paths:
            return value
        result.add(paths.index(path))
        return Shared(paths.index(path), (value,))

    value = visit(structure, ())
    if len(result) < len(set(paths)):
        raise ValueError("a container of the arguments is named that they do not have")
    return value


def ordered(structure: Structure, orders: Collection[tuple[Any, ...]]) -> Structure:
    """Return a structure in which mappings and objects with some keys are ordered ones, which no other order of the keys can
    stand for.
    """
    if isinstance(structure, (Leaf, Const)):
        return structure
    items = tuple(ordered(item, orders) for item in structure.items)
    if isinstance(structure, DictOf) and structure.keys in orders:
        return DictOf(structure.keys, items, collections.OrderedDict)
    if isinstance(structure, ObjectOf) and structure.fields in orders:
        return dataclasses.replace(structure, items=items, in_order=True)
    return dataclasses.replace(structure, items=items)
