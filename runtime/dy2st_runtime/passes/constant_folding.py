"""Computes what is known before the program runs: numbers of constants, sizes that never differ, decided branches.

    n = aten.sym_size.int(x, 0)    # x: f32[4, u0]
    m = n * 2 + 1
    c = m > 3                                              →   y = aten.mul.Tensor(x, 9)
    y = if c: aten.mul.Tensor(x, m) else: aten.neg(x)

A constant that is handed to a block is written inside it; a loop that would make no iteration goes. What raises is left to raise
when the program runs, and tensors are not computed.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.purity import replace_all, replace_uses
from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.ir.value_types import tensor_type
from dy2st_runtime.primitives import control, scalars

_EXACT = (int, float, bool)
_LONG = 1 << 64
_UNBOUNDED = frozenset({operator.pow, pow, operator.lshift})
_UNBOUNDED_NAMES = frozenset({"math.factorial", "math.comb", "math.perm"})


def fold_constants(program: Program) -> Program:
    """Fold constants in all blocks.

    Args:
        program: any program.

    Returns:
        A program that does the same; :func:`~dy2st_runtime.passes.dead_code.remove_dead_code` takes away what nobody needs then.
    """
    block = copy_block(program.block)
    _fold(block)
    return dataclasses.replace(program, block=block)


def _fold(block: Block) -> None:
    for node in list(block.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is control.if_:
            _fold_branch(node)
        elif node.target is control.while_:
            _fold_loop(node)
        elif not node_blocks(node) and (result := _value(node)) is not None:
            replace_all(node, result[0])


def _value(node: fx.Node) -> tuple[Any] | None:
    """Return what a node is sure to give, in a tuple of its own."""
    if node.target is torch.ops.aten.sym_size.int:
        return _size(*node.args)
    name = scalars.NAMES.get(node.target, "") if not isinstance(node.target, control.Control) else ""  # type: ignore[arg-type]
    constant = bool(name) and not node.kwargs and all(type(value) in _EXACT for value in node.args)
    if not constant or node.target in _UNBOUNDED or name in _UNBOUNDED_NAMES:
        return None
    try:
        value = node.target(*node.args)  # type: ignore[operator]  # a function, see scalars.NAMES
    except Exception:
        return None  # it raises when it runs
    return (value,) if type(value) in _EXACT and not (type(value) is int and abs(value) > _LONG) else None


def _size(tensor: Any, dim: Any) -> tuple[Any] | None:
    result = tensor_type(tensor)
    if result is None or type(dim) is not int or not -len(result[1]) <= dim < len(result[1]):
        return None
    size = result[1][dim]
    return (int(size),) if size.isdecimal() else None


def _fold_branch(node: fx.Node) -> None:
    pred, then, orelse, operands = node.args
    for block in (then, orelse):
        _write_constants(block, operands)  # type: ignore[arg-type]  # see verify
        _fold(block)  # type: ignore[arg-type]
    if type(pred) in _EXACT:
        take_results(node, inlined(node, then if pred else orelse, operands))  # type: ignore[arg-type]


def _fold_loop(node: fx.Node) -> None:
    pred, body, carried, operands = node.args
    assert isinstance(body, Block) and isinstance(carried, tuple)
    if type(pred) in _EXACT and not pred:
        take_results(node, carried)
        return
    _write_constants(body, (*(None,) * len(carried), *operands), skip=len(carried))
    _fold(body)


def _write_constants(block: Block, values: Any, skip: int = 0) -> None:
    for inner, value in list(zip(block.inputs, values, strict=True))[skip:]:
        if type(value) in _EXACT:
            replace_uses(inner, value)


def inlined(node: fx.Node, block: Block, operands: Any) -> tuple[Any, ...]:
    """Copy the operations of a block before a node; return its outputs."""
    table: dict[fx.Node, Any] = dict(zip(block.inputs, operands, strict=True))
    with node.graph.inserting_before(node):
        for inner in block.graph.nodes:
            if inner.op == "call_function":
                table[inner] = copied = node.graph.node_copy(inner, lambda used: used)
                copied.args = fx.node.map_arg(inner.args, lambda used: table[used])
                copied.kwargs = fx.node.map_arg(inner.kwargs, lambda used: table[used])
    return tuple(table[value] if isinstance(value, fx.Node) else value for value in block.outputs)


def take_results(node: fx.Node, results: tuple[Any, ...]) -> None:
    """Note that results in the place of a control node; one that is used whole stays."""
    if not all(user.target is operator.getitem for user in node.users):
        return
    for user in list(node.users):
        replace_all(user, results[user.args[1]])  # type: ignore[index]  # an int
    node.graph.erase_node(node)
