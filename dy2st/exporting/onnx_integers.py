"""Keeps quantised weights of an ONNX model integers: ``DequantizeLinear`` stands where they become floats.

    w = Mul(Cast(q), s)    # q: i8[n, k], s: f32[n, 1]     →    w = DequantizeLinear(q, Squeeze(s), axis=0)
    y = Gemm(x, Cast(q))                                   →    y = Gemm(x, DequantizeLinear(q, 1.0))

Optimizers compute a ``Cast`` of what is known and store the floats; what dequantizes they leave to whoever runs the model. The
numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import onnx_ir as ir

_HALVES_SINCE = 19
"""The opset from which on ``DequantizeLinear`` gives float16."""


def dequantize(model: ir.Model) -> bool:
    """Put ``DequantizeLinear`` in the place of casts from int8, before anything is optimized.

    Args:
        model: any model; it is changed.

    Returns:
        Whether there are any.
    """
    changed = False
    kinds = (ir.DataType.FLOAT, *([ir.DataType.FLOAT16] if model.opset_imports.get("", 0) >= _HALVES_SINCE else []))
    for graph in _graphs(model):
        for node in list(graph):
            kind = node.attributes["to"].as_int() if node.op_type == "Cast" and node.domain == "" else None
            given = node.inputs[0] if node.inputs else None
            if kind not in kinds or given is None or given.dtype != ir.DataType.INT8:
                continue
            constant = _constant(numpy.ones((), ir.DataType(kind).numpy()))
            _put(graph, node, [constant, ir.node("DequantizeLinear", [given, constant.outputs[0]])])
            changed = True
    return changed


def scale(model: ir.Model) -> None:
    """Make the scales that are multiplied with afterwards part of ``DequantizeLinear``, where they are known and of one axis.

    What products inside of branches and loops use is dequantized outside: onnxruntime's fusion of the two looks for the weight in
    the graph of the product alone.

    Args:
        model: one that has been optimized; it is changed.
    """
    for graph in _graphs(model):
        for node in list(graph):
            if node.op_type == "Mul" and node.domain == "":
                _scale(graph, node)
    for graph in _graphs(model):
        for node in list(graph) if graph is not model.graph else ():
            used = {user.op_type for user, _ in node.outputs[0].uses()} if node.op_type == "DequantizeLinear" else set()
            if "MatMul" in used and all(value is not None and value.const_value is not None for value in node.inputs):
                _move_out(model.graph, graph, node)


def _scale(graph: Any, node: Any) -> None:
    for given, factor in (node.inputs, tuple(reversed(node.inputs))):
        source = None if given is None else given.producer()
        if source is None or source.op_type != "DequantizeLinear" or source.graph is not graph:
            continue
        axis = _axis(source, factor) if len(given.uses()) == 1 and len(source.inputs) == 2 else None
        if axis is not None:
            scales = _constant(factor.const_value.numpy().reshape(-1))
            result = ir.node("DequantizeLinear", [source.inputs[0], scales.outputs[0]], attributes={"axis": axis})
            _put(graph, node, [scales, result])
            graph.remove(source, safe=True)
            return


def _move_out(outer: Any, graph: Any, node: Any) -> None:
    numbers, scales = node.inputs
    if not numbers.is_initializer() or numbers.graph is not outer:
        return
    constant = _constant(scales.const_value.numpy())
    result = ir.node("DequantizeLinear", [numbers, constant.outputs[0]], attributes=dict(node.attributes))
    old, new = node.outputs[0], result.outputs[0]
    new.name, new.dtype, new.shape = old.name, old.dtype, old.shape
    outer.insert_before(next(iter(outer)), [constant, result])
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _constant(array: Any) -> Any:
    result: Any = ir.node("Constant", [], attributes={"value": ir.tensor(array)})
    value = result.outputs[0]
    value.const_value = ir.tensor(array)
    value.dtype, value.shape = value.const_value.dtype, ir.Shape(array.shape)
    return result


def _graphs(model: ir.Model) -> Iterator[Any]:
    holders: list[Any] = [model.graph, *model.functions.values()]
    for holder in holders:
        yield holder
        yield from holder.subgraphs()


def _put(graph: Any, node: Any, nodes: list[Any]) -> None:
    """Put nodes in the place of one; the last gives what it gave."""
    old, new = node.outputs[0], nodes[-1].outputs[0]
    new.name, new.dtype, new.shape = old.name, old.dtype, old.shape
    graph.insert_before(node, nodes)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _axis(source: Any, factor: Any) -> int | None:
    """Return the axis along which scales differ; ``None`` where ``DequantizeLinear`` cannot do with them."""
    numbers, one = source.inputs
    if any(value is None or value.const_value is None for value in (numbers, one, factor)):
        return None
    shape, scales = tuple(numbers.const_value.shape), tuple(factor.const_value.shape)
    wide = [axis for axis, size in enumerate(scales) if size != 1]
    is_one = bool((one.const_value.numpy() == 1).all())
    if not is_one or len(shape) != len(scales) or len(wide) != 1 or scales[wide[0]] != shape[wide[0]]:
        return None
    return wide[0]
