"""Items of lists of the program: what may be one, as which value the program holds it, and what the capture has for it.

names.append("odd")               the program's list holds the string; what is read from it later is one of the strings that
                                  have been put in
outs.append({"h": h, "k": k})     the program makes a dict; what is read is a dict of its parts
outs.append(self.state)           what comes from outside is held itself, and guarded: what is read is one of those objects

A dict or object of the function's own in a list of the program is a copy for the capture. So nobody may change it afterwards,
neither what was put in nor what is read.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from dy2st import errors
from dy2st.capture.branching import unions
from dy2st.capture.objects import cells, table_sites
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.types import lattice, value_types
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractObject, AbstractTuple, example_of
from dy2st.capture.values.kinds import is_number, number_kind
from dy2st.capture.values.signals import NeedsApart, NeedsMade, NeedsRuntimeList
from dy2st.capture.values.symbolic import (
    SYMBOLIC_NUMBERS,
    OfEachCall,
    RuntimeList,
    Stale,
    TaggedUnion,
    may_be_undefined,
    unpack_list,
)
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import CellOf, Const, ObjectOf, TupleOf
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.cells import Cell

CONSTANTS = (
    str, bytes, complex, range, type(None), type(...), enum.Enum, torch.dtype, torch.device, torch.layout, torch.memory_format,
    type, types.BuiltinFunctionType, torch.nn.Module, np.generic,
)  # fmt: skip
"""What is an item as the object that it is."""


def normalized(session: Session, value: Any, inside: bool = False) -> Any:
    """Return a value as an item: lists in it become lists of the program, texts are made.

    Args:
        inside: whether it is part of an object, which may have a cell for it.

    Raises:
        CaptureError: it cannot be an item.
    """
    if type(value) is Cell and not inside:
        Cell.refuse()
    if isinstance(value, TaggedUnion):
        value = unions.bound(value)
        if not isinstance(value, TaggedUnion):
            return normalized(session, value, inside)
        options = {tag: option for tag, option in value.options.items() if session.shapes.known(value.tag == tag) is not False}
        if len(options) == 1:
            return normalized(session, next(iter(options.values())), inside)
        return TaggedUnion(session, value.tag, {tag: normalized(session, option, inside) for tag, option in options.items()})
    value = session.lists.of(value) or value
    if isinstance(value, RuntimeList):
        value.alone = False
        return value
    if isinstance(value, Text):
        return text.as_runtime_string(session, value)
    if is_outside(session, value):
        session.outside.require_input(value)
        session.tracker.identity(value)
        return value
    return _list(session, value) if type(value) is list else _new_item(session, value)


def _new_item(session: Session, value: Any) -> Any:
    if isinstance(value, OfEachCall):
        value.fail()
    if isinstance(value, AbstractTuple):
        raise errors.CaptureError(
            "a tuple of a length that is known only at run time is put in a list that changes length inside a captured block",
            session.here(),
            fix="put in a list: list(items)",
        )
    if isinstance(value, (torch.Tensor, RuntimeString, *SYMBOLIC_NUMBERS)) or is_number(value):
        return value
    return value if _is_constant(value) else _container(session, value)


def is_outside(session: Session, value: Any) -> bool:
    """Tell whether a value is an object from outside, which the program holds itself: it has to be this very one at each call."""
    if isinstance(value, (torch.Tensor, tuple, slice, *SYMBOLIC_NUMBERS)) or type(value) is list or is_number(value):
        return False
    if isinstance(value, types.MethodType):
        return is_outside(session, value.__self__)
    return session.tracker.source_of(value) is not None and not session.tracker.stands_in(value)


def _list(session: Session, items: list[Any]) -> RuntimeList:
    if session.allocations.allocated_at(items) is None and session.tracker.source_of(items) is None:
        session.lists.own(items)  # code that was not converted has just made it: the __init__ of a dataclass
    if not session.lists.owner_is_here(items):
        raise NeedsRuntimeList(items)
    result = session.lists.make(items)
    result.alone = False
    return result


def _is_constant(value: Any) -> bool:
    if isinstance(value, slice):
        return not any(isinstance(part, (*SYMBOLIC_NUMBERS, torch.Tensor)) for part in (value.start, value.stop, value.step))
    if isinstance(value, types.FunctionType):
        return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__)
    return isinstance(value, CONSTANTS)


def _container(session: Session, value: Any) -> Any:
    if isinstance(value, Stale):
        value.fail()
    parts = children(value)
    if parts is None or any(map(may_be_undefined, parts[0])) or isinstance(value, (AbstractArray, AbstractObject)):
        kind = example_of(value).__class__.__name__
        error = errors.CaptureError(
            f"a value of class {kind} is put in a list that changes length inside a captured block",
            session.here(),
            fix="put in tensors, numbers, strings, None, tuples, lists, dicts and dataclasses of them",
        )
        table_sites.require(session, value, error)
    _, structure = shallow(value)
    return unflatten(structure, [unpack_list(normalized(session, part, inside=True)) for part in parts[0]])


def item_node(session: Session, value: Any, normalized: Any) -> Any:
    """Return a value that is put in, as an argument of a node; an object in it that the program has made already is that one.

    Args:
        normalized: the value, normalized.
    """
    value = unions.bound(value) if isinstance(value, TaggedUnion) else value
    if isinstance(value, TaggedUnion) and isinstance(normalized, TaggedUnion):
        options = {tag: item_node(session, value.options[tag], option) for tag, option in normalized.options.items()}
        return _chosen(session, normalized.tag, options)
    if is_outside(session, value) or not (type(value) is tuple or _is_object(value)):
        return argument(session, normalized)
    known = None if type(value) is tuple else session.builder.object_node(value)
    if known is None:
        known = _made(session, normalized, [*map(functools.partial(item_node, session), shallow(value)[0], shallow(normalized)[0])])
        if type(value) is not tuple:
            session.builder.stands_for(value, known)
    return known


def _is_object(value: Any) -> bool:
    return children(value) is not None and not isinstance(value, (list, tuple, Cell))


def check_kept(session: Session, value: Any) -> None:
    """Check a dict or object that goes into a list, where the program has a copy of it.

    Raises:
        CaptureError: it is the same one at each iteration of a loop, may be in a list already, or comes from outside.
    """
    for part in _mutable_parts(session, value):
        cells.give_parts(session, part)
    for part in _new_parts(session, value):
        _check_put_once(session, part)
        session.places.copies.add(part, session.allocations.sites.get(id(part), (None, ()))[1])


def _check_put_once(session: Session, part: Any) -> None:
    """Check an object that the program is about to make in this block, where it is put in a list.

    Raises:
        NeedsMade: the block that has made it has to do that, for it is the same one at each iteration of a loop.
        NeedsApart: that block has to do it with all of this class, or the program has to find it by its cells.
        CaptureError: nobody knows whether it has been made before.
    """
    allocated = session.allocations.allocated_at(part)
    error = errors.CaptureError(
        f"the same {type(part).__name__} is put in a list that changes length inside a captured block, maybe more than once",
        session.here(),
        fix=f"put in a copy: {'dict(d)' if isinstance(part, dict) else 'dataclasses.replace(item)'}",
    )
    if cells.is_known_by_them(session, part):
        return
    early = f"made early: {type(part).__module__}.{type(part).__qualname__}"
    is_older = allocated is not None and not session.blocks.is_of_block(allocated)
    if is_older and cells.may_be_known_by_them(session, part):
        raise NeedsMade(part, error)  # where it is made it has cells, by which it is found wherever it stands
    if _may_be_in_already(session, part):
        if is_older and early not in session.traits.apart and not session.places.copies.has_followed(part):
            raise NeedsApart(early)
        cells.require_owners(session, part)
        raise error
    if allocated is None:
        cells.require_owners(session, part)
        raise error
    if session.blocks.repeats_since(allocated) or (is_older and early in session.traits.apart):
        raise NeedsMade(part, error)


def make_early(session: Session, needed: NeedsMade) -> None:
    """Make an object that blocks inside of this one put in lists.

    Raises:
        NeedsMade: a block around this one has made it.
        CaptureError: that cannot be, or was to no avail.
    """
    allocated = session.allocations.allocated_at(needed.value)
    if allocated is None or session.builder.knows(needed.value):
        raise needed.error
    if not session.blocks.is_of_block(allocated):
        raise needed
    check_kept(session, needed.value)
    item_node(session, needed.value, normalized(session, needed.value))


def _may_be_in_already(session: Session, value: Any) -> bool:
    """Tell whether an object that no node of this block gives has been put in a list, or taken out of one, in a block before."""
    block = session.places.copies.block_of(value)
    if block is None:
        return False
    if not session.places.copies.has_followed(value) and (session.builder.is_inside(block) or not block.knows(value)):
        return False  # it was put in by an attempt that has been taken back
    while not session.builder.is_inside(block):
        if block.parent is None or not block.parent.has_block(block):
            return False  # the other way through the same branch, or one that was captured in vain
        block = block.parent
    return True


def _new_parts(session: Session, value: Any) -> list[Any]:
    """Return the objects in a value that the program has not made yet; a frozen one too is one object, wherever it is put."""
    if isinstance(value, TaggedUnion):
        return [part for option in value.options.values() for part in _new_parts(session, option)]
    parts = None if is_outside(session, value) else children(value)
    if parts is None or isinstance(value, list) or (_is_object(value) and session.builder.knows(value)):
        return []
    own = [] if isinstance(value, tuple) else [value]
    return [*own, *(inner for part in parts[0] for inner in _new_parts(session, part))]


def _mutable_parts(session: Session, value: Any) -> list[Any]:
    return [part for part in _object_parts(session, value) if not _is_frozen(part)]


def _object_parts(session: Session, value: Any) -> list[Any]:
    """Return the dicts and objects in a value that are not from outside."""
    if isinstance(value, TaggedUnion):
        return [part for option in value.options.values() for part in _object_parts(session, option)]
    parts = children(value)
    if parts is None or isinstance(value, list) or is_outside(session, value):
        return []
    own = [] if isinstance(value, tuple) else [value]
    return [*own, *(inner for part in parts[0] for inner in _object_parts(session, part))]


def is_one_object(session: Session, value: Any) -> bool:
    """Tell whether a value is an object, of which an item of a list of the program would be a copy, or which cannot be one."""
    return is_changeable(session, value) or _is_object(value)


def is_changeable(session: Session, value: Any) -> bool:
    """Tell whether a value is an object of which an item of a list of the program would be a copy, or which cannot be one."""
    if is_outside(session, value):
        return True
    if children(value) is not None:
        return type(value) is not list and bool(_mutable_parts(session, value))
    kept = (torch.Tensor, RuntimeString, RuntimeList, TaggedUnion, Text, AbstractTuple, *SYMBOLIC_NUMBERS)
    return not isinstance(value, kept) and not is_number(value) and not _is_constant(value)


def _is_frozen(value: Any) -> bool:
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def type_of(session: Session, value: Any) -> value_types.Type:
    """Return the type of a list's items of which this normalized value is one: a number is any number of its kind."""
    if isinstance(value, TaggedUnion):
        kind: value_types.Type | None = None
        for option in value.options.values():
            kind = lattice.join_elements(kind, type_of(session, option))
        assert kind is not None
        return kind
    result = lattice.type_of(value, functools.partial(is_outside, session))
    if isinstance(result, value_types.ContainerType):
        return value_types.ContainerType(result.structure, tuple(type_of(session, part) for part in shallow(value)[0]))
    plain = isinstance(result, value_types.SameType) and is_number(value) and not isinstance(value, enum.Enum)
    return value_types.NumberType(number_kind(value)) if plain else result


def argument(session: Session, value: Any) -> Any:
    """Return a normalized value as an argument of a node."""
    builder = session.builder
    if isinstance(value, TaggedUnion):
        return _chosen(session, value.tag, {tag: argument(session, option) for tag, option in value.options.items()})
    value = session.lists.of(value) or value
    if is_outside(session, value):
        return builder.call_raw(control.item_make, (Const(value), ())) if isinstance(value, (dict, list)) else value
    parts = None if isinstance(value, RuntimeList) else children(value)
    if parts is None:
        return builder.argument(value)
    return _made(session, value, [argument(session, part) for part in parts[0]])


def _chosen(session: Session, tag: Any, options: dict[int, Any]) -> fx.Node:
    node = session.builder.argument(tag), tuple(options), tuple(options.values())
    return session.builder.call_raw(control.item_choose, node)


def _made(session: Session, value: Any, parts: Sequence[Any]) -> Any:
    """Return a container with these parts, as an argument of a node."""
    if type(value) is tuple:
        return tuple(parts)
    made = session.builder.call_raw(control.item_make, (shallow(value)[1], tuple(parts)))
    return session.builder.call_raw(control.item_owner, (made,)) if cells.is_known_by_them(session, value) else made


def stands_in(session: Session, items: RuntimeList, value: Any) -> None:
    """Note that a value is an item of a list: what is put into a list in it changes the type of the items."""
    parts = _lists_in(session, value)
    for part in parts:
        if part is items:
            raise errors.CaptureError("a list that changes length inside a captured block is put in itself", session.here())
        part.places.append((items, value))
        session.places.copies.hold_lists = True
    if parts:
        items.held.append(value)


def lists_of_kinds(session: Session, value: Any, kind: Any) -> Iterator[tuple[RuntimeList, Any]]:
    """Yield the lists in an item, and what their items may be by the type of the item."""
    if isinstance(value, TaggedUnion):
        for option in value.options.values():
            yield from lists_of_kinds(session, option, kind)
        return
    known = value if isinstance(value, RuntimeList) else session.lists.of(value)
    if isinstance(kind, value_types.TaggedUnionType):
        for option in kind.options:
            yield from lists_of_kinds(session, value, option)
    elif known is not None:
        if isinstance(kind, value_types.ListType) and not kind.is_tuple:
            yield known, kind.element
    elif isinstance(kind, value_types.ContainerType) and not is_outside(session, value) and children(value) is not None:
        parts, structure = shallow(value)
        if structure == kind.structure:
            for part, of_part in zip(parts, kind.items, strict=True):
                yield from lists_of_kinds(session, part, of_part)


def _lists_in(session: Session, value: Any) -> list[RuntimeList]:
    known = value if isinstance(value, RuntimeList) else session.lists.of(value)
    if known is not None:
        return [known]
    if is_outside(session, value):
        return []
    parts = value.options.values() if isinstance(value, TaggedUnion) else (children(value) or ((),))[0]
    return [match for part in parts for match in _lists_in(session, part)]


def taken(session: Session, items: RuntimeList, node: fx.Node) -> Any:
    """Return what the capture has for an item of a list that a node gives."""
    assert items.element is not None
    value = _taken(session.builder, session, items.element, node)
    stands_in(session, items, value)
    for part in _mutable_parts(session, value):
        session.allocations.own(part)
    for part in _object_parts(session, value):
        session.places.copies.add(part)
    session.tuples.take(value)
    return value


def given(session: Session, items: RuntimeList, node: fx.Node) -> Any:
    """Return what the capture has for an object that the program is given, which a node of its root block takes from a list."""
    assert items.element is not None
    root = session.blocks.root
    value = _taken(root.builder, session, items.element, node)
    stands_in(session, items, value)
    for part in _mutable_parts(session, value):
        session.allocations.own(part, root.start)
    for part in _object_parts(session, value):
        session.places.copies.add(part)
    return value


def _taken(builder: BlockBuilder, session: Session, kind: value_types.Type, node: fx.Node, certain: bool = True) -> Any:
    match kind:
        case value_types.SameType(value):
            return value
        case value_types.StringType():
            string = RuntimeString()
            builder.bind(string, node)
            return Text.of(string)
        case value_types.ContainerType(structure, items):
            if certain and type(structure) is TupleOf:
                nodes = [builder.call_raw(operator.getitem, (node, i)) for i in range(len(items))]
            else:
                is_object = isinstance(structure, ObjectOf) and not issubclass(structure.factory, dict)
                what = structure if is_object else len(items)
                in_cells = any(map(_is_in_cell, items))
                parts = builder.call_raw(control.item_parts, (node, what, True) if in_cells else (node, what))
                nodes = [builder.call_raw(operator.getitem, (parts, i)) for i in range(len(items))]
            result = unflatten(structure, [_taken(builder, session, item, n, certain) for item, n in zip(items, nodes)])
            if _is_object(result):
                builder.stands_for(result, node)
            return result
        case value_types.TaggedUnionType(options):
            return _option(builder, session, options, node)
    value = session.new_value(kind)
    builder.bind(value, node)
    return unpack_list(value)


def _is_in_cell(kind: value_types.Type) -> bool:
    return isinstance(kind, value_types.ContainerType) and isinstance(kind.structure, CellOf)


def _option(builder: BlockBuilder, session: Session, options: tuple[value_types.Type, ...], node: fx.Node) -> Any:
    order = sorted(
        range(len(options)), key=lambda i: not isinstance(options[i], value_types.SameType)
    )  # a known string comes first
    kinds = tuple(_kind(options[i]) for i in order)
    tag = session.new_value(value_types.NumberType("int"))
    builder.bind(tag, builder.call_raw(control.item_kind, (node, kinds)))
    results: dict[int, Any] = {}
    for position, i in enumerate(order):
        own = node
        if not isinstance(options[i], value_types.SameType):
            own = builder.call_raw(control.item_of_kind, (node, kinds[position]))
        results[position] = _taken(builder, session, options[i], own, certain=False)
    return session.new_union(tag, results)


def _kind(kind: value_types.Type) -> tuple[Any, ...]:
    match kind:
        case value_types.SameType(value):
            return ("is", Const(value) if isinstance(value, (dict, list)) else value)  # an argument is taken apart
        case value_types.TensorType(dtype, _, sizes):
            return ("tensor", dtype, len(sizes))
        case value_types.NumberType(name):
            return ("bool",) if name == "bool" else ("number",)
        case value_types.StringType():
            return ("str",)
        case value_types.ListType():
            return ("list",)
        case value_types.ContainerType(structure, _):
            return ("made", structure)
    raise AssertionError(f"{kind} is no item")
