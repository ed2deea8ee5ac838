"""A limit on the loops of a program that is not trusted to end."""

from __future__ import annotations

import dataclasses
import operator

from torch import fx

from dy2st_runtime.errors import StepLimitError
from dy2st_runtime.ir.program import Block, Location, Program, copy_block, nested_blocks, node_blocks
from dy2st_runtime.primitives import control


def limited(program: Program, max_steps: int | None) -> Program:
    """Return a program that gives up once its loops have made a number of iterations.

    The iterations of all loops in one call count together. The count is a list with one number, made by the call and handed to
    every block with a loop in it, so the limit is made of ordinary operations and holds with every executor.

    Args:
        program: any program; it stays as it is.
        max_steps: how many iterations one call may make; ``None`` for any number.

    Returns:
        The program itself where there is nothing to limit, or else a copy that raises
        :class:`~dy2st_runtime.errors.StepLimitError` at the first iteration too many.
    """
    if max_steps is None or not _loops(program.block):
        return program
    block = copy_block(program.block)
    with block.graph.inserting_before(_first_operation(block)):
        left = block.graph.call_function(control.list_, ([max_steps],))
    left.meta["location"] = program.origin
    _count(block, left, max_steps)
    return dataclasses.replace(program, block=block)


def _loops(block: Block) -> bool:
    return any(node.target is control.while_ for inner in nested_blocks(block) for node in inner.graph.nodes)


def _first_operation(block: Block) -> fx.Node:
    result: fx.Node = next(node for node in block.graph.nodes if node.op != "placeholder")
    return result


def _count(block: Block, left: fx.Node, max_steps: int) -> None:
    """Hand the list with the iterations that are left to every loop in a block."""
    for node in list(block.graph.nodes):
        inside = [inner for inner in node_blocks(node) if _loops(inner)]
        if not inside and node.target is not control.while_:
            continue
        for inner in node_blocks(node):
            with block.graph.inserting_before(node), inner.graph.inserting_before(_first_operation(inner)):
                taken = inner.graph.placeholder("steps_left")
            if node.target is control.while_:
                _take_one(inner, taken, max_steps, node.meta.get("location"))
            _count(inner, taken, max_steps)
        operands = node.args[-1]
        assert isinstance(operands, tuple), "the operands of a control node are its last argument"
        node.args = (*node.args[:-1], (*operands, left))


def _take_one(body: Block, left: fx.Node, max_steps: int, location: Location | None) -> None:
    graph = body.graph
    message = f"the loops of this call make more than {max_steps} iterations (max_steps)"
    with graph.inserting_before(_first_operation(body)):
        before = graph.call_function(control.list_get, (left, 0))
        after = graph.call_function(operator.sub, (before, 1))
        store = graph.call_function(control.list_set, (left, 0, after))
        enough = graph.call_function(operator.ge, (after, 0))
        check = graph.call_function(control.assert_, (enough, StepLimitError, message))  # type: ignore[arg-type]
    for node in (before, after, store, enough, check):
        if location is not None:
            node.meta["location"] = location
