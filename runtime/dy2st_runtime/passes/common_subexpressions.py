"""Computes what is computed twice once.

    a = aten.t.default(w)                   a = aten.t.default(w)
    b = aten.matmul.default(x, a)           b = aten.matmul.default(x, a)
    c = aten.t.default(w)              →    e = aten.add.Tensor(b, b)
    d = aten.matmul.default(x, c)
    e = aten.add.Tensor(b, d)

An operation goes when the same one with the same arguments is before it in its block. It has succeeded there, so no error gets
lost. Both stay where their memory or that of an argument is written anywhere, where the caller would get one tensor for two, across
a change of mode, and where autograd may look: gradients are then added up in another order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing
from dy2st_runtime.analyses.purity import is_pure, may_differentiate, replace_all
from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.ir.value_types import may_have_gradient, type_of
from dy2st_runtime.primitives import control, modes


def merge_common(program: Program, *, gradients: bool = True) -> Program:
    """Merge operations that give the same, in all blocks.

    Args:
        program: any program.
        gradients: whether autograd may record what the program does.

    Returns:
        A program with the same results.
    """
    block = copy_block(program.block)
    _merge(block, Aliasing(block), gradients or may_differentiate(program))
    return dataclasses.replace(program, block=block)


def _merge(block: Block, aliasing: Aliasing, gradients: bool) -> None:
    known: dict[Hashable, fx.Node] = {}
    for node in list(block.graph.nodes):
        if node.target in modes.TARGETS:
            known.clear()
        for inner in node_blocks(node) if node.target is not control.transform_ else ():
            _merge(inner, aliasing, gradients)
        if node.op != "call_function" or not is_pure(node) or (gradients and may_have_gradient(node)):
            continue
        if aliasing.is_written(node) or any(not type_of(used) or aliasing.is_written(used) for used in node.all_input_nodes):
            continue
        key = (node.target, _key(node.args), _key(node.kwargs))
        first = known.setdefault(key, node)
        if first is not node and not (aliasing.escapes(first) and aliasing.escapes(node)):
            aliasing.unite(first, node)
            replace_all(node, first)


def _key(value: Any) -> Hashable:
    """Equal for the same arguments only: 1, 1.0, True and -0.0 differ."""
    if isinstance(value, fx.Node):
        return value
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in sorted(value.items()))
    if isinstance(value, slice):
        return (slice, _key(value.start), _key(value.stop), _key(value.step))
    return (type(value), repr(value)) if isinstance(value, (int, float, complex, str)) or value is None else _identity(value)


def _identity(value: Any) -> Hashable:
    return (type(value), id(value)) if value.__hash__ is None else value
