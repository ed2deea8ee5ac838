"""Leaves out operations that give back what they got, where not a bit changes.

    a = aten.to.dtype(x, torch.float32)    # x: f32[4]
    b = aten.dropout.default(a, 0.5, False)                →   c = aten.exp.default(x)
    c = aten.exp.default(b)
    d = aten.t.default(aten.t.default(c))                      (d is c, where neither is written and d stays inside)
    n = i + 0                              # i: int        →   (n is i)

``to`` and ``dropout`` above give back the very same tensor, so leaving them out is right everywhere. The others make a new
tensor or view: they stay where autograd may look at it, where the memory is written, and where the caller gets it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing
from dy2st_runtime.analyses.purity import may_differentiate, replace_all
from dy2st_runtime.ir.operators import present
from dy2st_runtime.ir.printing import short_dtype
from dy2st_runtime.ir.program import Program, copy_block, nested_blocks
from dy2st_runtime.ir.value_types import is_number, may_have_gradient, tensor_type, type_of
from dy2st_runtime.primitives import scalars

aten = torch.ops.aten
_INT, _FLOAT, _BOOL = (frozenset({kind}) for kind in ("int", "float", "bool"))
_TWICE_IS_ONCE = frozenset(present("abs.default", "relu.default", "floor.default", "ceil.default", "clone.default"))
_TWICE_IS_NOTHING = frozenset(present("neg.default", "t.default", "logical_not.default", "bitwise_not.default"))


def simplify(program: Program, *, gradients: bool = True) -> Program:
    """Leave out what gives back its argument, in all blocks.

    Args:
        program: any program.
        gradients: whether autograd may record what the program does; then its tensors keep every operation that it would see.

    Returns:
        A program with the same results.
    """
    gradients = gradients or may_differentiate(program)
    block = copy_block(program.block)
    aliasing = Aliasing(block)
    for inner in nested_blocks(block):
        for node in list(inner.graph.nodes):
            if node.op != "call_function":
                continue
            result = _same_object(node)
            if result is None and not (gradients and may_have_gradient(node)):
                result = _same_value(node, aliasing)
            if result is not None:
                if isinstance(result, fx.Node):
                    aliasing.unite(result, node)
                replace_all(node, result)
    return dataclasses.replace(program, block=block)


def _same_object(node: fx.Node) -> Any:
    """Return the argument that a node gives back itself; ``None`` if it is something else."""
    rule = _OBJECT_RULES.get(node.target)
    return rule(node) if rule is not None else None


def _to_dtype(node: fx.Node) -> Any:
    tensor, *rest = node.args
    result = tensor_type(tensor)
    plain = result is not None and len(rest) <= 2 and not node.kwargs and all(value is False for value in rest[1:])
    return tensor if plain and result and rest and short_dtype(rest[0]) == result[0] else None  # type: ignore[arg-type]


def _eval_dropout(node: fx.Node) -> Any:
    return node.args[0] if len(node.args) == 3 and node.args[2] is False else None


def _drops_neutral(neutral: int, kinds: frozenset[str], both_sides: bool) -> Callable[[fx.Node], Any]:
    def rule(node: fx.Node) -> Any:
        left, right = node.args
        if is_number(left, kinds) and type(right) is int and right == neutral:
            return left
        if both_sides and is_number(right, kinds) and type(left) is int and left == neutral:
            return right
        return None

    return rule


def _conversion(kinds: frozenset[str]) -> Callable[[fx.Node], Any]:
    return lambda node: node.args[0] if len(node.args) == 1 and is_number(node.args[0], kinds) else None


_OBJECT_RULES: dict[Any, Callable[[fx.Node], Any]] = {
    **dict.fromkeys(present("to.dtype"), _to_dtype),
    **dict.fromkeys(present("dropout.default"), _eval_dropout),
    operator.add: _drops_neutral(0, _INT, True),
    operator.sub: _drops_neutral(0, _INT | _FLOAT, False),
    operator.mul: _drops_neutral(1, _INT | _FLOAT, True),
    operator.floordiv: _drops_neutral(1, _INT, False),
    scalars.to_int: _conversion(_INT),
    scalars.to_float: _conversion(_FLOAT),
    scalars.to_bool: _conversion(_BOOL),
}


def _same_value(node: fx.Node, aliasing: Aliasing) -> Any:
    """Return another value with the same bits and layout that can stand for a node."""
    result = _inner_value(node, aliasing)
    if result is None or type_of(result) != type_of(node) or aliasing.is_written(result) or aliasing.is_written(node):
        return None
    return None if aliasing.escapes(node) and (aliasing.escapes(result) or not aliasing.is_new(result)) else result


def _inner_value(node: fx.Node, aliasing: Aliasing) -> fx.Node | None:
    inner = node.args[0] if node.args else None
    if not isinstance(inner, fx.Node) or node.kwargs:
        return None
    if node.target in _TWICE_IS_ONCE and inner.target is node.target and inner.args[1:] == node.args[1:] == () and not inner.kwargs:
        return inner
    if node.target in _TWICE_IS_NOTHING and inner.target is node.target:
        return _if_compact(inner.args[0], aliasing, node.target is aten.t.default)
    if node.target is aten.transpose.int and inner.target is aten.transpose.int and _same_dims(node, inner):
        return _if_compact(inner.args[0], aliasing, True)
    neutral = node.target in (aten.mul.Tensor, aten.div.Tensor) and type(node.args[1]) in (int, float) and node.args[1] == 1
    return _if_compact(inner, aliasing) if neutral else None


def _if_compact(value: Any, aliasing: Aliasing, any_layout: bool = False) -> fx.Node | None:
    """Return a value, when a copy of it is sure to lie in memory as it does: kernels may round otherwise for another layout."""
    compact = isinstance(value, fx.Node) and (any_layout or aliasing.is_new(value))
    return value if compact else None


def _same_dims(node: fx.Node, inner: fx.Node) -> bool:
    result = tensor_type(node)
    if result is None or not all(type(dim) is int for dim in (*node.args[1:], *inner.args[1:])):
        return False
    rank = max(1, len(result[1]))
    return {dim % rank for dim in node.args[1:]} == {dim % rank for dim in inner.args[1:]}  # type: ignore[operator]  # ints
