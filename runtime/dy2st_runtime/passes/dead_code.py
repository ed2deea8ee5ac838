"""Removes what nobody uses: scalar arithmetic, and what control flow takes in and gives back.

    i, j = while n > 0 with (i = 0, j = 0):      i = while n > 0 with (i = 0):
      yield n > 1, i + x, j + 1             →      yield n > 1, i + x
    return i                                     return i

Operators on tensors stay, as does all that may raise: a program fails where eager fails. Live is what has an effect,
what the root block gives back, and what a live value needs; everything else goes. An input of a block is needed when
something live inside uses it; a carried value of a loop when it is used after the loop or for more than its own next
value.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.analyses.removable import is_removable
from dy2st_runtime.ir.program import Block, Program, copy_block, nested_blocks, node_blocks
from dy2st_runtime.primitives import control


def remove_dead_code(program: Program, removable: Callable[[fx.Node], bool] | None = None) -> Program:
    """Remove what nobody uses, in all blocks.

    Args:
        program: any program.
        removable: which nodes may go when nobody uses their value; :func:`is_removable` if left out. Control flow in which
            something stays, stays.

    Returns:
        A program with the same inputs, results and effects.
    """
    block = copy_block(program.block)
    _sweep(block, _Liveness(block, removable or is_removable))
    return dataclasses.replace(program, block=block)


def remove_unused_states(program: Program) -> tuple[Program, tuple[int, ...]]:
    """Remove the state slots that no operation and no result uses.

    Args:
        program: any program, best after :func:`remove_dead_code`.

    Returns:
        The program, and which of its state slots are left, by their old position.
    """
    block = copy_block(program.block)
    inputs = block.inputs[len(program.inputs) :]
    written = {effect.target for effect in program.effects}
    kept = tuple(
        index for index, (node, slot) in enumerate(zip(inputs, program.states, strict=True)) if node.users or slot.name in written
    )
    for index, node in enumerate(inputs):
        if index not in kept:
            block.graph.erase_node(node)
    states = tuple(program.states[index] for index in kept)
    return dataclasses.replace(program, block=block, states=states), kept


class _Liveness:
    """Which nodes of all blocks are live, found by following what live nodes need."""

    def __init__(self, root: Block, removable: Callable[[fx.Node], bool]) -> None:
        self._live: set[fx.Node] = set()
        self._positions: set[tuple[fx.Node, int]] = set()  # of the results of control nodes
        self._owner: dict[fx.Graph, tuple[fx.Node, Block]] = {}
        self._todo: list[fx.Node] = []
        for block in nested_blocks(root):
            for node in block.graph.nodes:
                self._owner |= {inner.graph: (node, inner) for inner in node_blocks(node)}
        for block in nested_blocks(root):
            self._mark(node for node in block.graph.nodes if not removable(node))
        self._mark(value for value in root.outputs if isinstance(value, fx.Node))
        while self._todo:
            self._follow(self._todo.pop())

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._live

    def keeps(self, node: fx.Node, position: int) -> bool:
        """Tell whether a result of a control node is live."""
        return (node, position) in self._positions

    def _mark(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, fx.Node) and value not in self._live:
                self._live.add(value)
                self._todo.append(value)

    def _follow(self, node: fx.Node) -> None:
        """Mark what a live node needs; a node in a block needs the node that the block belongs to."""
        owner = self._owner.get(node.graph)
        if owner is not None:
            self._mark([owner[0]])
        if node.op == "placeholder":
            if owner is not None:
                self._follow_input(*owner, list(owner[1].inputs).index(node))
        elif node.target in (control.if_, control.while_):
            self._mark([node.args[0]])
            if node.target is control.while_:
                self._mark(node_blocks(node)[0].outputs[:1])
        elif (source := _taken_from(node)) is not None:
            self._mark([source])
            self._keep(source, node.args[1])
        else:
            self._mark(node.all_input_nodes)
            self._mark(value for block in node_blocks(node) for value in block.outputs)
            for used in node.all_input_nodes:
                for position in range(_result_count(used)):
                    self._keep(used, position)

    def _follow_input(self, owner: fx.Node, block: Block, position: int) -> None:
        """Follow an input of a nested block: it needs the operand, or the carried value with its next one."""
        if not _prunable(owner):
            return  # it takes all
        carried = _carried(owner)
        if position < len(carried):
            self._keep(owner, position)
        else:
            self._mark([_operands(owner)[position - len(carried)]])

    def _keep(self, owner: fx.Node, position: Any) -> None:
        """Keep a result of a control node: it needs that output of the blocks, and in a loop the value it starts with."""
        if (owner, position) in self._positions:
            return
        self._positions.add((owner, position))
        shift = 1 if owner.target is control.while_ else 0
        self._mark(block.outputs[position + shift] for block in node_blocks(owner))
        if shift:
            self._mark([_carried(owner)[position]])


def _sweep(block: Block, live: _Liveness) -> None:
    """Remove what is dead from a block, then from the blocks inside it, which were told what they need not give."""
    dropped = [node for owner in block.graph.nodes if owner in live and _prunable(owner) for node in _prune(owner, live)]
    for node in reversed(list(block.graph.nodes)):
        if node.op == "call_function" and node not in live:
            block.graph.erase_node(node)
    for owner in block.graph.nodes:
        for inner in node_blocks(owner):
            _sweep(inner, live)
    for node in dropped:
        node.graph.erase_node(node)


def _prune(owner: fx.Node, live: _Liveness) -> list[fx.Node]:
    """Take dead results and operands from a control node; the inputs of its blocks that are left over."""
    carried, operands, blocks = _carried(owner), _operands(owner), node_blocks(owner)
    is_loop = owner.target is control.while_
    kept = [position for position in range(_result_count(owner)) if live.keeps(owner, position)]
    needed = [
        position for position in range(len(operands)) if any(block.inputs[len(carried) + position] in live for block in blocks)
    ]
    staying = {*(kept if is_loop else ()), *(len(carried) + position for position in needed)}
    dropped = [node for block in blocks for index, node in enumerate(block.inputs) if index not in staying]
    for block in blocks:
        outputs = block.outputs
        kept_outputs = tuple(outputs[position + is_loop] for position in kept)
        block.graph.output_node().args = ((*outputs[:is_loop], *kept_outputs),)
    for user in list(owner.users):
        if _taken_from(user) is owner and user in live:
            user.args = (owner, kept.index(user.args[1]))  # type: ignore[arg-type]  # an int, see _taken_from
    middle = (*blocks, tuple(carried[position] for position in kept)) if is_loop else tuple(blocks)
    owner.args = (owner.args[0], *middle, tuple(operands[position] for position in needed))  # type: ignore[arg-type]
    return dropped


def _taken_from(node: fx.Node) -> fx.Node | None:
    """Return the control node that a node takes one result of."""
    if node.target is not operator.getitem or not isinstance(node.args[1], int):
        return None
    source = node.args[0]
    return source if isinstance(source, fx.Node) and _prunable(source) else None


def _prunable(node: fx.Node) -> bool:
    """Tell whether what a control node takes and gives can go part by part."""
    return node.target in (control.if_, control.while_)


def _carried(owner: fx.Node) -> Sequence[Any]:
    return owner.args[2] if owner.target is control.while_ else ()  # type: ignore[return-value]  # see verify


def _operands(owner: fx.Node) -> Sequence[Any]:
    return owner.args[3]  # type: ignore[return-value]  # see verify


def _result_count(node: fx.Node) -> int:
    blocks = node_blocks(node)
    return len(_carried(node)) if node.target is control.while_ else len(blocks[0].outputs) if node.target is control.if_ else 0
