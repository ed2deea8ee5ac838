"""What a pass may leave out, run once instead of twice, or run earlier."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import writes
from dy2st_runtime.analyses.removable import is_removable
from dy2st_runtime.ir.program import Program
from dy2st_runtime.ir.value_types import static_sizes, tensor_type, type_of
from dy2st_runtime.primitives import control, modes, scalars

_DTYPES = frozenset({"f32", "f64", "i64", "bool"})
"""Kernels of other dtypes may be missing where the shapes alone look fine."""

_FLOATS = frozenset({"f32", "f64"})

_FLOAT_OPERATORS = frozenset(
    {
        "exp", "tanh", "sigmoid", "relu", "sqrt", "rsqrt", "sin", "cos", "log", "log1p", "expm1", "square", "silu",
        "gelu", "reciprocal", "erf", "floor", "ceil", "leaky_relu", "hardtanh", "pow", "matmul", "mm", "bmm", "addmm",
        "linear", "mean", "softmax", "log_softmax", "abs", "neg",
    }
)  # fmt: skip
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "addmm", "linear"})
"""Want operands of one dtype, which abstract values do not mind."""
_ANY_OPERATORS = frozenset(
    {
        "add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "where", "t", "transpose",
        "permute", "unsqueeze", "squeeze", "expand", "reshape", "flatten", "unflatten", "select", "slice", "narrow",
        "chunk", "split", "sum", "clone", "zeros", "ones", "full", "arange", "zeros_like", "ones_like", "to", "cat",
        "stack",
    }
)  # fmt: skip

_SURE = frozenset(
    {
        control.if_, control.while_, control.raise_, control.print_, control.format_, control.list_, control.list_append,
        control.list_extend, control.list_clear, control.list_reverse, control.list_len, control.list_copy, control.list_concat,
        control.list_find,
        control.item_choose, control.item_make, control.item_kind, control.item_of_kind, control.item_parts,
        control.item_owner, *modes.TARGETS,
    }
)  # fmt: skip
"""Do not fail themselves, whatever is in their blocks; ``raise_`` is no failure of its own."""


def is_pure(node: fx.Node) -> bool:
    """Tell whether an operation gives the same for the same arguments and memory, and does nothing else; it may raise."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target.name()
        return (
            name.startswith(("aten::", "prims::"))
            and not name.startswith(("aten::empty", "aten::new_empty"))
            and torch.Tag.nondeterministic_seeded not in target.tags
            and bool(target._schema.returns)
            and not target._schema.is_mutable
            and not writes(node)
        )
    return node.op == "call_function" and target in scalars.NAMES


def never_raises(node: fx.Node) -> bool:
    """Tell whether an operation is sure to succeed: a capture has run it with these dtypes and sizes, and no value matters."""
    target = node.target
    if isinstance(target, control.Control):
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return is_removable(node)
    namespace, _, name = target.name().partition("::")
    base = name.partition(".")[0]
    if namespace != "aten" or base not in _FLOAT_OPERATORS | _ANY_OPERATORS:
        return False
    dtypes = _DTYPES if base in _ANY_OPERATORS else _FLOATS
    arguments: list[Any] = []
    fx.node.map_aggregate((node.args, node.kwargs), lambda leaf: arguments.append(leaf) or leaf)  # type: ignore[func-returns-value]
    known = _results_known(node) and all(_is_safe_argument(leaf, dtypes) for leaf in arguments)
    if base in _PRODUCTS and len({result[0] for leaf in arguments if (result := tensor_type(leaf)) is not None}) > 1:
        return False
    return known and target._schema.overload_name not in ("Tensor_mode", "Scalar_mode", "out")


def may_fail(node: fx.Node) -> bool:
    """Tell whether an operation, and not one in its blocks, may raise what the user's code does not raise itself."""
    return node.op == "call_function" and node.target not in _SURE and not never_raises(node)


def _results_known(node: fx.Node) -> bool:
    result = tensor_type(node)
    if result is None:  # several results
        return type_of(node).startswith("(")
    return result[0] in _DTYPES and static_sizes(node) is not None


def _is_safe_argument(leaf: Any, dtypes: frozenset[str]) -> bool:
    if isinstance(leaf, fx.Node):
        result = tensor_type(leaf)
        return result is not None and result[0] in dtypes and static_sizes(leaf) is not None
    if isinstance(leaf, (int, float)):
        return not abs(leaf) > 1e30  # nor anything that does not fit its dtype
    return True


def may_differentiate(program: Program) -> bool:
    """Tell whether a program may take gradients itself, whatever surrounds it: then autograd looks at its tensors."""
    return any(
        node.target in (control.call_, control.apply_, control.transform_, torch.ops.aten.requires_grad_.default)
        for node in program.nodes()
    )


def is_part(node: fx.Node) -> bool:
    """Tell whether it takes one result of an operation that has several."""
    return node.target is operator.getitem and len(node.args) == 2 and type(node.args[1]) is int


def replace_all(node: fx.Node, value: Any) -> None:
    """Put a node or constant in the place of a node, and remove that."""
    replace_uses(node, value)
    node.graph.erase_node(node)


def replace_uses(node: fx.Node, value: Any) -> None:
    """Put a node or constant in the place of a node wherever that is used."""

    def replaced(used: fx.Node) -> Any:
        return value if used is node else used

    for user in list(node.users):
        user.args = fx.node.map_arg(user.args, replaced)
        user.kwargs = fx.node.map_arg(user.kwargs, replaced)
