"""Removes operations on tensors whose result nobody uses, where they are sure to succeed.

    a = aten.exp.default(x)    # x: f32[4]
    b = aten.neg.default(x)                                →   b = aten.neg.default(x)
    return b

:mod:`~dy2st_runtime.passes.dead_code` keeps all of them, since a program fails where eager fails; here goes what cannot fail.
"""

from __future__ import annotations

import dataclasses

from dy2st_runtime.analyses.purity import is_part, is_pure, never_raises
from dy2st_runtime.ir.program import Program, copy_block, nested_blocks


def remove_unused_tensors(program: Program) -> Program:
    """Remove operations that have no use, no effect and no way to fail.

    Args:
        program: any program.

    Returns:
        A program with the same results.
    """
    block = copy_block(program.block)
    for inner in nested_blocks(block):
        for node in reversed(list(inner.graph.nodes)):
            if node.op == "call_function" and not node.users and is_pure(node) and (never_raises(node) or is_part(node)):
                inner.graph.erase_node(node)
    return dataclasses.replace(program, block=block)
