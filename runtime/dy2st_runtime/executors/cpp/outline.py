"""Takes units out of a program: each becomes a call, with the operations as they were for when the call declines.

x = …                            done = call unit(x, n)
y = while … with (x, n)    →     y = if done[0]:
                                   yield done[1]
                                 else:
                                   … the operations
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.executors.cpp.supported import gather_parts, runs_of, why_not
from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.primitives import control

Make = Callable[[Block, fx.Node, bool], Callable[..., tuple[Any, ...]]]
"""Makes the function that runs a block: gives whether it did, then the block's outputs. Takes the first operation, and whether the
unit is inside of a block that another executor runs."""


def outlined(program: Program, make: Make, note: Callable[[fx.Node, str], None]) -> Program:
    """Return the program with calls of units in it.

    Args:
        program: any program; it stays as it is.
        make: makes a unit.
        note: is told of each branch and loop that is in no unit, and why.
    """
    block = copy_block(program.block)
    _rewrite(block, make, note, False)
    return dataclasses.replace(program, block=block)


def _rewrite(block: Block, make: Make, note: Callable[[fx.Node, str], None], nested: bool) -> None:
    gather_parts(block)
    taken: set[fx.Node] = set()
    for run in list(runs_of(block)):
        taken.update(run)
        _replace(block, run, make, note, nested)
    for node in list(block.graph.nodes):
        if node.op != "call_function" or node in taken or not node_blocks(node) or node.meta.get("cpp"):
            continue
        reason = why_not(node)
        if reason is not None:
            note(node, reason)
        for inner in node_blocks(node):
            if node.target is not control.transform_:
                _rewrite(inner, make, note, True)


def _replace(block: Block, run: Sequence[fx.Node], make: Make, note: Callable[[fx.Node, str], None], nested: bool) -> None:
    """Put a unit, and the branch between it and the operations, in the place of the operations."""
    members = set(run)
    inputs = list(dict.fromkeys(used for node in run for used in node.all_input_nodes if used not in members))
    outputs = [node for node in run if any(user not in members for user in node.users)]
    if any(node_blocks(node) for node in outputs):
        return  # somebody takes all results of a branch or loop as one
    unit = make(_extracted(run, inputs, outputs), run[0], nested)
    orelse = _extracted(run, inputs, outputs, "result")
    _rewrite_inside(orelse, len(run), make, note, nested)
    graph = block.graph
    with graph.inserting_before(run[0]):
        call = graph.call_function(control.call_, (unit, tuple(inputs), {}))  # type: ignore[arg-type]
        done = graph.call_function(operator.getitem, (call, 0))
        chosen = graph.call_function(control.if_, (done, _results(len(inputs), len(outputs)), orelse, (call, *inputs)))  # type: ignore[arg-type]
        parts = [graph.call_function(operator.getitem, (chosen, index)) for index in range(len(outputs))]
    for item in (call, done, chosen, *parts):
        item.meta.update({key: value for key, value in run[0].meta.items() if key == "location"}, cpp=True)
    for node, part in zip(outputs, parts):
        part.meta.update(node.meta)
        node.replace_all_uses_with(part, delete_user_cb=lambda user: user not in members)
    for node in reversed(run):
        graph.erase_node(node)


def _rewrite_inside(orelse: Block, size: int, make: Make, note: Callable[[fx.Node, str], None], nested: bool) -> None:
    """Units for parts of what a declined unit was made of: each branch and loop, or, if it was but one, the blocks inside."""
    holders = [node for node in orelse.graph.nodes if node_blocks(node)]
    for node in holders:
        parts = [user for user in node.users if user.target is operator.getitem]
        if size > 1 + len(parts):
            _replace(orelse, [node, *sorted(parts, key=lambda part: part.args[1])], make, note, nested)
        else:
            for inner in node_blocks(node):
                _rewrite(inner, make, note, True)


def _extracted(run: Sequence[fx.Node], inputs: Sequence[fx.Node], outputs: Sequence[fx.Node], *unused: str) -> Block:
    """Return the operations as a block of their own, which may take more inputs than it needs, in front of the others."""
    graph = fx.Graph()
    for name in unused:
        graph.placeholder(name)
    table: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        table[node] = graph.placeholder(node.name)
        table[node].meta.update(node.meta)
    for node in run:
        copied = table[node] = graph.node_copy(node, lambda used: table[used])
        copied.args = tuple(copy_block(value) if isinstance(value, Block) else value for value in copied.args)
    graph.output(tuple(table[node] for node in outputs))
    return Block(graph)


def _results(inputs: int, outputs: int) -> Block:
    """Return what takes the results of a unit apart."""
    graph = fx.Graph()
    result = graph.placeholder("result")
    for index in range(inputs):
        graph.placeholder(f"unused_{index}")
    graph.output(tuple(graph.call_function(operator.getitem, (result, index + 1)) for index in range(outputs)))
    return Block(graph)
