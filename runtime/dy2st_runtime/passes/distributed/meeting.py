"""Which branches and loops of a program processes have to take together, and which of them they may not."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import fx

from dy2st_runtime.analyses.communication import groups_inside
from dy2st_runtime.analyses.variance import Variance, holds
from dy2st_runtime.distributed.boundaries import Gather
from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.ir.program import Block, Program, node_blocks
from dy2st_runtime.primitives import control


class Meetings:
    """The branches and loops of one program.

    Args:
        program: the program. The answers are for its nodes as they are now.
        sharded: groups of processes that share the gradient of an input of the program, by its position.
    """

    def __init__(self, program: Program, sharded: Mapping[int, Group]) -> None:
        self._strict, self._usual = Variance(program, strict=True), Variance(program)
        self._outer: dict[fx.Node, fx.Node] = {}
        self._sharded = {program.block.inputs[position]: group for position, group in sharded.items()}
        for block in program.blocks():
            for node in block.graph.nodes:
                self._note_inputs(node)
                self._note_gathered(node)
        self._groups = {node: group for node in self._strict.conditions if (group := self._group(node)) is not None}

    def _note_inputs(self, node: fx.Node) -> None:
        if node.target in (control.if_, control.while_):
            carried = node.args[2] if node.target is control.while_ else ()
            for block in node_blocks(node):
                self._note_block(block, (*carried, *node.args[3]))  # type: ignore[misc]
        elif node.target is control.transform_:
            for block in node_blocks(node):
                self._note_block(block, (*node.args[2], *node.args[3]))  # type: ignore[misc]

    def _note_block(self, block: Block, values: Sequence[Any]) -> None:
        for inner, outer in zip(block.inputs, values):
            if isinstance(outer, fx.Node):
                self._outer[inner] = outer

    def _note_gathered(self, node: fx.Node) -> None:
        source: Any = node.args[0] if node.target is operator.getitem else None
        if not isinstance(source, fx.Node) or source.target is not control.call_:
            return
        call, given, _ = cast(Any, source.args)
        if type(call) is Gather and cast(int, node.args[1]) >= len(given):  # behind what it passes through
            self._sharded[node] = call.group

    def outermost(self, node: Any) -> Any:
        """Return the value that an input of a block stands for, in the block that has made it."""
        while node in self._outer:
            node = self._outer[node]
        return node

    def _group(self, node: fx.Node) -> Group | None:
        """Return the processes that have to take a branch or loop together."""
        groups = [group for _, group in groups_inside(node)]
        operands: Any = (*node.args[3], *(node.args[2] if node.target is control.while_ else ()))  # type: ignore[misc]
        groups += [self._sharded[known] for value in operands if (known := self.outermost(value)) in self._sharded]
        return Group.around(groups) if groups else None

    def group(self, node: fx.Node) -> Group | None:
        """Return the processes that have to take a branch or loop together, if they may not; ``None`` where they are sure to."""
        group = self._groups.get(node)
        return None if group is None or holds(self._strict.conditions[node], group.ranks) else group

    def has(self, node: fx.Node) -> bool:
        """Tell whether processes work together in a branch or loop."""
        return node in self._groups

    def is_expected(self, node: fx.Node) -> bool:
        """Tell whether they take it together as long as their state is the same."""
        return holds(self._usual.conditions[node], self._groups[node].ranks)

    def told(self) -> list[str]:
        """Return the findings of the usual kind, in words."""
        found = [str(finding) for finding in self._usual.findings]
        for node, group in self._groups.items():
            if not groups_inside(node) and not holds(self._usual.conditions[node], group.ranks):
                what = "a loop" if node.target is control.while_ else "a branch"
                place = node.meta.get("location")
                shared = f"parameters whose gradients ranks {[*group.ranks]} share"
                found.append(f"{shared} are used in {what} of which each decides for itself, at {place}")
        return found
