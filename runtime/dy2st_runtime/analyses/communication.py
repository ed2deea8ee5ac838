"""Which operations of a program work together with other processes, and with which ones."""

from __future__ import annotations

import torch
from torch import fx

from dy2st_runtime.distributed import collectives
from dy2st_runtime.ir.program import node_blocks, operations
from dy2st_runtime.primitives import control

_SAME_AFTERWARDS = ("all_reduce", "all_reduce_coalesced", "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_single")
"""Collectives that leave the same in the tensor that they write in all processes of their group."""
_SAME_RESULT = ("all_reduce", "all_reduce_coalesced", "broadcast", "all_gather_into_tensor", "all_gather_into_tensor_coalesced")
"""Operators whose result is the same in all processes."""


def group_of(node: fx.Node) -> collectives.Group | None:
    """Return the group of processes that have to do an operation together; ``None`` if it is for one alone."""
    if node.target is control.call_:
        call = node.args[0]
        if isinstance(call, collectives.Batch):
            return call.parts[0][2]
        group = None if isinstance(call, collectives.Expect) else getattr(call, "group", None)
        return group if isinstance(group, collectives.Group) else None
    name = collectives.group_name(node.target, node.args, node.kwargs)
    return None if name is None else collectives.Group.of(collectives.named(name))


def makes_same(node: fx.Node) -> bool:
    """Tell whether what a collective gives, or leaves in its first argument, is the same in all processes of its group."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2].rstrip("_") in _SAME_RESULT
    return getattr(node.args[0], "name", None) in _SAME_AFTERWARDS


def groups_inside(node: fx.Node) -> list[tuple[fx.Node, collectives.Group]]:
    """Return the operations in the blocks of a node that work together with other processes, with their groups."""
    found = ((inner, group_of(inner)) for block in node_blocks(node) for inner in operations(block))
    return [(inner, group) for inner, group in found if group is not None and len(group.ranks) > 1]
