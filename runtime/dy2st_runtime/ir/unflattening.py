"""Puts leaves back into a structure: new containers, functions, classes and objects at each call."""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dy2st_runtime.arrays.calls import as_array, of_bytes
from dy2st_runtime.ir.flattening import FACTORIES, follow_new
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
    Shared,
    Structure,
    TaggedUnionOf,
    TupleOf,
)
from dy2st_runtime.primitives import cells
from dy2st_runtime.primitives.cells import Cell

_ABSENT: Any = object()
"""Made where an item or attribute is left out."""


def unflatten(structure: Structure, leaves: Sequence[Any], results: dict[int, Any] | None = None) -> Any:
    """Put leaves back into a structure: the inverse of :func:`flatten`; new containers are made at each call.

    Args:
        structure: what to make.
        leaves: what the leaves stand for.
        results: the shared containers that are there already, by number; those made here are added.
    """
    results = {} if results is None else results
    match structure:
        case Leaf(index):
            return leaves[index]
        case Const(value):
            return value
        case TupleOf(items, factory):
            values = tuple(unflatten(item, leaves, results) for item in items)
            return _make_tuple(factory, values)
        case ListOf(items):
            return [unflatten(item, leaves, results) for item in items]
        case DictOf(keys, items, factory):
            return factory(_those_there(keys, items, leaves, results))
        case ObjectOf(factory, fields, items):
            return _make_object(factory, dict(_those_there(fields, items, leaves, results)))
        case _:
            return _unflatten_one(structure, leaves, results)


def _those_there(
    keys: Sequence[Any], items: Sequence[Structure], leaves: Sequence[Any], results: dict[int, Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a dict or attributes of an object that are there, with what they are called."""
    for key, item in zip(keys, items, strict=True):
        value = unflatten(item, leaves, results)
        if value is not _ABSENT:
            yield key, value


def _unflatten_one(
    structure: Absent | CollectionOf | AbstractOf | CellOf | HolderOf | Shared | TaggedUnionOf | Recreated,
    leaves: Sequence[Any],
    results: dict[int, Any],
) -> Any:
    match structure:
        case CollectionOf(kind, items, maxlen):
            inside = unflatten(items[0], leaves, results)
            return collections.deque(inside, maxlen) if kind == "deque" else collection(kind)(inside)
        case CellOf(items):
            return Cell(unflatten(items[0], leaves, results))
        case AbstractOf(kind, items, maxlen):
            return kind.of_list(unflatten(items[0], leaves, results), maxlen)
        case HolderOf(factory, fields, items, maxlen):
            inside = unflatten(items[0], leaves, results)
            return _make_holder(factory, maxlen, inside, dict(_those_there(fields, items[1:], leaves, results)))
        case Absent():
            return _ABSENT
        case Shared(number, items):
            if number not in results:
                result = _unflatten_shared(number, items[0], leaves, results)
                results.setdefault(number, result)
            return results[number]
        case TaggedUnionOf(tag, tags, items):
            which = unflatten(tag, leaves, results)
            if which is None and None not in tags:  # of what is not made on this way, so that nobody finds it
                return None
            return unflatten(items[tags.index(which)], leaves, results)
        case _:
            return _recreate(structure, leaves, results, None)


def _recreate(structure: Recreated, leaves: Sequence[Any], results: dict[int, Any], number: int | None) -> Any:
    """Return a function or class that is made anew, under a number if it has one, or an object of such a class."""
    match structure:
        case InstanceOf((kind, item)):
            item = _of_kind(item, unflatten(kind, leaves, results))
            return unflatten(item, leaves, results) if number is None else _unflatten_shared(number, item, leaves, results)
        case FunctionOf():
            return _make_function(structure, leaves, results, number)
        case ClassOf():
            return _make_class(structure, leaves, results, number)
        case BoundOf(kind, items):
            function, *given = (unflatten(item, leaves, results) for item in items)
            return functools.partial(function, *given[0], **given[1]) if kind is functools.partial else kind(function, *given)
    raise TypeError(f"no value is made of {structure}")


def _of_kind(structure: Structure, kind: type) -> Structure:
    """Return the same object of another class."""
    if isinstance(structure, (TaggedUnionOf, Shared)):
        return dataclasses.replace(structure, items=tuple(_of_kind(item, kind) for item in structure.items))
    return dataclasses.replace(structure, factory=kind)  # type: ignore[arg-type]  # an object or named tuple


_LATER = -1
"""The number under which variables wait for what they hold, which is still being made."""


def _make_function(structure: FunctionOf, leaves: Sequence[Any], results: dict[int, Any], number: int | None) -> Any:
    old, (defaults, named, attributes_, *variables) = structure.function, structure.items
    later = results.setdefault(_LATER, [])
    cells = []
    for item in variables:
        place = item.number if isinstance(item, Shared) else None
        inside = item.items[0] if isinstance(item, Shared) and item.items else item
        if isinstance(inside, Const):  # one that is there
            cells.append(inside.value)
        elif place is not None and place in results:
            cells.append(results[place])
        else:
            cells.append(types.CellType())
            results.update({} if place is None else {place: cells[-1]})
            later += [(cells[-1], part) for part in inside.items]  # type: ignore[union-attr]  # a variable
    new = types.FunctionType(old.__code__, old.__globals__, old.__name__, None, tuple(cells))
    new.__qualname__, new.__doc__, new.__module__ = old.__qualname__, old.__doc__, old.__module__
    new.__annotations__ = dict(old.__annotations__)
    if number is not None:
        results[number] = new
    new.__defaults__, new.__kwdefaults__ = unflatten(defaults, leaves, results), unflatten(named, leaves, results)
    new.__dict__.update(unflatten(attributes_, leaves, results))
    _fill_variables(leaves, results)
    return new


def _fill_variables(leaves: Sequence[Any], results: dict[int, Any]) -> None:
    """Have variables hold what is there by now."""
    waiting, results[_LATER] = results[_LATER], []
    for cell, inside in waiting:
        if isinstance(inside, Shared) and not inside.items and inside.number not in results:
            results[_LATER].append((cell, inside))
        else:
            cell.cell_contents = unflatten(inside, leaves, results)


def _make_class(structure: ClassOf, leaves: Sequence[Any], results: dict[int, Any], number: int | None) -> Any:
    old, (bases, *items) = structure.kind, structure.items
    results.setdefault(_LATER, [])
    held = {name: unflatten(item, leaves, results) for name, item in zip(structure.names, items, strict=True)}
    new = type(old)(old.__name__, unflatten(bases, leaves, results), held)
    new.__qualname__ = old.__qualname__
    if number is not None:
        results[number] = new
    _fill_variables(leaves, results)
    return new


def _unflatten_shared(number: int, structure: Structure, leaves: Sequence[Any], results: dict[int, Any]) -> Any:
    """Return the same of a container that may hold itself: it is there before what is in it."""
    match structure:
        case TaggedUnionOf(tag, tags, items):
            return _unflatten_shared(number, items[tags.index(unflatten(tag, leaves, results))], leaves, results)
        case InstanceOf() | FunctionOf() | ClassOf():
            return _recreate(structure, leaves, results, number)
        case ListOf(items):
            collected: list[Any] = []
            results[number] = collected
            collected += [unflatten(item, leaves, results) for item in items]
            return collected
        case DictOf(keys, items, factory):
            results[number] = table = factory()
            for key, value in _those_there(keys, items, leaves, results):
                table[key] = value
            return table
        case ObjectOf(factory, fields, items) if not issubclass(factory, dict):
            results[number] = owner = _new_object(factory)
            for name, value in _those_there(fields, items, leaves, results):
                object.__setattr__(owner, name, value)
            return owner
    return unflatten(structure, leaves, results)


_TABLES: dict[str, Callable[..., Any]] = {
    "dict": dict, "OrderedDict": collections.OrderedDict, "Counter": lambda pairs: collections.Counter(dict(pairs)),
}  # fmt: skip
"""What makes a dict of each kind from its items."""


def zipped(kind: str, parts: Sequence[Any]) -> Any:
    """Return the dict of a kind with these keys and what is under them.

    Example:
        >>> zipped("dict", ([3, 1], ["a", "b"]))
        {3: 'a', 1: 'b'}
    """
    return _TABLES[kind](zip(*parts, strict=True))


def resolved(kind: str, items: list[Any]) -> list[Any]:
    """Put dicts and sets in the places of what stands for them in a list of a program; gives the list.

    Args:
        kind: of the dicts that are neither sets nor ``defaultdict``.
        items: the list.
    """
    return _resolved(kind, items, {})  # type: ignore[no-any-return]


def _resolved(kind: str, value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    if id(value) in known:
        return known[id(value)][1]
    if type(value) is list:
        known[id(value)] = value, value
        value[:] = [_resolved(kind, item, known) for item in value]
    elif type(value) is tuple:
        parts = [_resolved(kind, item, known) for item in value]
        return value if all(new is old for new, old in zip(parts, value)) else tuple(parts)
    elif hasattr(value, "_dy2st_keys"):
        known[id(value)] = value, _resolved_table(kind, value, known)
        return known[id(value)][1]
    elif type(value) not in cells.PLAIN and not isinstance(value, cells.WITHOUT_CELLS):
        known[id(value)] = value, value
        for name, part in cells.parts(value):
            item = _resolved(kind, part, known)
            if item is not part:
                cells.put(value, name, item)
    return value


def _resolved_table(kind: str, table: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    keys = _resolved(kind, table._dy2st_keys, known)
    if not hasattr(table, "_dy2st_values"):
        return set(keys)
    values = _resolved(kind, table._dy2st_values, known)
    if hasattr(table, "default_factory"):
        return collections.defaultdict(table.default_factory, zip(keys, values, strict=True))
    return zipped(kind, (keys, values))


COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "set": set,
    **{f"zipped {kind}": functools.partial(zipped, kind) for kind in _TABLES},
    **{f"resolved {kind}": functools.partial(resolved, kind) for kind in _TABLES},
    "tuple": tuple,
    "range": lambda bounds: range(*bounds),
    "complex": lambda parts: complex(*parts),
    **{name: operator.methodcaller(name) for name in ("keys", "values", "items")},
    "numpy.generic": lambda tensor: as_array(tensor)[()],
    "numpy.dtype": np.dtype,
    "ordered": lambda parts: in_order(*parts),
    "Counter": collections.Counter,
    "defaultdict": lambda parts: collections.defaultdict(*parts),
    **{f"defaultdict({name})": functools.partial(collections.defaultdict, factory) for name, factory in FACTORIES.items()},
}


def in_order(table: Any, ranks: Mapping[Any, int]) -> Any:
    """Put the keys of a dict in the order of their ranks; gives the dict.

    Example:
        >>> in_order({"a": 1, "b": 2}, {"a": 5, "b": 3})
        {'b': 2, 'a': 1}
    """
    kind = collections.OrderedDict if isinstance(table, collections.OrderedDict) else dict
    for key in sorted(kind.keys(table), key=ranks.__getitem__):
        item = dict.__getitem__(table, key)
        kind.__delitem__(table, key)
        kind.__setitem__(table, key, item)
    return table


def collection(kind: str) -> Callable[[Any], Any]:
    """Return what makes a collection of a kind from what is in it.

    Raises:
        KeyError: there is no such kind.
    """
    if backwards := _ARRAY.fullmatch(kind):
        return functools.partial(as_array, flips=[int(dim) for dim in backwards[1].split()])
    if constant := _CONSTANT_ARRAY.fullmatch(kind):
        return functools.partial(of_bytes, constant[1], [int(size) for size in constant[2].split()])
    if number := _CONSTANT_NUMBER.fullmatch(kind):
        return lambda contents: of_bytes(number[1], (), contents)[()]
    return COLLECTIONS[kind]


def is_collection(kind: str) -> bool:
    """Tell whether there is such a kind."""
    return kind in COLLECTIONS or any(pattern.fullmatch(kind) for pattern in (_ARRAY, _CONSTANT_ARRAY, _CONSTANT_NUMBER))


_ARRAY = re.compile(r"ndarray\[([0-9 ]*)\]", re.ASCII)
"""An array of NumPy in the memory of a tensor, and the dimensions in which it runs backwards."""
_CONSTANT_ARRAY = re.compile(r"numpy\.array\[([<>|][biufc][0-9]+) ([0-9 ]*)\]", re.ASCII)
"""One that is made of bytes, its dtype and its shape."""
_CONSTANT_NUMBER = re.compile(r"numpy\.generic\[([<>|][biufc][0-9]+)\]", re.ASCII)


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
        if not dataclasses.is_dataclass(factory):
            return factory(**fields)  # what stands for a class of the process that saved a program
        rest = dict.fromkeys(field.name for field in dataclasses.fields(factory))
        return _make_holder(factory, None, fields, rest | fields)  # what its constructor does has been done
    result = _new_object(factory)
    for name, value in fields.items():
        object.__setattr__(result, name, value)
    return result


HOLDERS: tuple[Any, ...] = (collections.OrderedDict, dict, list, collections.deque)
"""The classes in C of what has items, the more special ones first."""


def empty_like(holder: Any) -> Any:
    """Return a list, dict or deque of the same class with nothing in it, made without calling the methods of the class."""
    return _make_holder(type(holder), getattr(holder, "maxlen", None), {}, {})


def _make_holder(factory: Any, maxlen: int | None, inside: Any, fields: dict[str, Any]) -> Any:
    base: Any = next(kind for kind in HOLDERS if issubclass(factory, kind))
    result = base.__new__(factory)
    if base is collections.deque:
        base.__init__(result, inside, maxlen)
    elif base is list:
        base.extend(result, inside)
    else:
        for key, item in inside.items():
            base.__setitem__(result, key, item)
    for name, value in fields.items():
        object.__setattr__(result, name, value)
    return result


def _new_object(factory: type) -> Any:
    result: Any = object.__new__(factory)
    follow_new(result)
    return result
