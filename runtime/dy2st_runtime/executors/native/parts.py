"""Results of operations that are made of several parts, for which there are registers of their own."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.structure import ObjectOf
from dy2st_runtime.primitives import control


def takes_part(user: fx.Node, node: fx.Node, count: int) -> bool:
    """Tell whether a user of a result with so many parts takes one of them."""
    if user.target is not operator.getitem or user.args[0] is not node:
        return False
    index = user.args[1]
    return type(index) is int and 0 <= index < count


def count_of_parts(node: fx.Node) -> int:
    """Return how many parts a result always has; 0 if it is a single value, or that is not known."""
    if node.target is control.item_parts:
        kind: Any = node.args[1]
        return len(kind.fields) if isinstance(kind, ObjectOf) else int(kind)
    if isinstance(node.target, torch._ops.OpOverload):
        count = len(node.target._schema.returns)
        return count if count > 1 else 0
    if node.target is control.transform_ and all(user.target is operator.getitem for user in node.users):
        indices: list[Any] = [user.args[1] for user in node.users]
        return 1 + max(indices, default=-1) if all(type(index) is int for index in indices) else 0
    return 0
