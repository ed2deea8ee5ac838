"""Programs as text: nested blocks with types and the user's lines."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.structure import (
    Absent,
    BoundOf,
    ClassOf,
    CollectionOf,
    Const,
    DictOf,
    FunctionOf,
    HolderOf,
    Leaf,
    ListOf,
    ObjectOf,
    Structure,
    TaggedUnionOf,
    TupleOf,
)
from dy2st_runtime.primitives import control, modes, scalars

_SHORT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.complex64: "c64",
    torch.complex128: "c128",
}  # fmt: skip
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def short_dtype(dtype: torch.dtype) -> str:
    """Return ``f32`` for ``torch.float32`` and so on."""
    return _SHORT.get(dtype, str(dtype).removeprefix("torch."))


def describe(value: Any) -> str:
    """Return the type of a value of a capture: ``f32[u0, 4]``, ``int``…; empty when unknown."""
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(value.dtype)}[{', '.join(map(_size, value.shape))}]"
    for symbolic, name in ((torch.SymInt, "int"), (torch.SymFloat, "float"), (torch.SymBool, "bool")):
        if isinstance(value, symbolic):
            return name
    if isinstance(value, (list, tuple)):
        inside = ", ".join(describe(item) or "?" for item in value)
        return f"({inside})"
    return type(value).__name__ if isinstance(value, (bool, int, float, str)) else ""


def _size(size: Any) -> str:
    return _expression(size.node.expr) if isinstance(size, torch.SymInt) else str(size)


@functools.lru_cache(10_000)
def _expression(expr: Any) -> str:
    """Return the text of a size; many tensors have it, and it takes long to write."""
    return str(expr)


def format_graph(graph: fx.Graph, pad: str, last: bool = True) -> list[str]:
    """Return the lines of a block, each behind a pad; with ``last``, also what it gives back."""
    lines: list[str] = []
    for node in graph.nodes:
        if node.op == "call_function":
            lines += _format_node(node, pad)
        elif node.op == "output" and last:
            outputs = ", ".join(_format_argument(value) for value in node.args[0])
            lines.append(f"{pad}yield {outputs}".rstrip())
    return lines


def _format_node(node: fx.Node, pad: str) -> list[str]:
    comment = f"  # {short_place(node.meta['location'])}" if "location" in node.meta else ""
    kind = node.meta.get("type", "")
    left = f"{node.name}: {kind} = " if kind else (f"{node.name} = " if node.users else "")
    if node.target is control.if_:
        pred, then, orelse, operands = node.args
        head = f"{pad}{left}if {_format_argument(pred)}:{comment}"
        return [head, *_format_inner(then, operands, pad), f"{pad}else:", *_format_inner(orelse, operands, pad)]
    if node.target is control.while_:
        pred, body, carried, operands = node.args
        assert isinstance(carried, tuple) and isinstance(operands, tuple)
        head = f"{pad}{left}while {_format_argument(pred)} with ({_format_started(body, carried)}):{comment}"
        return [head, *_format_inner(body, (*carried, *operands), pad, len(carried))]
    if node.target is control.transform_:
        name, block, inputs, operands = node.args
        assert isinstance(inputs, tuple) and isinstance(operands, tuple)
        given = [_format_started(block, inputs), *(f"{key}={_format_argument(value)}" for key, value in node.kwargs.items())]
        head = f"{pad}{left}{name} with ({', '.join(given)}):{comment}"
        return [head, *_format_inner(block, (*inputs, *operands), pad, len(inputs))]
    return [f"{pad}{left}{_format_call(node)}{comment}"]


def _format_started(block: Any, values: Sequence[Any]) -> str:
    return ", ".join(
        f"{inner.name}: {inner.meta.get('type', '')} = {_format_argument(value)}" for inner, value in zip(_inputs(block), values)
    )


def _format_inner(block: Any, operands: Any, pad: str, skip: int = 0) -> list[str]:
    """Return a nested block; its inputs print as the names of the outer values they stand for."""
    renamed = {}
    for inner, outer in list(zip(_inputs(block), operands, strict=True))[skip:]:
        if isinstance(outer, fx.Node) and inner.name != outer.name:
            renamed[inner.name] = outer.name
    inside = pad + "  "
    lines = format_graph(block.graph, inside)
    if renamed:
        where = ", ".join(f"{inner} = {outer}" for inner, outer in renamed.items())
        lines.insert(0, f"{inside}with {where}")
    return lines


def _inputs(block: Any) -> list[fx.Node]:
    return list(block.inputs)


def _format_call(node: fx.Node) -> str:
    name = target_name(node.target)
    short = name.removeprefix("operator.")
    if name.startswith("operator.") and short in _INFIX and len(node.args) == 2:
        return f"{_format_argument(node.args[0])} {_INFIX[short]} {_format_argument(node.args[1])}"
    if short == "getitem":
        return f"{_format_argument(node.args[0])}[{_format_argument(node.args[1])}]"
    arguments = [_format_argument(value) for value in node.args]
    arguments += [f"{key}={_format_argument(value)}" for key, value in node.kwargs.items()]
    return f"{name}({', '.join(arguments)})"


def target_name(target: Any) -> str:
    """Return the name of a node's target, as archives write it."""
    if isinstance(target, control.Control):
        return target.name
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return scalars.NAMES.get(target) or modes.TARGETS.get(target) or str(target)


def _format_argument(value: Any) -> str:
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_format_argument(item) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    return getattr(value, "__qualname__", None) or repr(value)


def format_structure(structure: Structure, outputs: tuple[Any, ...]) -> str:
    """Return what a structure makes of the outputs of a program."""

    def inside(items: tuple[Structure, ...]) -> Iterator[str]:
        return (format_structure(item, outputs) for item in items)

    match structure:
        case Leaf(index):
            return _format_argument(outputs[index])
        case Const(value) | FunctionOf(value) | ClassOf(value):
            return repr(value)
        case TupleOf(items):
            return f"({', '.join(inside(items))}{',' if len(items) == 1 else ''})"
        case ListOf(items):
            return f"[{', '.join(inside(items))}]"
        case DictOf(keys, items):
            return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(keys, inside(items))) + "}"
        case ObjectOf(factory, fields, items) | HolderOf(factory, fields, items):
            fields = fields if isinstance(structure, ObjectOf) else ("items", *fields)
            return f"{factory.__name__}({', '.join(f'{k}={v}' for k, v in zip(fields, inside(items)))})"
        case TaggedUnionOf(tag, tags, items):
            options = ", ".join(f"{number}: {item}" for number, item in zip(tags, inside(items)))
            return f"{{{options}}}[{format_structure(tag, outputs)}]"
        case CollectionOf(kind, items) | BoundOf(kind, items):
            return f"{getattr(kind, '__name__', kind)}({', '.join(inside(items))})"
    return "absent" if isinstance(structure, Absent) else _format_other(structure, outputs)


def _format_other(structure: Any, outputs: tuple[Any, ...]) -> str:
    """Return the last part of a structure; nothing of one that is told around here, or before."""
    return "".join(format_structure(item, outputs) for item in structure.items[-1:]) or "..."


def short_place(location: Any) -> str:
    """Return ``net.py:12`` for a place in the user's source."""
    return f"{os.path.basename(location.file)}:{location.line}"
