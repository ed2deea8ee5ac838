"""Has processes take branches and loops together in which they work together, if one of them must.

    if p:                              some, others, in_then, in_else, own = either[branch](p)
      call_(all_reduce, (y,))          if some:                 # all processes, or none
      …                                  …                      # on copies, with gradients of zero, unless in_then
    else:                         →    if others:
      …                                  …
                                       if own: the results of the one, else those of the other

    while p: …                    →    while some: …            # a process that is done keeps what it carries

The backward pass of a process goes through what it has done for others, too, with gradients of zero.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, writes
from dy2st_runtime.distributed import agreement
from dy2st_runtime.distributed.boundaries import Boundary, Gather
from dy2st_runtime.distributed.collectives import Batch, Collective, Group, ask
from dy2st_runtime.errors import DivergenceError
from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks, operations
from dy2st_runtime.ir.value_types import may_have_gradient, tensor_type
from dy2st_runtime.passes.distributed.agreement import called, compare, line_of, place_of
from dy2st_runtime.passes.distributed.meeting import Meetings
from dy2st_runtime.primitives import control, modes
from dy2st_runtime.primitives.islands import Island

_REFUSED: dict[Any, str] = {
    control.raise_: "raises",
    control.print_: "prints",
    control.apply_: "calls a function with a gradient of its own",
}


def taken_together(program: Program, sharded: Mapping[int, Group] | None = None) -> Program:
    """Have all processes enter a branch or loop if one must.

    Args:
        program: any program.
        sharded: groups of processes that share the gradient of an input of the program, by its position.

    Returns:
        A program in which processes always meet.

    Raises:
        DivergenceError: what is done for others only cannot be undone.
    """
    program = dataclasses.replace(program, block=copy_block(program.block))
    _Writer(program, sharded or {}).block(program.block, None)
    return program


class _Writer:
    def __init__(self, program: Program, sharded: Mapping[int, Group]) -> None:
        self._meetings = Meetings(program, sharded)
        self._aliasing = Aliasing(program.block, inputs_apart=True)

    def block(self, block: Block, active: fx.Node | None) -> None:
        """Rewrite a block.

        Args:
            block: the block.
            active: whether a process that runs it does so for itself; ``None`` where it always does.
        """
        for node in [node for node in block.graph.nodes if node.op == "call_function"]:
            if node.target is control.assert_ and active is not None:
                with node.graph.inserting_before(node):
                    node.args = (called(node.graph, node, agreement.holds_or_idle, node.args[0], active), *node.args[1:])
            elif node.target in (control.if_, control.while_):
                self._visit(node, active)
            elif node.target is control.transform_:
                self._refuse_inside(node)
            elif active is not None and node.target is control.call_ and type(node.args[0]) is Gather:
                _mask_all(list(node.users), active)

    def _refuse_inside(self, node: fx.Node) -> None:
        """Refuse that processes part ways in what is done once more in a backward pass, or transformed.

        Raises:
            DivergenceError: they may.
        """
        for block in node_blocks(node):
            for inner in operations(block):
                if self._meetings.has(inner) and self._meetings.group(inner) is not None:
                    raise DivergenceError(
                        f"processes have to take the branch or loop at {inner.meta.get('location')} together, and each decides by "
                        "itself; it is inside of a function that is transformed, or done again in the backward pass; make its "
                        "condition the same in all processes"
                    )

    def _visit(self, node: fx.Node, active: fx.Node | None) -> None:
        group = self._meetings.group(node)
        if group is not None and active is None and self._meetings.is_expected(node):
            compare(node, group)
            group = None
        if group is not None:
            self._check(node)
            (self._branch if node.target is control.if_ else self._loop)(node, group, active)
        elif active is None:
            for block in node_blocks(node):
                self.block(block, None)
        else:
            self._inside(node, active)

    def _inside(self, node: fx.Node, active: fx.Node) -> None:
        """Rewrite a branch or loop that all processes take alike, or each for itself, on a way that may be for others only."""
        raising = self._raising(node)
        if raising is not None:
            kept = agreement.all_hold if raising == 0 else agreement.holds_or_idle
            with node.graph.inserting_before(node):
                node.args = (called(node.graph, node, kept, node.args[0], active), *node.args[1:])
        blocks = node_blocks(node)
        inner = [_with_input(block) for block in blocks]
        node.args = (*node.args[:3], (*node.args[3], active))  # type: ignore[misc]
        for block, flag in zip(blocks, inner):
            self.block(block, flag)
        if node.target is control.while_ and not self._meetings.has(node):  # what it waits for may never come about here
            with node.graph.inserting_before(node):
                node.args = (called(node.graph, node, agreement.all_hold, node.args[0], active), *node.args[1:])
            body, end = blocks[0], blocks[0].graph.output_node()
            with body.graph.inserting_before(end):
                following = called(body.graph, end, agreement.all_hold, body.outputs[0], inner[0])
            end.args = ((following, *body.outputs[1:]),)

    # -- branches --------------------------------------------------------------------------------------------------------------

    def _branch(self, node: fx.Node, group: Group, active: fx.Node | None) -> None:
        pred, then, orelse, operands = node.args
        count = len(then.outputs)  # type: ignore[union-attr]
        graph = node.graph
        with graph.inserting_before(node):
            told = called(graph, node, agreement.Either(group, place_of(node), "branch"), pred, *_given(active))
            some, others, in_then, in_else, own = (_item(node, told, position) for position in range(5))
            results: list[fx.Node] = []
            for flag, mine, block in ((some, in_then, then), (others, in_else, orelse)):
                self._enter(block, len(operands))  # type: ignore[arg-type]
                skipped = _constants(len(operands) + 1, (None,) * count)  # type: ignore[arg-type]
                way = graph.call_function(control.if_, (flag, block, skipped, (*operands, mine)))  # type: ignore[arg-type, misc]
                way.meta = line_of(node)
                results += [_item(node, way, position) for position in range(count)]
        choices = (_chosen(count, 0, node), _chosen(count, count, node))
        node.args = (own, *choices, tuple(results))  # type: ignore[assignment]

    def _enter(self, block: Block, count: int) -> fx.Node:
        """Rewrite a way that all processes take, with whether one has it for itself as a further input; gives that."""
        written = self._written(block)
        flag = _with_input(block)
        self.block(block, flag)
        _mask_all(block.inputs[:count], flag, written)
        return flag

    # -- loops -----------------------------------------------------------------------------------------------------------------

    def _loop(self, node: fx.Node, group: Group, active: fx.Node | None) -> None:
        pred, body, carried, operands = node.args
        count = len(carried)  # type: ignore[arg-type]
        either = agreement.Either(group, place_of(node), "loop")
        with node.graph.inserting_before(node):
            told = called(node.graph, node, either, pred, *_given(active))
            some, mine = _item(node, told, 0), _item(node, told, 2)
        assert isinstance(body, Block)
        before = body.inputs[:count]
        written = self._written(body)
        flag = _with_input(body, count)
        self.block(body, flag)
        _mask_all([value for value in body.inputs if value is not flag], flag, written)
        end = body.graph.output_node()
        following, *results = body.outputs
        with body.graph.inserting_before(end):
            told = called(body.graph, node, either, following, flag)
            going_on, still = _item(node, told, 0), _item(node, told, 2)
            kept = body.graph.call_function(
                control.if_, (flag, _constant_choice(count), _chosen(count, count, node), (*results, *before))
            )
            kept.meta = line_of(node)
            chosen = [_item(node, kept, position) for position in range(count)]
        end.args = ((going_on, *chosen, still),)
        node.args = (some, body, (*carried, mine), operands)

    # -- what can be undone ----------------------------------------------------------------------------------------------------

    def _written(self, block: Block) -> list[fx.Node]:
        """Return the inputs of a block whose memory it writes."""
        found: dict[fx.Node, None] = {}
        for node in operations(block):
            for value in _writes(node):
                for inner in block.inputs:
                    if tensor_type(inner) is not None and self._aliasing.share(value, inner):
                        found[inner] = None
        return [*found]

    def _check(self, node: fx.Node) -> None:
        """Refuse what a process cannot do for others only.

        Raises:
            DivergenceError: it is done.
        """
        for block in node_blocks(node):
            for inner in self._done_for_others(block):
                what = _REFUSED.get(inner.target) or self._refused(block, inner)
                if what is not None:
                    kind = "loop" if node.target is control.while_ else "branch"
                    raise DivergenceError(
                        f"processes have to take the {kind} at {node.meta.get('location')} together, and each decides by itself; "
                        f"one that enters it for others only cannot undo what it does there: it {what}, at "
                        f"{inner.meta.get('location')}; do that outside, or make the condition the same in all processes"
                    )

    def _done_for_others(self, block: Block) -> Iterator[fx.Node]:
        """Yield the operations in a block, but for those of ways that raise: a process does not raise for others."""
        for node in block.graph.nodes:
            if node.op != "call_function":
                continue
            yield node
            skipped = self._raising(node)
            for position, inner in enumerate(node_blocks(node)):
                if position != skipped:
                    yield from self._done_for_others(inner)

    def _raising(self, node: fx.Node) -> int | None:
        """Return which way of a branch raises, the first or the second, if the other one does not and nobody waits in it."""
        if node.target is not control.if_ or self._meetings.has(node):
            return None
        raising = [any(inner.target is control.raise_ for inner in block.graph.nodes) for block in node_blocks(node)]
        return raising.index(True) if any(raising) and not all(raising) else None

    def _refused(self, block: Block, node: fx.Node) -> str | None:
        if node.target is control.call_:
            call = node.args[0]
            known = isinstance(call, (Boundary, Collective, Batch, agreement.Told)) or call is ask
            together = isinstance(call, Island) and call.group is not None
            return None if known or together or getattr(call, "only_keeps", False) else "calls Python"
        if node.target is modes.set_:
            return "changes a setting"
        if node.target in control.LIST_CHANGES:
            shared = any(tensor_type(inner) is None and self._aliasing.share(node.args[0], inner) for inner in block.inputs)  # type: ignore[arg-type]
            return "changes a list from outside of it" if shared else None
        return None


# -- operations that are added -------------------------------------------------------------------------------------------------


def _writes(node: fx.Node) -> list[fx.Node]:
    if node.target is not control.call_:
        return writes(node) if isinstance(node.target, torch._ops.OpOverload) else []
    if not isinstance(node.args[0], (Collective, Batch)):
        return []
    nodes: list[fx.Node] = []
    fx.map_arg(node.args[1], nodes.append)
    return nodes


def _item(like: fx.Node, value: fx.Node, position: int, kind: str = "") -> fx.Node:
    result = value.graph.call_function(operator.getitem, (value, position))
    result.meta = line_of(like) | ({"type": kind} if kind else {})
    return result


def _given(active: fx.Node | None) -> tuple[fx.Node, ...]:
    return () if active is None else (active,)


def _with_input(block: Block, position: int | None = None) -> fx.Node:
    """Add an input that is a bool to a block, at the end or at a position; gives it."""
    inputs = block.inputs
    at = len(inputs) if position is None else position
    following = inputs[at] if at < len(inputs) else next(node for node in block.graph.nodes if node.op != "placeholder")
    with block.graph.inserting_before(following):
        result = block.graph.placeholder("active")
    result.meta["type"] = "bool"
    return result


def _mask_all(values: Sequence[fx.Node], active: fx.Node, written: Sequence[fx.Node] = ()) -> None:
    """Put values that are for a process itself, or for others, in the place of some, wherever these are used by now."""
    others = [value for value in values if value not in written and tensor_type(value) is not None and may_have_gradient(value)]
    wanted = [value for value in (*written, *others) if value.users]
    if not wanted:
        return
    graph = wanted[0].graph
    last = max((active, *wanted), key=[*graph.nodes].index)
    first = last.next
    while first.op == "placeholder":
        first = first.next
    count = sum(value in written for value in wanted)
    with graph.inserting_before(first):
        masked = called(graph, first, agreement.mask, active, count, *wanted)
        results = {value: _item(masked, masked, position, value.meta.get("type", "")) for position, value in enumerate(wanted)}
    for value, result in results.items():
        value.replace_all_uses_with(result, delete_user_cb=lambda user: user is not masked)
    pairs = [(value, results[value]) for value in wanted[:count]]
    if pairs:
        end = graph.output_node()
        with graph.inserting_before(end):
            called(graph, end, agreement.link, active, *(part for pair in pairs for part in pair))


def _constants(inputs: int, outputs: tuple[Any, ...]) -> Block:
    graph = fx.Graph()
    for position in range(inputs):
        graph.placeholder(f"unused_{position}")
    graph.output(outputs)
    return Block(graph)


def _constant_choice(count: int) -> Block:
    """Return a block that gives the first half of its inputs."""
    graph = fx.Graph()
    values = [graph.placeholder(f"value_{position}") for position in range(2 * count)]
    graph.output(tuple(values[:count]))
    return Block(graph)


def _chosen(count: int, start: int, like: fx.Node) -> Block:
    """Return a block that gives half of its inputs, and has a backward pass go through the others too."""
    graph = fx.Graph()
    values = [graph.placeholder(f"value_{position}") for position in range(2 * count)]
    own, others = values[start : start + count], [*values[:start], *values[start + count :]]
    tied = graph.call_function(control.call_, (agreement.tie, (count, *own, *others), {}))  # type: ignore[arg-type]
    tied.meta = line_of(like)
    graph.output(tuple(_item(like, tied, position) for position in range(count)))
    return Block(graph)
