"""Follows a block with the shapes, strides and dtypes of one call, and writes down what the C++ has to do.

What eager shares, the C++ copies: the value that a branch or an iteration of a loop leaves goes into a buffer of its own. That is
the same as long as neither the copy nor the original is changed in place afterwards; :meth:`Tracer.check_copies` sees to that.
Which *object* a value is in eager (an argument, or something new) is counted at run time, so that the unit gives back what eager
would.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.executors.cpp import joins, numbers, operators
from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.values import (
    Number,
    Opaque,
    Region,
    Tensor,
    Unsupported,
    Value,
)
from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control, scalars


def _replaced(value: Any, values: dict[fx.Node, Value]) -> Any:
    """Return an argument with the values of its nodes in their places."""
    look_up: Any = values.__getitem__
    return fx.node.map_arg(value, look_up)


class Tracer(Builder):
    """CaptureLock one block into items."""

    def run(self, block: Block, inputs: Sequence[Value]) -> list[Value]:
        """Follow a block; gives its outputs."""
        values: dict[fx.Node, Value] = dict(zip(block.inputs, inputs, strict=True))
        self._depth += 1
        if self._depth > 40:
            raise Unsupported("blocks are nested too deep")
        for node in block.graph.nodes:
            if node.op == "call_function":
                values[node] = self.operation(node, values)
        self._depth -= 1
        return [_replaced(output, values) for output in block.outputs]

    def operation(self, node: fx.Node, values: dict[fx.Node, Value]) -> Value:
        """Follow one operation."""
        target: Any = node.target
        args = _replaced(node.args, values)
        if target is control.if_:
            return joins.branch(self, node, args)
        if target is control.while_:
            return joins.loop(self, node, args)
        if target in (control.assert_, control.raise_):
            self._check(target, args)
            return None
        if target is control.format_:
            return Opaque()
        if target is operator.getitem and isinstance(args[0], (tuple, list)):
            return args[0][self.constant(args[1])]
        if isinstance(target, torch._ops.OpOverload) and target is not torch.ops.aten.sym_size.int:
            return operators.follow(self, node, target, args, _replaced(node.kwargs, values))
        if target in scalars.NAMES:
            return numbers.follow(self, target, args)
        raise Unsupported(f"{target} has no C++")

    def _check(self, target: Any, args: Sequence[Any]) -> None:
        """Do what raises leaves the unit; the python executor, which does the same again, raises."""
        if target is control.raise_:
            self.bail("true", ())
            self.region.ends = True
            return
        condition = args[0]
        if isinstance(condition, (Tensor, Number)):
            scalar = self.as_scalar(condition) if isinstance(condition, Tensor) else condition
            self.bail("!({})", [scalar])
        elif not condition:
            self.bail("true", ())
            self.region.ends = True

    def check_copies(self, regions: Sequence[Region]) -> None:
        """See that no value which was copied, and no copy, is changed in place where eager would change both."""
        for region in regions:
            for buffer, writes in region.snapshots:
                if buffer.mutations and (buffer.region is not region or buffer.mutations != writes):
                    raise Unsupported("a tensor that is changed in place is also carried or given on under another name")
        for buffer in self.buffers:
            if buffer.merged and buffer.mutations:
                raise Unsupported("a tensor that comes from a branch or an earlier iteration is changed in place")
