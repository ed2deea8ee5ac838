"""Which values of a program may require a gradient, so that a region is compiled once for all iterations of a loop.

In the first iteration of ``h = zeros(…); for x in xs: h = cell(x, h)`` only the weights require one, later ``h`` does too. What is
said here is a forecast: a region that meets something else is compiled for that.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.fusable import dtype_of
from dy2st_runtime.ir.program import Block, Program, node_blocks
from dy2st_runtime.primitives import control

_MARK = "dy2st_may_require_grad"


class GradientFlow:
    """The forecast for one program; it is kept with the nodes, so that copies of them have it too.

    Args:
        program: any program.
    """

    def __init__(self, program: Program) -> None:
        slots: list[Any] = [*program.inputs, *program.states]
        self._any = any(slot.requires_grad for slot in slots)
        for node, slot in zip(program.block.inputs, slots, strict=True):
            node.meta[_MARK] = slot.requires_grad
        self._block(program.block)

    def may(self, node: Any) -> bool:
        """Tell whether a value may require a gradient."""
        return isinstance(node, fx.Node) and bool(node.meta.get(_MARK, False))

    def _block(self, block: Block) -> None:
        for node in block.graph.nodes:
            if node.op == "call_function":
                node.meta[_MARK] = self._of(node)

    def _of(self, node: fx.Node) -> Any:
        target = node.target
        if target is control.if_:
            return self._branch(node)
        if target is control.while_:
            return self._loop(node)
        if isinstance(target, control.Control):
            return self._any
        if target is operator.getitem and isinstance(node.args[1], int) and isinstance(node.args[0], fx.Node):
            result = node.args[0].meta.get(_MARK)
            if isinstance(result, list):
                return result[node.args[1]]
        dtype = dtype_of(node)
        if target is torch.ops.aten.detach.default or (dtype is not None and dtype.startswith(("i", "u", "bool"))):
            return False
        return any(map(self.may, node.all_input_nodes))

    def _branch(self, node: fx.Node) -> list[bool]:
        results: list[list[bool]] = []
        for block in node_blocks(node):
            self._enter(block, node.args[3])
            results.append([self.may(value) for value in block.outputs])
        return [a or b for a, b in zip(*results)]

    def _loop(self, node: fx.Node) -> list[bool]:
        (block,) = node_blocks(node)
        carried: Any = node.args[2]
        now = [self.may(value) for value in carried]
        while True:
            self._enter(block, node.args[3], now)
            after = [old or self.may(value) for old, value in zip(now, block.outputs[1:])]
            if after == now:
                return now
            now = after

    def _enter(self, block: Block, operands: Any, carried: list[bool] | None = None) -> None:
        marks = [*(carried or ()), *map(self.may, operands)]
        for node, mark in zip(block.inputs, marks):
            node.meta[_MARK] = mark
        self._block(block)
