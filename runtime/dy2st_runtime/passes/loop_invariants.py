"""Moves what is the same at every iteration of a loop out of it.

    while c with (h = h0):                      t = aten.t.default(w)
      t = aten.t.default(w)              →      while c with (h = h0):
      y = aten.matmul.default(h, t)               y = aten.matmul.default(h, t)

Only what is sure to succeed, since the loop may make no iteration; only where no memory involved is written and nobody outside gets
the result; not across changes of mode, and not where autograd may look: a gradient that was added up iteration by iteration would
be rounded otherwise.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing
from dy2st_runtime.analyses.purity import is_part, is_pure, may_differentiate, never_raises, replace_all
from dy2st_runtime.ir.program import Block, Program, copy_block, nested_blocks, node_blocks
from dy2st_runtime.ir.value_types import is_number, may_have_gradient, type_of
from dy2st_runtime.primitives import control, modes


def hoist_invariants(program: Program, *, gradients: bool = True) -> Program:
    """Move invariant operations out of all loops, inner ones first.

    Args:
        program: any program.
        gradients: whether autograd may record what the program does.

    Returns:
        A program with the same results.
    """
    block = copy_block(program.block)
    _Hoisting(Aliasing(block), gradients or may_differentiate(program)).visit(block)
    return dataclasses.replace(program, block=block)


class _Hoisting:
    def __init__(self, aliasing: Aliasing, gradients: bool) -> None:
        self._aliasing, self._gradients = aliasing, gradients
        self._moved: set[fx.Node] = set()

    def visit(self, block: Block) -> None:
        """Visit all loops of a block."""
        for node in list(block.graph.nodes):
            if node.target is control.transform_:
                continue  # a function of its own, that may see batches of what is outside
            for inner in node_blocks(node):
                self.visit(inner)
            if node.target is control.while_ and not _changes_modes(node_blocks(node)[0]):
                self._hoist(node)

    def _hoist(self, loop: fx.Node) -> None:
        _, body, carried, operands = loop.args
        assert isinstance(body, Block) and isinstance(carried, tuple) and isinstance(operands, tuple)
        outer: dict[fx.Node, Any] = dict(zip(body.inputs[len(carried) :], operands, strict=True))
        for inner, first, last in zip(body.inputs, carried, body.outputs[1:]):
            if last is inner:
                outer[inner] = first
        moved = []
        for node in list(body.graph.nodes):
            if node.op == "call_function" and all(used in outer for used in node.all_input_nodes) and self._may_move(node):
                outer[node] = self._copy(node, loop, outer)
                moved.append(node)
        for node in reversed(moved):
            users = [user for user in node.users if user not in moved]
            if users:
                self._hand_in(loop, body, node, outer[node])
            else:
                body.graph.erase_node(node)

    def _may_move(self, node: fx.Node) -> bool:
        if not is_pure(node) or not (never_raises(node) or (is_part(node) and bool(node.meta.get("type")))):
            return False
        if self._gradients and may_have_gradient(node):
            return False
        if node in self._moved:  # copied here from a loop inside: asked for already
            return True
        if not all(map(type_of, node.all_input_nodes)):
            return False  # a list, maybe, which the loop fills
        written = any(self._aliasing.is_written(value) for value in (node, *node.all_input_nodes))
        return not written and (is_number(node) or not self._aliasing.escapes(node))

    def _copy(self, node: fx.Node, loop: fx.Node, outer: dict[fx.Node, Any]) -> fx.Node:
        with loop.graph.inserting_before(loop):
            copied = loop.graph.node_copy(node, lambda used: used)
            copied.args = fx.node.map_arg(node.args, lambda used: outer[used])
            copied.kwargs = fx.node.map_arg(node.kwargs, lambda used: outer[used])
        self._moved.add(copied)
        return copied

    def _hand_in(self, loop: fx.Node, body: Block, node: fx.Node, value: fx.Node) -> None:
        """Make the moved value one more operand of the loop."""
        with body.graph.inserting_after(body.inputs[-1]) if body.inputs else body.graph.inserting_before(None):
            inner = body.graph.placeholder(node.name)
        inner.meta.update(node.meta)
        replace_all(node, inner)
        *before, operands = loop.args
        loop.args = (*before, (*operands, value))  # type: ignore[misc]  # a tuple


def _changes_modes(body: Block) -> bool:
    return any(node.target in modes.TARGETS for block in nested_blocks(body) for node in block.graph.nodes)
