"""Lists of any length as ONNX has them: sequences.

``torch.export`` knows no lists. A tensor without entries stands for the list in its graph, and operators of a namespace of its own
stand for what is done to it; they compute nothing, and exist until the exporter has put ONNX's operators in their place:

| here | in ONNX |
|---|---|
| ``empty(dtype)`` | ``SequenceEmpty`` |
| ``insert(s, item, index)`` | ``SequenceInsert`` |
| ``at(s, index, …)`` | ``SequenceAt`` |
| ``erase(s, index)`` | ``SequenceErase`` |
| ``length(s)`` | ``SequenceLength`` |
| ``joined(s, dim, new, …)`` | ``ConcatFromSequence`` |
| ``same(s)`` | ``Identity`` |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch.library import Library, get_ctx, register_fake

_wanted: ContextVar[bool] = ContextVar("lists of unknown length are sequences", default=False)
_NAMESPACE = "dy2st_sequence"
_library = Library(_NAMESPACE, "DEF")  # of no other library
_OF_ANY_SIZE = -1


def wanted() -> bool:
    """Tell whether lists of unknown length are sequences now, and not buffers."""
    return _wanted.get()


@contextlib.contextmanager
def instead_of_buffers() -> Iterator[None]:
    """Take lists of unknown length as sequences."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def _defined(schema: str) -> Callable[[Callable[..., torch.Tensor]], torch._ops.OpOverload]:
    """Define an operator by what it gives on tensors without contents."""

    def register(function: Callable[..., torch.Tensor]) -> torch._ops.OpOverload:
        name = schema.partition("(")[0]
        _library.define(schema)
        register_fake(f"{_NAMESPACE}::{name}", function, lib=_library)
        result: torch._ops.OpOverload = getattr(getattr(torch.ops, _NAMESPACE), name).default
        return result

    return register


def _list(*_: Any) -> torch.Tensor:
    return torch.empty((0,), dtype=torch.int64)


def _item(sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty([get_ctx().new_dynamic_size() if size == _OF_ANY_SIZE else size for size in sizes], dtype=dtype)


EMPTY = _defined("empty(ScalarType dtype) -> Tensor")(_list)
INSERT = _defined("insert(Tensor s, Tensor item, Tensor index) -> Tensor")(_list)
ERASE = _defined("erase(Tensor s, Tensor index) -> Tensor")(_list)
SAME = _defined("same(Tensor s) -> Tensor")(_list)
LENGTH = _defined("length(Tensor s) -> Tensor")(lambda s: torch.empty((), dtype=torch.int64))
AT = _defined("at(Tensor s, Tensor index, int[] sizes, ScalarType dtype) -> Tensor")(
    lambda s, index, sizes, dtype: _item(sizes, dtype)
)
JOINED = _defined("joined(Tensor s, int dim, bool new, int[] sizes, ScalarType dtype) -> Tensor")(
    lambda s, dim, new, sizes, dtype: _item(sizes, dtype)
)


def at(s: torch.Tensor, index: torch.Tensor, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return an item.

    Args:
        s: the list.
        index: its position.
        sizes: of the item, as far as they are known.
        dtype: of the item.
    """
    result: torch.Tensor = AT(s, index, _known(sizes), dtype)
    return result


def joined(s: torch.Tensor, dim: int, new: bool, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return all items as one tensor.

    Args:
        s: the list.
        dim: along which dimension.
        new: whether it is a new one.
        sizes: of each item, as far as they are known.
        dtype: of the items.
    """
    known = _known(sizes)
    if new:
        dim %= len(known) + 1
        known.insert(dim, _OF_ANY_SIZE)
    else:
        dim %= len(known)
        known[dim] = _OF_ANY_SIZE
    result: torch.Tensor = JOINED(s, dim, new, known, dtype)
    return result


def _known(sizes: Sequence[Any]) -> list[int]:
    return [size if isinstance(size, int) else _OF_ANY_SIZE for size in sizes]


# -- in ONNX -----------------------------------------------------------------------------------------------------------------


def translations(opset: int) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return what the exporter puts in the place of each operator.

    Args:
        opset: the version of ONNX's operators.
    """
    import onnxscript

    op: Any = getattr(onnxscript, f"opset{opset}")
    return {
        EMPTY: lambda dtype: op.SequenceEmpty(dtype=dtype),
        INSERT: lambda s, item, index: op.SequenceInsert(s, item, index),
        ERASE: lambda s, index: op.SequenceErase(s, index),
        SAME: lambda s: op.Identity(s),
        LENGTH: lambda s: op.SequenceLength(s),
        AT: lambda s, index, sizes, dtype: op.SequenceAt(s, index),
        JOINED: lambda s, dim, new, sizes, dtype: op.ConcatFromSequence(s, axis=dim, new_axis=int(new)),
    }


def give_types(model: Any) -> None:
    """Say of each list in an ONNX model that it is one; the exporter took them for the tensors that stood for them.

    Args:
        model: of ``onnx_ir``.
    """
    import onnx_ir as ir

    changed = True

    def give(value: Any, kind: Any) -> None:
        nonlocal changed
        if value is not None and isinstance(kind, ir.SequenceType) and value.type != kind:
            value.type, value.shape, changed = kind, None, True

    while changed:
        changed = False
        for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
            for value, kind in _flow(node, ir):
                give(value, kind)


def _flow(node: Any, ir: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the values of which a node says that they are lists if others are, with the type of those."""
    match node.op_type:
        case "SequenceEmpty":
            yield node.outputs[0], ir.SequenceType(ir.TensorType(ir.DataType(node.attributes["dtype"].value)))
        case "SequenceInsert" | "SequenceErase" | "Identity":
            yield node.outputs[0], node.inputs[0].type
        case "If":
            for name in ("then_branch", "else_branch"):
                for inner, outer in zip(node.attributes[name].value.outputs, node.outputs, strict=True):
                    yield outer, inner.type
        case "Loop":
            body = node.attributes["body"].value
            for first, inner, then, outer in zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], node.outputs):
                yield inner, None if first is None else first.type
                yield outer, then.type
