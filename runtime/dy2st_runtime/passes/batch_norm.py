"""Folds a batch normalisation with fixed statistics into the convolution or linear layer before it.

    y = aten.conv2d.default(x, w, b)                      scale = gain * rsqrt(var + eps)
    z = aten.batch_norm.default(y, gain, shift,     →     z = aten.conv2d.default(x, w * scale, (b - mean) * scale + shift)
            mean, var, False, …)

The new weights are computed at each call, so that new parameters and statistics are seen. That costs a pass over the weights and
saves one over the result, so it is done where the result is larger. Results are rounded otherwise: this pass is not part of
:func:`~dy2st_runtime.passes.pipeline.optimize`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, is_quiet
from dy2st_runtime.analyses.purity import replace_all
from dy2st_runtime.ir.operators import present
from dy2st_runtime.ir.program import Program, copy_block, nested_blocks
from dy2st_runtime.ir.value_types import tensor_type

aten = torch.ops.aten
_CONVOLUTIONS = frozenset(present("conv1d.default", "conv2d.default", "conv3d.default"))


def fold_batch_norm(program: Program, *, always: bool = False) -> Program:
    """Fold batch normalisations that do not train into what is before them.

    Gradients go through the folded weights to the parameters, as they do in eager, up to rounding.

    Args:
        program: any program.
        always: whether to fold also where the weights are larger than the result, or where that is not known.

    Returns:
        A program with the same results, up to rounding.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
        >>> static = dy2st.to_static(model, passes=[fold_batch_norm])
        >>> program = static.forward.program(torch.ones(1, 1, 8, 8))
        >>> any("batch_norm" in str(node.target) for node in program.nodes())
        False
    """
    block = copy_block(program.block)
    aliasing = Aliasing(block)
    for inner in nested_blocks(block):
        for node in list(inner.graph.nodes):
            if node.target is aten.batch_norm.default and _may_fold(node, aliasing) and (always or _pays(node)):
                _fold(node)
    return dataclasses.replace(program, block=block)


def _may_fold(norm: fx.Node, aliasing: Aliasing) -> bool:
    layer, _, _, mean, var, training = norm.args[:6]
    if training is not False or mean is None or var is None or not isinstance(layer, fx.Node) or len(layer.users) != 1:
        return False
    rank = tensor_type(layer)
    fits = layer.target in _CONVOLUTIONS or (layer.target is aten.linear.default and rank is not None and len(rank[1]) == 2)
    values = [*norm.all_input_nodes, *layer.all_input_nodes]
    same_dtype = len({result[0] for value in (norm, *values) if (result := tensor_type(value)) is not None}) == 1
    if (
        not fits
        or tensor_type(layer.args[1]) is None
        or not same_dtype
        or norm.kwargs
        or layer.kwargs
        or any(map(aliasing.is_written, values))
    ):
        return False
    between = layer
    while between is not norm:
        if not is_quiet(between):
            return False
        between = between.next
    return True


def _pays(norm: fx.Node) -> bool:
    """Tell whether one sample's result, or as many as are known, is larger than the weights."""
    layer: Any = norm.args[0]
    result, weight = tensor_type(layer), tensor_type(layer.args[1])
    if result is None or weight is None:
        return False
    known = [int(size) if size.isdecimal() else 1 for size in result[1]]
    return all(size.isdecimal() for size in (*result[1][1:], *weight[1])) and math.prod(known) > math.prod(map(int, weight[1]))


def _fold(norm: fx.Node) -> None:
    layer, gain, shift, mean, var, *_ = norm.args
    assert isinstance(layer, fx.Node)
    eps, graph = norm.args[7], norm.graph
    _, weight, bias, *options = (*layer.args, None)[: max(3, len(layer.args))]

    def call(target: Any, *args: Any) -> fx.Node:
        node = graph.call_function(target, args)
        node.meta.update(norm.meta, type="")
        return node

    weight_type: Any = tensor_type(weight)
    column = [-1] + [1] * (len(weight_type[1]) - 1)
    with graph.inserting_before(norm):
        scale = call(aten.rsqrt.default, call(aten.add.Tensor, var, eps))
        if gain is not None:
            scale = call(aten.mul.Tensor, gain, scale)
        moved: Any = call(aten.neg.default, mean) if bias is None else call(aten.sub.Tensor, bias, mean)
        moved = call(aten.mul.Tensor, moved, scale)
        if shift is not None:
            moved = call(aten.add.Tensor, moved, shift)
        scaled = call(aten.mul.Tensor, weight, call(aten.reshape.default, scale, column))
        folded = call(layer.target, layer.args[0], scaled, moved, *options)
    folded.meta.update(norm.meta)
    replace_all(norm, folded)
    graph.erase_node(layer)
