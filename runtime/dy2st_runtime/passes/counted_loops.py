"""Writes out several iterations of counted loops, for executors to which one long stretch is worth more than many short ones.

    while start < n with (k = start, h = h0):        while start + 1 < n with (k = start, h = h0):
      h1 = f(h, k)                                     h1 = f(h, k)
      k1 = k + 1                               →       k1 = k + 1
      yield k1 < n, k1, h1                             h2 = f(h1, k1)
                                                       k2 = k1 + 1
                                                       yield k2 + 1 < n, k2, h2
                                                     while k2 < n with (k = k2, h = h2):
                                                       …  # as before, for the iterations that are left

The same operations run in the same order, so no result changes: when the counter is below its bound after the last iteration of a
group, it was so before each of them. This is loop unrolling with a remainder loop.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.primitives import control

_NEW_LISTS = frozenset(
    {
        control.list_, control.list_slice, control.list_copy, control.list_concat, control.list_order, control.list_take,
        control.list_repeat, torch.ops.aten.unbind.int,
    }
)  # fmt: skip
"""Give a list that nothing else has."""

_LENGTH_STAYS = frozenset(
    {
        control.list_get,
        control.list_set,
        control.list_reverse,
        control.list_find,
        control.print_,
        control.assert_,
        control.raise_,
    }
)


@dataclasses.dataclass(frozen=True)
class Counter:
    """What decides how often a loop runs.

    Attributes:
        position: which of the carried values counts.
        step: what it grows by in an iteration; positive.
        bound: what it stays below, in the body: an input, the length of a list, or a number.
        outside: the same where the loop stands.
    """

    position: int
    step: int
    bound: Any
    outside: Any


def write_out_iterations(program: Program, iterations: int, most: int) -> Program:
    """Put groups of iterations in the place of single ones, in counted loops without branches or loops inside.

    Args:
        program: any program.
        iterations: how many iterations a group has, at most.
        most: how many operations it has, at most.

    Returns:
        A program with the same results and effects.
    """
    block = copy_block(program.block)
    _visit(block, iterations, most)
    return dataclasses.replace(program, block=block)


def _visit(block: Block, iterations: int, most: int) -> None:
    for node in list(block.graph.nodes):
        for inner in node_blocks(node):
            _visit(inner, iterations, most)
        if node.target is not control.while_:
            continue
        body: Block = node.args[1]
        operations = [inner for inner in body.graph.nodes if inner.op == "call_function"]
        if any(node_blocks(inner) for inner in operations):
            continue
        fitting = min(iterations, most // max(1, len(operations)))
        counter = counter_of(node)
        if counter is not None and fitting > 1:
            _split(node, counter, fitting)


def counter_of(loop: fx.Node) -> Counter | None:
    """Return what counts the iterations of a loop; ``None`` where something else ends it."""
    condition, body, carried, operands = loop.args
    assert isinstance(body, Block) and isinstance(carried, tuple) and isinstance(operands, tuple)
    inputs, (again, *following) = body.inputs, body.outputs
    result, first = _less(again), _less(condition)
    if result is None:
        return None
    low, bound = result
    for index, value in enumerate(following):
        step = _step(value, inputs[index])
        if value is not low or step is None:
            continue
        fixed = dict(zip(inputs[len(carried) :], operands))
        fixed.update((inner, outer) for inner, outer, last in zip(inputs, carried, following) if last is inner)
        start = carried[index]
        if type(bound) is int and type(start) is int:
            return Counter(index, step, bound, bound) if condition is (start < bound) else None
        if first is None or first[0] != start:
            return None
        outside = first[1]
        stays = bound in fixed and fixed[bound] == outside if isinstance(bound, fx.Node) else bound == outside
        return Counter(index, step, bound, outside) if stays or _is_length(bound, outside, fixed, body) else None
    return None


def _is_length(bound: Any, outside: Any, fixed: Mapping[fx.Node, Any], body: Block) -> bool:
    """Tell whether two values are the length of one list, which does not change in a body."""
    if not all(isinstance(value, fx.Node) and value.target is control.list_len for value in (bound, outside)):
        return False
    items = bound.args[0]
    if items not in fixed or fixed[items] is not outside.args[0]:
        return False
    for node in body.graph.nodes:
        if isinstance(node.target, control.Control) and node.target.effect and node.target not in _LENGTH_STAYS:
            changed = fixed.get(node.args[0])
            if changed is fixed[items] or not all(_is_new_list(value) for value in (changed, fixed[items])):
                return False
    return True


def _is_new_list(items: Any) -> bool:
    return isinstance(items, fx.Node) and items.target in _NEW_LISTS


def _less(value: Any) -> tuple[Any, Any] | None:
    """Return the smaller and the larger side of a comparison."""
    if isinstance(value, fx.Node) and value.target in (operator.lt, operator.gt):
        left, right = value.args
        return (left, right) if value.target is operator.lt else (right, left)
    return None


def _step(value: Any, before: fx.Node) -> int | None:
    """Return what is added to a counter in an iteration."""
    if not isinstance(value, fx.Node) or value.target is not operator.add or before.meta.get("type") != "int":
        return None
    left, right = value.args
    step = right if left is before else left if right is before else None
    return step if type(step) is int and step > 0 else None


def _split(loop: fx.Node, counter: Counter, iterations: int) -> None:
    """Return groups of iterations in a loop before this one, which runs the rest."""
    _, body, carried, operands = loop.args
    assert isinstance(body, Block) and isinstance(carried, tuple)
    graph, ahead = loop.graph, (iterations - 1) * counter.step
    with graph.inserting_before(loop):
        enough = _below(graph, carried[counter.position], ahead, counter.outside, loop)
        arguments: Any = (enough, _group(body, counter, iterations), carried, operands)
        groups = graph.call_function(control.while_, arguments)
        groups.meta.update(loop.meta)
        results = []
        for index, inner in enumerate(body.inputs[: len(carried)]):
            result = graph.call_function(operator.getitem, (groups, index))
            result.meta.update(inner.meta)
            results.append(result)
        more = _below(graph, results[counter.position], 0, counter.outside, loop)
    loop.args = (more, body, tuple(results), operands)


def _below(graph: fx.Graph, position: Any, ahead: int, bound: Any, origin: fx.Node) -> fx.Node:
    """Tell whether a counter that goes ahead is still below its bound."""
    location = {name: origin.meta[name] for name in ("location",) if name in origin.meta}
    if ahead:
        position = graph.call_function(operator.add, (position, ahead))
        position.meta.update(location, type="int")
    result = graph.call_function(operator.lt, (position, bound))
    result.meta.update(location, type="bool")
    return result


def _group(body: Block, counter: Counter, iterations: int) -> Block:
    """Return a body of several iterations."""
    again, *following = body.outputs
    group = copy_block(body)
    graph, inputs = group.graph, group.inputs
    output = graph.output_node()
    carried = list(group.outputs[1:])
    with graph.inserting_before(output):
        for iteration in range(2, iterations + 1):
            table = dict(zip(body.inputs, (*carried, *inputs[len(carried) :]), strict=True))
            for node in body.graph.nodes:
                if node.op == "call_function":
                    table[node] = graph.node_copy(node, table.__getitem__)
            counted = table[following[counter.position]]
            counted.args = (
                inputs[counter.position],
                iteration * counter.step,
            )  # not of the count before, so that it can stay inside
            carried = [table[value] if isinstance(value, fx.Node) else value for value in following]
        bound = dict(zip(body.graph.nodes, group.graph.nodes)).get(counter.bound, counter.bound)
        going = _below(graph, carried[counter.position], (iterations - 1) * counter.step, bound, again)
    output.args = ((going, *carried),)
    for node in reversed(list(graph.nodes)):
        if node.target in (operator.lt, operator.gt) and not node.users:
            graph.erase_node(node)  # the comparisons after the iterations before the last
    return group
