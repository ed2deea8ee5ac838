"""Blocks that do the same in either grad mode, since all that they do is inside of ``with torch.no_grad()`` or the like."""

from __future__ import annotations

import torch
from torch import fx

from dy2st_runtime.ir.program import Block, copy_block, node_blocks
from dy2st_runtime.primitives import control, scalars

LEAVES = "leaves"
"""The mark of an operation that puts the grad mode back at the end of a ``with`` statement, in its ``meta``."""

_SWITCH = torch._C._set_grad_enabled


def in_other_mode(block: Block) -> Block | None:
    """Return the block that is captured in the other grad mode, where it differs in the mode alone that it goes back to.

    Args:
        block: one in which nobody has asked for the mode or what depends on it.
    """
    ends = _ends(block)
    if ends is None or any(node.target is control.raise_ for node in block.graph.nodes):
        return None
    copied = copy_block(block)
    for node, other in zip(block.graph.nodes, copied.graph.nodes, strict=True):
        if node in ends:
            other.args = (not node.args[0],)
    return copied


def _ends(block: Block) -> set[fx.Node] | None:
    """Return the operations that put back the mode from before the block; ``None`` where something depends on that one."""
    depth, results = 0, set[fx.Node]()
    for node in block.graph.nodes:
        if node.target is _SWITCH:
            depth += -1 if node.meta.get(LEAVES) else 1
            if depth == 0:
                results.add(node)
        elif (depth <= 0 and not _is_indifferent(node)) or any(not _is_balanced(inner) for inner in node_blocks(node)):
            return None
        if depth < 0:
            return None
    return results if depth == 0 and results else None


def _is_balanced(block: Block) -> bool:
    """Tell whether a nested block leaves the mode as it was; one that raises has left all modes before."""
    if any(node.target is control.raise_ for node in block.graph.nodes):
        return True
    depth = 0
    for node in block.graph.nodes:
        if node.target is _SWITCH:
            depth += -1 if node.meta.get(LEAVES) else 1
        if depth < 0 or any(not _is_balanced(inner) for inner in node_blocks(node)):
            return False
    return depth == 0


def _is_indifferent(node: fx.Node) -> bool:
    """Tell whether an operation does the same in any mode: it computes no tensor."""
    return node.op != "call_function" or node.target in scalars.NAMES or node.target is torch.ops.aten.sym_size.int
