"""The arguments of a call, as captured code gets them: tensors, numbers and arrays are inputs of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch

from dy2st.capture.arrays.array import CapturedArray
from dy2st.capture.environment.request import Request
from dy2st.capture.environment.sources import Source
from dy2st.capture.objects.uniting import with_others
from dy2st.capture.outputs import of_numpy
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractObject, AbstractTable
from dy2st.capture.values.number_arguments import NumberArgument
from dy2st.capture.writes.places import ItemPlace
from dy2st_runtime.ir.flattening import attributes, children
from dy2st_runtime.ir.program import InputSlot
from dy2st_runtime.ir.structure import CollectionOf, Const, Leaf, Structure, TupleOf

ACTS_FOR_USER = False

_NUMBERS = (NumberArgument, int, float)
"""The leaves of a call that are numbers."""


def bound(session: Session, root: BlockBuilder, request: Request) -> tuple[list[InputSlot], list[Any]]:
    """Abstract values for the tensors among the leaves; opaque objects go in as they are, and are tracked."""
    slots: list[InputSlot] = []
    arguments: list[Any] = []
    abstracts: dict[int, torch.Tensor] = {}
    arrays: dict[int, AbstractArray] = {}
    for position, (leaf, name, dims) in enumerate(zip(request.leaves, request.names, request.dynamic_dims)):
        if isinstance(leaf, _NUMBERS):
            kind = leaf.kind if isinstance(leaf, NumberArgument) else type(leaf).__name__
            number = fresh_number(session.shapes, kind)
            root.bind(number, root.placeholder(_identifier(name), number))
            slots.append(InputSlot(name, number=kind))
            arguments.append(number)
            continue
        if not isinstance(leaf, torch.Tensor):
            arguments.append(leaf)
            continue
        dims = frozenset(dim for dim in dims if (position, dim) not in request.fixed)
        abstract = abstracts.get(id(leaf))
        if abstract is None:
            abstract = abstracts[id(leaf)] = session.outside.abstract(leaf, dims)
            for dim in dims:
                session.checks.input_sizes[cast(Any, abstract.shape[dim]).node.expr] = (position, dim)
        node = root.placeholder(_identifier(name), abstract)
        root.bind(abstract, node)
        tensor_traits.mark_attributes(abstract, leaf)
        session.outside.arguments[id(abstract)] = abstract, leaf, session.tracker.table.argument(position, name)
        shape = tuple(s if isinstance(s, int) else str(s) for s in abstract.shape)
        slots.append(InputSlot(name, leaf.dtype, shape, str(leaf.device), leaf.requires_grad))
        if position in request.arrays:
            arguments.append(arrays.setdefault(id(leaf), CapturedArray.of_list(abstract, ())))
        else:
            arguments.append(abstract)
    return slots, arguments


def known(session: Session, request: Request, arguments: Any) -> Any:
    """Remember which containers the arguments stand for, then track the opaque objects among them, which may hold these, too.

    What opaque objects hold may become an input of the program: these come after all arguments.

    Returns:
        The arguments, with what stands for sets and deques.
    """
    of_arguments = session.tracker.table.argument(-1, "arguments")
    _know_containers(session, request.given, arguments, of_arguments)
    shown: dict[int, Any] = {}
    held = list(request.leaves)
    for position, (leaf, name) in enumerate(zip(request.leaves, request.names)):
        if isinstance(leaf, (torch.Tensor, *_NUMBERS)):
            continue
        source = session.tracker.table.argument(position, name)
        if isinstance(leaf, np.ndarray) and session.outside.is_input(leaf, source):
            session.tracker.know(leaf, source)  # what stands for it comes in its place
        else:
            session.outside.read(ItemPlace(held, position), source)
        if held[position] is not leaf:
            shown[id(leaf)] = held[position]
        elif type(leaf) in session.outside.makers:
            shown[id(leaf)] = session.outside.given(leaf)
    result = with_others(arguments, shown) if shown else arguments
    if result is not arguments:  # tuples are other ones now
        _know_containers(session, request.given, result, of_arguments)
    return result


def _know_containers(session: Session, given: Any, value: Any, source: Source) -> None:
    """Remember which container of the caller's each of the arguments stands for: what is written to one, is written there."""
    if isinstance(value, AbstractArray):
        session.tracker.know_argument(given, value, source)
        return
    parts = children(value)
    if value is given or parts is None or isinstance(value, (AbstractObject, AbstractTable)):
        return
    if not isinstance(value, tuple) or source.parent is not None:  # Python makes that of all arguments at each call
        session.tracker.know_argument(given, value, source)
    table, kept = session.tracker.table, storage.plain(given)
    if isinstance(value, (tuple, list)):
        steps = [(table.item(source, i), kept[i], item) for i, item in enumerate(storage.plain(value))]
    elif isinstance(value, dict):
        steps = [(table.item(source, key), kept[key], item) for key, item in storage.plain(value).items()]
    else:
        held, own = attributes(given), attributes(value)
        fields = [field.name for field in dataclasses.fields(value) if field.name in held and field.name in own]
        steps = [(table.attribute(source, name), held[name], own[name]) for name in fields]
    for step, before, now in steps:
        if not isinstance(now, torch.Tensor):
            _know_containers(session, before, now, step)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def structure_of(request: Request) -> Structure:
    """Return the structure of the arguments in terms of the program's inputs; opaque objects leave their class there."""
    positions = [i for i, leaf in enumerate(request.leaves) if isinstance(leaf, (torch.Tensor, *_NUMBERS))]
    number = {position: index for index, position in enumerate(positions)}
    structure = _renumber(request.structure, number, [type(leaf) for leaf in request.leaves], request.arrays)
    if not request.bound:
        return structure
    assert isinstance(structure, TupleOf) and isinstance(structure.items[0], TupleOf)
    args, kwargs = structure.items
    assert isinstance(args, TupleOf)
    return TupleOf((TupleOf(args.items[1:]), kwargs))


def _renumber(structure: Structure, number: Mapping[int, int], classes: Sequence[type], arrays: Collection[int]) -> Structure:
    if isinstance(structure, Leaf):
        if structure.index not in number:
            return Const(classes[structure.index])
        result = Leaf(number[structure.index])
        return CollectionOf(of_numpy.ARRAY, (result,)) if structure.index in arrays else result
    if isinstance(structure, Const):
        return structure
    return dataclasses.replace(structure, items=tuple(_renumber(item, number, classes, arrays) for item in structure.items))
