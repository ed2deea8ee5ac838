"""Which operations may go when nobody uses their values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dy2st_runtime.primitives import control, scalars

_PURE: frozenset[Callable[..., Any]] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, operator.eq, operator.ne,
        operator.lt, operator.le, operator.gt, operator.ge, operator.is_, operator.not_, operator.and_, operator.or_,
        operator.xor, operator.invert, scalars.same_size, scalars.logical_not, scalars.logical_and, scalars.logical_or,
        scalars.minimum, scalars.maximum, scalars.where, scalars.size_of, slice, torch.ops.aten.sym_size.int,
    }
)  # fmt: skip
"""Never raise and have no effect when their operands are numbers."""
_DIVISIONS = frozenset({operator.truediv, operator.floordiv, operator.mod, divmod})
"""Raise only when they divide by zero."""
_CASTS = frozenset({scalars.to_bool, scalars.to_int, scalars.to_float})
"""Never raise for a number; for a tensor they may, and a nan has no integer."""


def is_removable(node: fx.Node) -> bool:
    """Tell whether a node can go when nobody uses its value: it has no effect and never raises."""
    if node.op != "call_function":
        return True  # inputs and outputs are no reason to keep anything
    target = node.target
    if target is control.if_:
        return _is_number(node.args[0]) or _is_one_element(node.args[0])
    if isinstance(target, control.Control):
        return not target.effect
    if target is operator.getitem:
        return isinstance(node.args[1], int)
    if target in _DIVISIONS:
        return isinstance(node.args[1], (int, float)) and node.args[1] != 0
    if target is scalars.to_bool and _is_one_element(node.args[0]):
        return True
    if target in _CASTS:
        return _is_number(node.args[0], but="float" if target is scalars.to_int else "")
    return target in _PURE


def _is_number(value: Any, but: str = "") -> bool:
    kind = value.meta.get("type", "") if isinstance(value, fx.Node) else type(value).__name__
    return kind in {"bool", "int", "float"} - {but}


def _is_one_element(value: Any) -> bool:
    """Tell whether it is a tensor without dimensions, whose truth value can always be asked."""
    return isinstance(value, fx.Node) and value.meta.get("type", "").endswith("[]")
