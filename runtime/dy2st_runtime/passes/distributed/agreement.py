"""Has processes compare the conditions of branches and loops in which they work together.

    if p:                              call_(agree[branch], (p,))
      call_(all_reduce, (y,))     →    if p:
                                         call_(all_reduce, (y,))

The condition of a loop is compared before it, and at the end of each iteration. Where the answers are not the same, all processes
raise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import fx

from dy2st_runtime.distributed.agreement import Agree
from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.ir.printing import short_place
from dy2st_runtime.ir.program import Program, copy_block
from dy2st_runtime.passes.distributed.meeting import Meetings
from dy2st_runtime.primitives import control


def with_agreement(program: Program, sharded: Mapping[int, Group] | None = None) -> Program:
    """Compare the conditions on which it depends whether processes meet.

    Args:
        program: any program.
        sharded: groups of processes that share the gradient of an input of the program, by its position.

    Returns:
        A program with the same results, which raises :class:`~dy2st_runtime.errors.DivergenceError` where processes part ways.
    """
    program = dataclasses.replace(program, block=copy_block(program.block))
    meetings = Meetings(program, sharded or {})
    for node in list(program.nodes()):
        if node.target in (control.if_, control.while_) and (group := meetings.group(node)) is not None:
            compare(node, group)
    return program


def compare(node: fx.Node, group: Group) -> None:
    """Compare the condition of one branch or loop."""
    pred, first, *_ = node.args
    is_loop = node.target is control.while_
    agree = Agree(group, place_of(node), "loop" if is_loop else "branch")
    with node.graph.inserting_before(node):
        called(node.graph, node, agree, pred)
    if is_loop:
        body: Any = first
        end = body.graph.output_node()
        with body.graph.inserting_before(end):
            called(body.graph, node, agree, body.outputs[0])


def place_of(node: fx.Node) -> str:
    """Return the user's line of a node, for messages."""
    location = node.meta.get("location")
    return "a line that is not known" if location is None else short_place(location)


def line_of(node: fx.Node) -> dict[str, Any]:
    """Return what is noted of an operation that is added for another one: the user's line."""
    return {key: value for key, value in node.meta.items() if key == "location"}


def called(graph: fx.Graph, like: fx.Node, function: Any, *values: Any) -> fx.Node:
    """Return a call of a function where operations are added now, on the line of another one."""
    result = graph.call_function(control.call_, (function, values, {}))
    result.meta = line_of(like)
    return result
