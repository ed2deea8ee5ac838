"""Values that stand for any value of a type, and what values of a type are made of: the leaves that the program passes along."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from dy2st.capture.types import absent_attributes, lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractTuple, contents
from dy2st.capture.values.symbolic import MAY_BE_ABSENT, TaggedUnion, Undefined, options_of, runtime_list, unpack_list
from dy2st.capture.values.texts import Text
from dy2st.capture.writes.places import AttributePlace, ItemPlace
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.unflattening import unflatten


def leaves(kind: value_types.Type, value: Any, out: list[Any]) -> None:
    """Append the program values that make up ``value`` seen as a ``kind``; a missing value gives ``None`` in each place."""
    if isinstance(value, TaggedUnion) and not isinstance(kind, value_types.TaggedUnionType):
        out += _one_of(kind, value, value.options)
        return
    match kind:
        case value_types.SameType() | value_types.UnboundType() | value_types.OrderType():
            return
        case value_types.TaggedUnionType(options):
            _union_leaves(options, value, out)
        case value_types.ContainerType(_, items):
            parts = [ABSENT] * len(items) if value is ABSENT else shallow(value)[0]
            for item, part in zip(items, parts):
                leaves(item, part, out)
        case _:
            out.append(None if value is ABSENT else _program_value(value))


def _program_value(value: Any) -> Any:
    return value.as_runtime_string() if isinstance(value, Text) else runtime_list(contents(value)) or value


def _union_leaves(options: tuple[value_types.Type, ...], value: Any, out: list[Any]) -> None:
    given: dict[int, dict[int, Any]] = {}
    if isinstance(value, TaggedUnion):
        places = {tag: place(options, option) for tag, option in value.options.items()}
        out.append(value.retagged(places))
        for tag, option in value.options.items():
            given.setdefault(places[tag], {})[tag] = option
    elif value is ABSENT:
        out.append(None)
    else:
        out.append(place(options, value))
        given = {out[-1]: {0: value}}
    for position, option in enumerate(options):
        out += _one_of(option, value, given.get(position) or {0: ABSENT})


def _one_of(kind: value_types.Type, union: Any, given: dict[int, Any]) -> list[Any]:
    """Return the leaves of the one among some options of a tagged union that is there, where several have come to be of one
    kind.
    """
    if isinstance(kind, value_types.StringType) and len(given) > 1:
        return [union.session.one_string(union.tag, {tag: _program_value(option) for tag, option in given.items()})]
    results: dict[int, list[Any]] = {tag: [] for tag in given}
    for tag, option in given.items():
        leaves(kind, option, results[tag])
    columns = [_with_any_for_missing(column) for column in zip(*results.values())]
    alike = [all(part is column[0] for part in column) for column in columns]
    if all(alike):
        return [column[0] for column in columns]
    rows = zip(*(column for column, same in zip(columns, alike) if not same))
    with lattice.telling_apart(frozenset()):  # each has become one value, whatever the options were told apart by
        chosen = iter(union.session.over(TaggedUnion(union.session, union.tag, dict(zip(results, rows))), tuple))
    return [column[0] if same else _program_value(next(chosen)) for column, same in zip(columns, alike)]


def _with_any_for_missing(column: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one leaf of each option; where an option has none, nobody will look at it."""
    present = next((part for part in column if part is not None), None)
    return tuple(present if part is None else part for part in column)


def place(options: tuple[value_types.Type, ...], value: Any) -> int:
    """Return the position of the option that a value fits; the object itself comes first, then what holds most of its objects.

    Raises:
        Mismatch: it fits none.
    """
    fitting = [position for position, option in enumerate(options) if _fits(option, value)]
    if not fitting:
        raise mismatches.Mismatch(
            f"{mismatches.text(lattice.type_of(value))} is none of {mismatches.text(value_types.TaggedUnionType(options))}"
        )
    return fitting[0] if len(fitting) == 1 else max(fitting, key=lambda position: _nearness(options[position], value))


def _nearness(kind: value_types.Type, value: Any) -> tuple[bool, int]:
    """Return whether a type is that of an object itself, and of how many of the objects in it."""
    match kind:
        case value_types.SameType():
            return kind.value is value, int(kind.value is value)
        case value_types.TaggedUnionType(options):
            return max(_nearness(option, part) for option in options for part in options_of(value))
        case value_types.ContainerType(_, items) if not isinstance(value, TaggedUnion) and children(value) is not None:
            parts = shallow(value)[0]
            return False, sum(_nearness(item, part)[1] for item, part in zip(items, parts))
    return False, 0


def _fits(kind: value_types.Type, value: Any) -> bool:
    if isinstance(kind, value_types.SameType) and kind.value is value:
        return True
    if isinstance(kind, value_types.StringType):
        return type(value) is str or lattice.type_of(value) == kind
    if isinstance(value, TaggedUnion) and not isinstance(kind, value_types.TaggedUnionType):
        return all(_fits(kind, option) for option in value.options.values())
    if isinstance(kind, value_types.TaggedUnionType):
        given = value.options.values() if isinstance(value, TaggedUnion) else (value,)
        return all(any(_fits(option, part) for option in kind.options) for part in given)
    if isinstance(kind, value_types.ContainerType) and children(value) is not None:
        parts, structure = shallow(value)
        return structure == kind.structure and all(map(_fits, kind.items, parts))
    try:
        return lattice.join_alike(kind, lattice.type_of(value), ()) == kind
    except mismatches.Mismatch:
        return False


ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>"})()
"""Stands for a value on a path that never gets there, or where it is missing."""


def absent(place: Any) -> Undefined:
    """Return what stands for the content of a place that does not exist: reading it raises what Python raises."""
    match place:
        case ItemPlace(owner, key) if storage.is_namespace(owner):
            return Undefined(str(key), NameError, (f"name '{key}' is not defined",))
        case ItemPlace(_, key):
            return Undefined(str(place), KeyError, (key,))
        case AttributePlace(owner, name):
            return Undefined(str(place), AttributeError, (absent_attributes.message(owner, name),))
    return Undefined(str(place))


class Maker(Protocol):
    """What makes new values: the session."""

    def new_value(self, kind: value_types.Type) -> Any: ...

    def new_union(self, tag: Any, options: dict[int, Any]) -> TaggedUnion: ...


def fresh(kind: value_types.Type, maker: Maker, out: list[Any]) -> Any:
    """Return a new value of a type; its tensors, numbers and lists are appended to ``out`` in the order of :func:`leaves`."""
    match kind:
        case value_types.SameType(value) | value_types.OrderType(value):
            return value
        case value_types.UnboundType(name, exception, arguments):
            return Undefined(name, exception, arguments)
        case value_types.TaggedUnionType(options):
            tag = maker.new_value(value_types.NumberType("int"))
            out.append(tag)
            first = len(out)
            result = maker.new_union(tag, {i: fresh(option, maker, out) for i, option in enumerate(options)})
            for leaf in out[first:]:
                if isinstance(leaf, torch.Tensor):
                    setattr(leaf, MAY_BE_ABSENT, True)
            return result
        case value_types.ContainerType(structure, items):
            return unflatten(structure, [unpack_list(fresh(item, maker, out)) for item in items])
        case _:
            out.append(maker.new_value(kind))
            return shown(kind, out[-1], maker)


def shown(kind: value_types.Type, value: Any, maker: Any) -> Any:
    """Return what the user's code has for a tensor, number, string or list of the program."""
    if isinstance(kind, value_types.StringType):
        return Text.of(value)
    return AbstractTuple(maker, value.items) if isinstance(kind, value_types.ListType) and kind.is_tuple else value
