"""Which outputs of a block may have a gradient, given which of its inputs have one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control

_FLOATS = ("f", "bf", "c")
_SWITCH = torch._C._set_grad_enabled


def outputs_with_gradient(block: Block, inputs: Sequence[bool]) -> tuple[bool, ...]:
    """Tell for each output whether it may have a gradient.

    Args:
        block: any block; it runs where gradients are recorded.
        inputs: whether each input has one.
    """
    return _through(block, inputs, True)[0]


def _through(block: Block, inputs: Sequence[bool], is_on: bool) -> tuple[tuple[bool, ...], bool]:
    flags: dict[fx.Node, Any] = dict(zip(block.inputs, inputs, strict=True))

    def flag(value: Any) -> bool:
        result = flags.get(value, False) if isinstance(value, fx.Node) else False
        return any(result) if isinstance(result, tuple) else result

    for node in block.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is _SWITCH:
            is_on = bool(node.args[0])
        elif node.target is operator.getitem and isinstance(flags.get(node.args[0]), tuple):
            flags[node] = flags[node.args[0]][node.args[1]]
        elif node.target in (control.if_, control.while_, control.transform_):
            flags[node] = _of_control(node, flag, is_on)
        else:
            flags[node] = is_on and _differentiates(node) and any(map(flag, node.all_input_nodes))
    return tuple(map(flag, block.outputs)), is_on


def _of_control(node: fx.Node, flag: Any, is_on: bool) -> Any:
    if node.target is control.if_:
        _, then, orelse, operands = node.args
        given = [flag(value) for value in operands]  # type: ignore[union-attr]
        pair = [_through(block, given, is_on)[0] for block in (then, orelse)]  # type: ignore[arg-type]
        return tuple(map(operator.or_, *pair))
    name, body, carried, operands = node.args
    given = [flag(value) for value in operands]  # type: ignore[union-attr]
    flags = [flag(value) for value in carried]  # type: ignore[union-attr]
    if node.target is control.transform_ and name == "checkpoint":
        return _through(body, (*flags, *given), is_on)[0]  # type: ignore[arg-type]
    if node.target is control.transform_ and name != "loop":
        return is_on and any((*flags, *given))
    while True:
        after = _through(body, (*flags, *given), is_on)[0][1:]  # type: ignore[arg-type]
        joined = list(map(operator.or_, flags, after))
        if joined == flags:
            return tuple(flags)
        flags = joined


def _differentiates(node: fx.Node) -> bool:
    """Tell whether what an operation gives may lead back to what it takes."""
    if isinstance(node.target, torch._ops.OpOverload) and node.target.overloadpacket.__name__ == "detach":
        return False
    kind = str(node.meta.get("type") or "")
    return not kind or "[" not in kind or kind.startswith((*_FLOATS, "("))
