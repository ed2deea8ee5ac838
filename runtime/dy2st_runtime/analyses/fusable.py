"""Which operations a compiler may take together, and what each of them does to memory.

A region that is compiled must do what its operations do one by one. So an operation is fusable only when it is known to be
a function of its operands: no random numbers, no indices out of the data (a compiled kernel does not raise eager's exception
for a bad one), no integer division (a compiled kernel stops the process at a zero), no sizes that depend on values.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.primitives import control, scalars


def names_of(text: str) -> frozenset[str]:
    """Return the names of operators that a text lists."""
    return frozenset(text.split())


_ADDITIONAL = names_of(
    "sum mean amax amin prod var std var_mean std_mean logsumexp softmax _softmax log_softmax _log_softmax norm any all max min "
    "argmax argmin aminmax linalg_vector_norm cumsum matmul mm bmm addmm addbmm baddbmm linear mv dot outer cat stack hstack "
    "vstack concat where layer_norm native_layer_norm rms_norm group_norm batch_norm conv1d conv2d conv3d "
    "convolution conv_transpose1d conv_transpose2d max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d "
    "adaptive_avg_pool2d scaled_dot_product_attention zeros ones full arange zeros_like ones_like full_like new_zeros new_ones "
    "new_full eye tril triu constant_pad_nd pad flip roll repeat clone contiguous mse_loss l1_loss smooth_l1_loss huber_loss "
    "square rsub softplus gelu silu mish elu selu celu leaky_relu hardtanh relu6 hardswish hardsigmoid logsigmoid softsign "
    "tanhshrink prelu glu cosine_similarity masked_fill addcmul addcdiv lerp clamp clip square clamp_min clamp_max "
    "scalar_tensor type_as subtract multiply divide negative absolute true_divide greater less greater_equal less_equal "
    "not_equal float_power diff"
)
"""Functional operators besides those that torch tags as pointwise."""

_FACTORIES = names_of("zeros ones full arange zeros_like ones_like full_like new_zeros new_ones new_full eye scalar_tensor")
_SIZED = names_of("zeros ones zeros_like ones_like full_like new_zeros new_ones eye repeat tril triu arange")
_NEVER = names_of("as_strided as_strided_ set_ resize_ resize_as_ real imag view_as_real view_as_complex _conj _neg_view")
_WITH_INTEGERS = names_of("div divide floor_divide remainder fmod pow float_power gcd lcm")
_SHIFTS = names_of("bitwise_left_shift bitwise_right_shift __lshift__ __rshift__")
_MAY_BE_INPUT = frozenset({"dropout", "feature_dropout", "alpha_dropout"})
"""Give back their first operand itself when the model is not training, which their schema does not say."""
_SOMETIMES_RANDOM = _MAY_BE_INPUT | {"scaled_dot_product_attention"}


class Kind(enum.Enum):
    """What moving an operation would mean."""

    COMPUTE = "makes new tensors of its operands"
    FACTORY = "makes new tensors of nothing"
    ALIAS = "gives its first operand, or a view of it"
    IN_PLACE = "changes its first operand and gives it back"
    STATISTICS = "like COMPUTE, and changes the running statistics among its operands"
    SIZE = "a size of a tensor, or arithmetic with sizes"
    PURE = "a function of its operands that stays outside of regions"
    ORDERED = "changes no tensor, but must keep its order among its like"
    BARRIER = "may change or read anything"


def kind_of(node: fx.Node) -> Kind:
    """Return what an operation is to the splitting of a block into regions."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _kind_of_operator(node, target)
    if target is operator.getitem and isinstance(node.args[1], int):
        return Kind.ALIAS
    if target in (control.if_, control.while_, control.transform_, control.apply_, control.call_):
        return Kind.BARRIER
    if isinstance(target, control.Control):
        return Kind.ORDERED
    if target in scalars.NAMES:
        if target in (operator.add, operator.sub, operator.mul) and is_int(node) and all(map(is_int, node.all_input_nodes)):
            return Kind.SIZE
        return Kind.ORDERED if _may_raise(target) else Kind.PURE
    return Kind.BARRIER


def _may_raise(target: Any) -> bool:
    name = scalars.NAMES[target]
    return name.split(".")[-1] not in {
        "add", "sub", "mul", "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "logical_not", "logical_and",
        "logical_or", "minimum", "maximum", "where", "size_of", "to_bool", "to_float", "sym_size", "same_size", "not_", "is_",
    }  # fmt: skip


def _kind_of_operator(node: fx.Node, target: torch._ops.OpOverload) -> Kind:
    if target is torch.ops.aten.sym_size.int:
        return Kind.SIZE if isinstance(node.args[1], int) else Kind.PURE
    name = target.overloadpacket.__name__
    writes = _written(target)
    fusable = _is_fusable(node, target, name)
    if writes:
        in_place = writes == (0,) and name.endswith("_") and fusable and isinstance(node.args[0], fx.Node)
        return Kind.IN_PLACE if in_place else Kind.BARRIER
    if name == "batch_norm" and node.args[5]:
        return Kind.STATISTICS if fusable else Kind.BARRIER
    if _aliases(target) or name in _MAY_BE_INPUT:
        if name in _MAY_BE_INPUT and node.args[2] is not False:
            return Kind.ORDERED  # random numbers
        return Kind.ALIAS if fusable else Kind.PURE
    if not fusable:
        return _kind_outside(target)
    return Kind.FACTORY if name in _FACTORIES else Kind.COMPUTE


def _kind_outside(target: torch._ops.OpOverload) -> Kind:
    if target.namespace not in ("aten", "prims"):
        return Kind.BARRIER  # a library's own operator: its schema may not tell all
    return Kind.ORDERED  # random, or may raise


def _is_fusable(node: fx.Node, target: torch._ops.OpOverload, name: str) -> bool:
    """Tell whether an operator may be compiled, as far as memory does not matter."""
    if target.namespace != "aten" or name in _NEVER:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags and name not in _SOMETIMES_RANDOM:
        return False
    if name in _MAY_BE_INPUT:
        return node.args[2] is False
    bare = name.rstrip("_") if not name.endswith("__") else name
    known = torch.Tag.pointwise in target.tags or bare in _ADDITIONAL or _aliases(target)
    return known and _fits(node, bare)


def _fits(node: fx.Node, name: str) -> bool:
    """Tell whether the operands are of kinds for which compiled code does what eager does."""
    kinds = [dtype_of(value) for value in (node, *node.all_input_nodes)]
    if node.kwargs.get("pin_memory") or name in _SHIFTS:
        return False
    if any(kind is not None and kind.startswith(("c", "q")) for kind in kinds):
        return False  # complex and quantised numbers
    if name == "scaled_dot_product_attention" and (node.args[4:5] not in ((), (0.0,)) or node.kwargs.get("dropout_p")):
        return False
    if name in _WITH_INTEGERS and not all(kind is None or kind.startswith(("f", "bf")) for kind in kinds):
        return False
    return all(
        kind is not None or (is_int(value) and _takes_sizes(node, name)) for kind, value in zip(kinds[1:], node.all_input_nodes)
    )


def _takes_sizes(node: fx.Node, name: str) -> bool:
    """Tell whether an integer operand is a size or a position; as an operand of arithmetic a number stays outside."""
    assert isinstance(node.target, torch._ops.OpOverload)
    return _aliases(node.target) or name in _SIZED


@functools.lru_cache(maxsize=4096)
def _written(target: torch._ops.OpOverload) -> tuple[int, ...]:
    """Return the positions of the operands that an operator changes."""
    arguments = target._schema.arguments
    return tuple(i for i, argument in enumerate(arguments) if argument.alias_info is not None and argument.alias_info.is_write)


@functools.lru_cache(maxsize=4096)
def _aliases(target: torch._ops.OpOverload) -> bool:
    """Tell whether a result may share memory with the first operand."""
    return any(result.alias_info is not None for result in target._schema.returns) and not _written(target)


def writes(node: fx.Node) -> bool:
    """Tell whether an operation may change a tensor that other operations see."""
    return kind_of(node) in (Kind.IN_PLACE, Kind.STATISTICS) or (
        isinstance(node.target, torch._ops.OpOverload) and bool(_written(node.target))
    )


def dtype_of(node: fx.Node) -> str | None:
    """Return the short name of a tensor's dtype (``f32``).

    Of the first part where there are several; ``None`` for anything else.
    """
    kind = node.meta.get("type", "")
    result = re.match(r"\(?(\w+)\[", kind, re.ASCII)
    return result[1] if result else None


def is_int(node: fx.Node) -> bool:
    """Tell whether a value is an integer of Python, or a size."""
    if node.target is torch.ops.aten.sym_size.int:
        return True
    kind = node.meta.get("type")
    if kind is not None:
        return bool(kind == "int")
    if node.target in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod):
        return all(isinstance(value, int) or (isinstance(value, fx.Node) and is_int(value)) for value in node.args)
    return node.target in (scalars.range_length, scalars.to_int)


def dims_of(node: fx.Node) -> tuple[str, ...] | None:
    """Return the sizes of a tensor as its type spells them; ``None`` when it does not say."""
    result = re.fullmatch(r"\w+\[(.*)\]", node.meta.get("type", ""), re.ASCII)
    if result is None:
        return None
    return tuple(part.strip() for part in _split(result[1])) if result[1] else ()


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]
