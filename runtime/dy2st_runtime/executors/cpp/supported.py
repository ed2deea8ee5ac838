"""Which parts of a program can become units, as far as that is known without the sizes of a call."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from torch import fx

from dy2st_runtime.executors.cpp.numbers import TARGETS
from dy2st_runtime.executors.cpp.operators import rule_of
from dy2st_runtime.ir.program import Block, node_blocks
from dy2st_runtime.primitives import control, scalars

MIN_OPERATIONS = 6
"""So many operations in a row make a unit worth while, where there is no branch or loop among them."""

_BLOCKS = (control.if_, control.while_)
_CHECKS = (control.assert_, control.raise_, control.format_)


def why_not(node: fx.Node) -> str | None:
    """Return what keeps an operation out of a unit; ``None`` when nothing does."""
    target = node.target
    if target in _BLOCKS:
        for block in node_blocks(node):
            for inner in block.graph.nodes:
                reason = why_not(inner) if inner.op == "call_function" else None
                if reason is not None:
                    return reason
        return None
    if isinstance(target, control.Control):
        return None if target in _CHECKS else f"{target.name} ({node.meta.get('location')}) has no C++"
    if isinstance(target, torch._ops.OpOverload) and target is not torch.ops.aten.sym_size.int:
        return None if rule_of(target) is not None else f"{target} ({node.meta.get('location')}) has no C++"
    name = scalars.NAMES.get(target)  # type: ignore[arg-type]
    return None if name in TARGETS else f"{name or target} ({node.meta.get('location')}) has no C++"


def is_worth_while(nodes: Sequence[fx.Node]) -> bool:
    """Tell whether a call costs less than what these operations cost one by one."""
    count = sum(isinstance(node.target, torch._ops.OpOverload) for node in nodes)
    return count >= MIN_OPERATIONS or any(node.target is control.while_ for node in nodes) or any(map(_is_busy, nodes))


def _is_busy(node: fx.Node) -> bool:
    """Tell whether a branch has something to compute."""
    inner = [n for block in node_blocks(node) for n in block.graph.nodes if n.op == "call_function"]
    return sum(isinstance(n.target, torch._ops.OpOverload) for n in inner) >= 3 or any(map(_is_busy, inner))


def runs_of(block: Block) -> Iterator[list[fx.Node]]:
    """Yield the runs of operations in a block that can go into a unit together."""
    results: list[fx.Node] = []
    for node in block.graph.nodes:
        if node.op == "call_function" and why_not(node) is None:
            results.append(node)
        elif node.op != "placeholder":
            if is_worth_while(results):
                yield results
            results = []


def gather_parts(block: Block) -> None:
    """Put what takes a part of a value right behind the value, so that both go into one unit."""
    for node in list(block.graph.nodes):
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node) and isinstance(node.args[1], int):
            source = node.args[0]
            if source.op == "call_function" and _gives_parts(source):
                source.append(node)


def _gives_parts(node: fx.Node) -> bool:
    return node.target in _BLOCKS or isinstance(node.target, torch._ops.OpOverload)
