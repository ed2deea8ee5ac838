"""``while_`` as ``while_loop``.

What a loop carries is found by shape tracing: first with the values that it starts from, then, where an iteration gives something
else, with a number or size in its place of which nothing is known, until an iteration gives what it took. A tensor whose size
changes travels in a buffer with room for the largest one and is cut out at the beginning of each iteration; a list that grows
likewise. A first iteration that surely happens is made before the loop when sizes change, for often they change less afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from dy2st.lowering.aliasing import Facts, facts
from dy2st.lowering.arithmetic import truth
from dy2st.lowering.context import Context, apart, check_aliases, check_hazards, own_copies, refuse
from dy2st.lowering.control_flow import growth, slots
from dy2st.lowering.control_flow.shape_tracing import Analysis, trace_shapes
from dy2st.lowering.control_flow.slots import (
    BufferSlot,
    NumberSlot,
    PaddedSlot,
    TensorSlot,
)
from dy2st.lowering.values import ListValue, Number, as_tensor, flatten, unflatten, write_back
from dy2st_runtime.ir.program import Block


def loop(
    context: Context, node: fx.Node, pred: Any, body: Block, carried: Sequence[Any], operands: Sequence[Any]
) -> tuple[Any, ...]:
    """Run a body as long as a condition holds.

    Raises:
        ExportError: what it carries cannot be told in tensors of one size.
    """
    return _Loop(context, node, body, operands).run(pred, list(carried))


class _Loop:
    """One ``while_``; its variables are the carried values and what the body changes of the others."""

    def __init__(self, context: Context, node: fx.Node, body: Block, operands: Sequence[Any]) -> None:
        self.context, self.node, self.body, self.operands = context, node, body, list(operands)
        self.facts: Facts = facts(body)
        check_hazards(body, node)

    def run(self, pred: Any, carried: list[Any]) -> tuple[Any, ...]:
        count = len(carried)
        known = truth(pred) if pred is not None else False
        if known is False:
            return tuple(carried)
        if any(position < count for position in (*self.facts.tensors, *self.facts.lists)):
            carried = self.owned(carried)
        written = sorted(position - count for position in self.facts.tensors | self.facts.lists if position >= count)
        tensors = [self.operands[p] for p in written if isinstance(self.operands[p], torch.Tensor)]
        check_aliases(self.node, [*carried, *self.operands], tensors)
        self.written = written
        result = trace_shapes(self.context, self.node, self.iteration, self.variables(carried), self.operands)
        if known is True and any(slots.varies(slot) for slot in result.slots):
            known, *carried = self.context.run_block(self.body, [*carried, *self.operands])
            known = truth(known)
            if known is False:
                return tuple(carried)
            result = trace_shapes(self.context, self.node, self.iteration, self.variables(carried), self.operands)
        return self.emit(known, carried, result)

    def owned(self, carried: list[Any]) -> list[Any]:
        """Copy the carried values that the body changes in place: nobody else may see the change.

        Raises:
            ExportError: somebody may.
        """
        args: Any = self.node.args[2]
        for position in sorted(self.facts.tensors | self.facts.lists):
            if position >= len(carried):
                continue
            outer = args[position]
            if isinstance(outer, fx.Node) and (outer.op == "placeholder" or len(outer.users) > 1):
                raise refuse(
                    self.node,
                    "a loop changes a variable in place on its first iteration and gives it another value later",
                    "change a clone of it",
                )
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in carried]

    def variables(self, carried: Sequence[Any]) -> list[Any]:
        return [*carried, *(self.operands[position] for position in self.written)]

    def iteration(self, variables: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return one iteration: the next condition and the next variables."""
        count = len(variables) - len(self.written)
        inputs = [*variables[:count], *operands]
        for position, value in zip(self.written, variables[count:]):
            inputs[count + position] = value
        mine = own_copies(self.node, self.body, inputs)
        pred, *outputs = self.context.run_block(self.body, mine)
        return pred, [*outputs, *(mine[count + position] for position in self.written)]

    # -- the loop itself -----------------------------------------------------------------------------------------------------

    def emit(self, pred: Any, carried: Sequence[Any], analysis: Analysis) -> tuple[Any, ...]:
        variables = self.variables(carried)
        inside = [_named(slot, analysis.names, (number,)) for number, slot in enumerate(self.roomy(analysis, pred))]
        leaves, recipes = flatten(self.operands)
        first = pred.tensor if isinstance(pred, Number) else as_tensor(True)
        start = (first.clone(), *slots.enter(inside, variables))

        def condition(going: torch.Tensor, *rest: Any) -> torch.Tensor:
            return going.clone()

        def body(going: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
            mine = slots.leave(inside, rest[: len(start) - 1])
            following, results = self.iteration(mine, unflatten(recipes, rest[len(start) - 1 :]))
            return (as_tensor(truth(following), "bool").clone(), *slots.enter(inside, results))

        result = torch.ops.higher_order.while_loop(condition, body, start, tuple(apart(leaves)))
        results = list(result[1:])
        outside = [_unnamed(slot) for slot in inside]
        return self.given_back(slots.leave(outside, results), analysis, variables)

    def given_back(self, values: list[Any], analysis: Analysis, variables: Sequence[Any]) -> tuple[Any, ...]:
        for value, result, first in zip(values, analysis.results, variables):
            if isinstance(value, ListValue) and value.items is None:
                value.added, value.allotted = analysis.total(result, first), first.allotted
        return write_back(self.operands, self.written, values)

    def roomy(self, analysis: Analysis, pred: Any) -> list[Any]:
        """Return the slots with room for what grows."""
        bounds = analysis.bounds(pred)
        results: list[Any] = []
        for number, (slot, value) in enumerate(zip(analysis.slots, analysis.variables)):
            if isinstance(slot, TensorSlot) and None in slot.sizes:
                room = [
                    None if size is not None else self.bound(value, dim, bounds.get(analysis.names[number, dim]), analysis)
                    for dim, size in enumerate(slot.sizes)
                ]
                results.append(PaddedSlot(slot, tuple(room)))
            elif isinstance(slot, BufferSlot):
                results.append(dataclasses.replace(slot, room=self.list_room(analysis, number, value), added=0, allotted=True))
            elif slots.varies(slot):
                raise refuse(self.node, "tensors in a list or tuple change their size in a loop", "keep them in variables")
            else:
                results.append(slot)
        return results

    def bound(self, value: Any, dim: int, bound: Any, analysis: Analysis) -> Any:
        first = 0 if value is None else value.shape[dim]
        size = None if bound is None else analysis.sizes(bound)
        if size is not None:
            return growth.at_least(size, first)
        return first + self.allowed(f"dimension {dim} of a tensor")

    def list_room(self, analysis: Analysis, number: int, value: Any) -> Any:
        if value.allotted:
            return value.buffer.shape[0]
        held = len(value.items) if value.items is not None else value.buffer.shape[0]
        total = analysis.total(analysis.results[number], value)
        more = None if total is None else analysis.sizes(sympy.sympify(total))
        if more is None:
            more = self.allowed("a list")
        return held + growth.at_least(more, 0)

    def allowed(self, what: str) -> int:
        if self.context.max_growth is None:
            raise refuse(
                self.node,
                f"{what} changes its size in this loop, and it is not known how large it becomes",
                "pass max_growth=, by how many entries it may grow at most (0 if it shrinks), or count the iterations with range()",
            )
        self.context.note(self.node, f"{what} may grow by {self.context.max_growth} entries at most (max_growth)")
        return self.context.max_growth


def _named(slot: Any, names: dict[tuple[int, ...], sympy.Symbol], path: tuple[int, ...]) -> Any:
    """Return a slot that gives a number the name it had in the shape tracing."""
    return dataclasses.replace(slot, form=names.get(path), implied=frozenset()) if isinstance(slot, NumberSlot) else slot


def _unnamed(slot: Any) -> Any:
    return dataclasses.replace(slot, form=None, implied=frozenset()) if isinstance(slot, NumberSlot) else slot
