"""Arguments and results of a program in containers that ``torch.export`` knows, with numbers as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dy2st.errors import ExportError
from dy2st.lowering.lists import prefix
from dy2st.lowering.values import ListValue, Number, as_tensor, is_number, known_later, new_form
from dy2st_runtime.ir.program import Program
from dy2st_runtime.ir.structure import (
    Absent,
    BoundOf,
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
    SameAs,
    Shared,
    Structure,
    TaggedUnionOf,
    TupleOf,
)


def input_leaves(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the tensors among the arguments of a call, in the order of the program's inputs."""
    leaves: list[Any] = [None] * len(program.inputs)

    def visit(structure: Structure, value: Any) -> None:
        match structure:
            case Leaf(index):
                leaves[index] = value
            case TupleOf(items) | ListOf(items):
                for item, part in zip(items, value, strict=True):
                    visit(item, part)
            case DictOf(keys, items):
                for key, item in zip(keys, items):
                    visit(item, value[key])
            case ObjectOf(_, fields, items):
                for field, item in zip(fields, items):
                    visit(item, getattr(value, field))
            case _:
                pass

    match program.in_structure:
        case TupleOf((given, named)):
            visit(given, tuple(args))
            visit(named, dict(kwargs))
    return [
        Number(slot.number, leaf, new_form() if slot.number == "int" else None) if slot.number is not None else leaf
        for slot, leaf in zip(program.inputs, leaves, strict=True)
    ]


def result(program: Program, structure: Structure, leaves: Sequence[Any]) -> Any:
    """Return a program's result in containers that ``torch.export`` knows, with numbers as tensors.

    Raises:
        ExportError: its structure is decided when the program runs.
    """
    match structure:
        case Leaf(index):
            return _output(program, leaves[index])
        case Const(value) | FunctionOf(value) | ClassOf(value):
            return _output(program, value)
        case TupleOf(items, factory):
            values = tuple(result(program, item, leaves) for item in items)
            return factory(*values) if factory is not None and hasattr(factory, "_fields") and _is_registered(factory) else values
        case ListOf(items):
            return [result(program, item, leaves) for item in items]
        case DictOf(keys, items):
            return {key: result(program, item, leaves) for key, item in zip(keys, items)}
        case ObjectOf(_, fields, items):
            return {field: result(program, item, leaves) for field, item in zip(fields, items)}
        case Shared(_, items) | HolderOf(_, _, items) | SameAs(_, _, items):
            return result(program, items[0], leaves)
        case InstanceOf((_, item)):
            return result(program, item, leaves)
        case TaggedUnionOf() | CollectionOf() | BoundOf() | Absent():
            return _chosen(program, structure, leaves)


def _is_registered(factory: type) -> bool:
    return factory.__module__.startswith(("torch.", "collections"))


def _chosen(program: Program, structure: TaggedUnionOf | CollectionOf | BoundOf | Absent, leaves: Sequence[Any]) -> Any:
    if isinstance(structure, TaggedUnionOf):
        tag = result(program, structure.tag, leaves)
        options = [result(program, item, leaves) for item in structure.items]
        first = options[0]
        alike = all(isinstance(o, torch.Tensor) and o.shape == first.shape and o.dtype == first.dtype for o in options)
        if alike and isinstance(first, torch.Tensor):
            for number, option in zip(structure.tags[1:], options[1:]):
                first = torch.where(tag == number, option, first)
            return first
    raise ExportError(
        f"what {program.name} returns is of one kind for some inputs and of another for others (None or a "
        "tensor, a number or a tensor, another structure), which the result of an exported model cannot be; "
        "return the same kind always",
        program.origin,
    )


def _output(program: Program, value: Any) -> Any:
    if is_number(value):
        return as_tensor(value).clone()
    if isinstance(value, ListValue) and value.items is not None:
        return [_output(program, item) for item in value.items]
    if isinstance(value, ListValue) and value.sequence is not None:
        return value.sequence
    if isinstance(value, ListValue):
        raise ExportError(
            f"{program.name} returns a list whose length is known only when it runs, which the result of an "
            "exported model cannot be; return torch.stack of it",
            program.origin,
        )
    if isinstance(value, tuple):
        return tuple(_output(program, item) for item in value)
    if value is None or isinstance(value, (torch.Tensor, str)):
        return value
    raise ExportError(f"{program.name} returns a {type(value).__name__}, which no exported model can", program.origin)


def with_opaque_sizes(program: Program, leaves: Sequence[Any]) -> list[Any]:
    """Return the arguments cut to their own sizes, which come out of tensors: all that is known of them is that they are sizes."""
    known: dict[str, Any] = {}
    results = []
    for slot, value in zip(program.inputs, leaves, strict=True):
        for dim, size in enumerate(slot.shape):
            if isinstance(size, str):
                if size not in known:
                    known[size] = known_later(as_tensor(value.shape[dim]))
                value = prefix(value, dim, known[size])
        results.append(value)
    return results
