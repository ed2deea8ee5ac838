"""``if_`` as ``torch.cond``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dy2st.lowering.aliasing import facts
from dy2st.lowering.arithmetic import truth
from dy2st.lowering.context import Context, apart, check_aliases, check_hazards, own_copies, refuse
from dy2st.lowering.control_flow import joins, slots
from dy2st.lowering.control_flow.joins import NoJoinError
from dy2st.lowering.control_flow.slots import Slot
from dy2st.lowering.values import flatten, unflatten, write_back
from dy2st_runtime.ir.program import Block, nested_blocks
from dy2st_runtime.primitives import control


def branch(context: Context, node: fx.Node, pred: Any, blocks: Sequence[Block], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Run the branch that a condition chooses.

    A condition that is known chooses now. A branch that does nothing but raise becomes an assertion before the other.

    Raises:
        ExportError: no slot stands for what the two branches give.
    """
    known = truth(pred) if pred is not None else None
    if known is None:
        return (None,) * len(blocks[0].outputs)
    if isinstance(known, bool):
        return tuple(context.run_block(blocks[0 if known else 1], operands))
    for number, block in enumerate(blocks):
        if (raised := _raises(block)) is not None:
            condition = torch.logical_not(known.tensor) if number == 0 else known.tensor
            context.assert_true(raised, condition, described(raised))
            return tuple(context.run_block(blocks[1 - number], operands))
    return _Branch(context, node, blocks, operands).run(known.tensor)


def described(node: fx.Node) -> str:
    """Return the exception that a ``raise_`` or ``assert_`` raises, in words."""
    arguments = node.args if node.target is control.raise_ else node.args[1:]
    kind = getattr(arguments[0], "__name__", str(arguments[0]))
    text = ", ".join(value if isinstance(value, str) else "..." for value in arguments[1:])
    return f"{kind}: {text}" if text else kind


def _raises(block: Block) -> fx.Node | None:
    return next((node for node in block.graph.nodes if node.target is control.raise_), None)


class _Branch:
    """One ``if_`` whose condition is not known."""

    def __init__(self, context: Context, node: fx.Node, blocks: Sequence[Block], operands: Sequence[Any]) -> None:
        self.context, self.node, self.blocks, self.operands = context, node, blocks, operands
        results = [facts(block) for block in blocks]
        for block in blocks:
            check_hazards(block, node)
        positions = sorted(set().union(*(each.tensors for each in results)))
        self.tensors = [position for position in positions if isinstance(operands[position], torch.Tensor)]
        self.lists = sorted(set().union(*(each.lists for each in results)))
        check_aliases(node, operands, [operands[position] for position in self.tensors])

    def values(self, block: Block, operands: Sequence[Any]) -> list[Any]:
        """Return what a branch gives: its outputs, and what it changes."""
        mine = own_copies(self.node, block, operands)
        outputs = self.context.run_block(block, mine)
        return [*outputs, *(mine[position] for position in (*self.tensors, *self.lists))]

    def run(self, pred: torch.Tensor) -> tuple[Any, ...]:
        leaves, recipes = flatten(self.operands)
        with self.context.shape_tracing():
            given = [self.values(block, unflatten(recipes, leaves)) for block in self.blocks]
        joined = [self.join(left, right) for left, right in zip(*given, strict=True)]

        def part(block: Block) -> Callable[..., tuple[torch.Tensor, ...]]:
            def function(*inner: Any) -> tuple[torch.Tensor, ...]:
                result = slots.enter(joined, self.values(block, unflatten(recipes, inner)))
                return tuple(result) or (torch.zeros(()),)  # torch.cond gives something at least

            return function

        tensors: Sequence[Any] = ()
        if self.context.shape_tracing_depth and not any(
            map(slots.varies, joined)
        ):  # what one branch gives tells all, and runs it once
            tensors = slots.enter(joined, given[0])
        elif self.carries(joined):
            then, orelse = (part(block) for block in self.blocks)
            tensors = torch.ops.higher_order.cond(pred, then, orelse, tuple(apart(leaves)))
        return self.written(slots.leave(joined, tensors))

    def join(self, left: Any, right: Any) -> Slot:
        try:
            return joins.join(left, right)
        except NoJoinError as error:
            raise refuse(
                self.node, f"the two branches give different kinds of values: {error}", "give a tensor of one dtype in both"
            ) from None

    def carries(self, joined: Sequence[Slot]) -> bool:
        """Tell whether anything is left to do in the branches."""
        return any(not isinstance(slot, slots.Fixed) for slot in joined) or (self.context.checks and self.checks())

    def checks(self) -> bool:
        return any(node.target in (control.assert_, control.raise_) for block in self.blocks for node in _all_nodes(block))

    def written(self, values: list[Any]) -> tuple[Any, ...]:
        """Give what came from outside its new contents."""
        return write_back(self.operands, (*self.tensors, *self.lists), values)


def _all_nodes(block: Block) -> list[fx.Node]:
    return [node for inner in nested_blocks(block) for node in inner.graph.nodes]
