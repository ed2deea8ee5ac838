"""Which results of a program are its arguments, or share memory with them or with each other.

ONNX knows values and no memory: what comes out is new. Where eager gives back an argument itself, the program gets one more
result that tells which one:

    x = arg                       x, which = arg, 0
    while going:           ->     while going:
        x = f(x)                      x, which = f(x), -1
    return x                      return x, which

Where eager gives a view of an argument, or two results that share memory, nothing is done, and :func:`refusal` says so.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime import control
from dy2st_runtime.passes.aliasing import is_view, shared_arguments
from dy2st_runtime.program import Block, Program, copy_block, nested_blocks, node_blocks

NEW = -1
"""Stands for no argument."""

_Root = tuple[fx.Node, Any, bool]
"""What made some memory, which of its results that is, and whether this is the very tensor."""

_Roots = frozenset[_Root]


class Origins:
    """What made the memory of each value.

    Args:
        root: the root block of a program.
    """

    def __init__(self, root: Block) -> None:
        self._of: dict[fx.Node, _Roots] = {node: frozenset([(node, 0, True)]) for node in root.inputs}
        before = -1
        while before != (now := sum(map(len, self._of.values()))):
            before = now
            for block in nested_blocks(root):
                for node in block.graph.nodes:
                    if node.op == "call_function":
                        self._visit(node)

    def of(self, value: Any) -> _Roots:
        """What made the memory of a value."""
        return self._of.get(value, frozenset()) if isinstance(value, fx.Node) else frozenset()

    def _all(self, values: Sequence[Any]) -> _Roots:
        return frozenset[_Root]().union(*(self.of(value) for value in values))

    def _visit(self, node: fx.Node) -> None:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            self._of[node] = self._of_operator(node, target)
        elif target is operator.getitem:
            self._of[node] = self._of_item(node)
        elif target in (control.if_, control.while_):
            for mine, theirs in _bindings(node):
                self._of[mine] = self.of(mine) | self.of(theirs)
        elif isinstance(target, control.Control):
            inner = [value for block in node_blocks(node) for value in block.outputs]
            parts = self._all([*node.all_input_nodes, *(value for value in inner if isinstance(value, fx.Node))])
            self._of[node] = _cut(parts) | {(node, None, True)}

    def _of_operator(self, node: fx.Node, target: torch._ops.OpOverload) -> _Roots:
        shared = [value for value in shared_arguments(node, target) if isinstance(value, fx.Node)]
        if not any("Tensor" in str(result.type) for result in target._schema.returns):
            return frozenset()
        if not shared or _converts(node, target):
            return frozenset([(node, None, True)])
        if any(result.alias_info and result.alias_info.is_write for result in target._schema.returns):
            return self._all(shared)
        return _cut(self._all(shared)) | (frozenset() if is_view(node) else {(node, None, True)})

    def _of_item(self, node: fx.Node) -> _Roots:
        source, position = node.args
        if isinstance(source, fx.Node) and source.target in (control.if_, control.while_) and isinstance(position, int):
            return self._all([*_results(source, position)])
        found = self._all(node.all_input_nodes)
        return frozenset((root, position if root is source else which, exact) for root, which, exact in found)


def refusal(program: Program) -> str | None:
    """Why the results of a program cannot be new tensors or arguments; ``None`` if they can."""
    origins, inputs = Origins(program.block), set(program.block.inputs)
    seen: dict[tuple[fx.Node, Any], fx.Node] = {}
    for value in dict.fromkeys(value for value in program.block.outputs if isinstance(value, fx.Node)):
        for root, which, exact in origins.of(value):
            if root in inputs:
                if not exact:
                    return f"a result shares memory with {_named(program, root)}; return a clone of it"
            elif seen.setdefault((root, which), value) is not value:
                return "two results may share memory; return a clone of one of them"
    return None


def _named(program: Program, root: fx.Node) -> str:
    names = [slot.name for slot in program.inputs] + [slot.name for slot in program.states]
    return f"{names[program.block.inputs.index(root)]!r}, which comes from outside"


def with_origins(program: Program) -> tuple[Program, tuple[Any, ...]]:
    """A program that tells which of its results are arguments.

    Returns:
        The program, with more outputs; and for each old output the position of the input that it always is, or :data:`NEW` if
        it never is one, or the output that tells (as ``("output", position)``).
    """
    block = copy_block(program.block)
    scope = _Scope(block)
    table = dict(zip(program.block.graph.nodes, block.graph.nodes, strict=True))
    origins, inputs = Origins(program.block), set(program.block.inputs)
    outputs, told = list(block.outputs), list[Any]()
    for value in program.block.outputs:
        given = any(root in inputs for root, _, _ in origins.of(value))
        tag = scope.tag(table[value]) if given else NEW
        if isinstance(tag, fx.Node):
            outputs.append(tag)
            told.append(("output", len(outputs) - 1))
        else:
            told.append(tag)
    block.graph.output_node().args = (tuple(outputs),)
    return dataclasses.replace(program, block=block), tuple(told)


class _Scope:
    """One block, with the numbers that tell which argument a value is.

    Args:
        block: it is changed.
        outer: where the block belongs, and the control node there.
    """

    def __init__(self, block: Block, outer: tuple[_Scope, fx.Node] | None = None) -> None:
        self.block, self.outer = block, outer
        self.tags: dict[fx.Node, Any] = {}
        self.inner: dict[Block, _Scope] = {}
        self.carried: dict[tuple[fx.Node, int], int] = {}
        self.passed: dict[tuple[fx.Node, fx.Node], dict[Block, fx.Node]] = {}
        if outer is None:
            self.tags.update((node, position) for position, node in enumerate(block.inputs))
        else:
            self.names = dict(_outer_values(outer[1], block))

    def tag(self, value: Any) -> Any:
        """The number for a value: one that is known, or a node."""
        if not isinstance(value, fx.Node):
            return NEW
        if value not in self.tags:
            self.tags[value] = NEW
            self.tags[value] = self._made(value)
        return self.tags[value]

    def _made(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._passed(node)
        target = node.target
        if target is operator.getitem:
            source, position = node.args
            if isinstance(source, fx.Node) and source.target is control.if_:
                return self._of_branch(source, position)
            if isinstance(source, fx.Node) and source.target is control.while_:
                return self._of_loop(source, position)
        if isinstance(target, torch._ops.OpOverload) and any(
            result.alias_info and result.alias_info.is_write for result in target._schema.returns
        ):
            return self.tag(next((value for value in shared_arguments(node, target)), None))
        return NEW

    def _passed(self, node: fx.Node) -> Any:
        """The number of an input of a block: it is carried, or comes in as one more operand where it is not known."""
        assert self.outer is not None
        scope, control_node = self.outer
        position = self.block.inputs.index(node)
        carried: Any = control_node.args[2] if control_node.target is control.while_ else ()
        if position < len(carried) and self.block.outputs[1 + position] is not node:
            scope._carry(control_node, self.block, position)
            return self.tags[node]
        tag = scope.tag(self.names[node])
        if not isinstance(tag, fx.Node):
            return tag
        if (control_node, tag) not in scope.passed:
            *rest, operands = control_node.args
            control_node.args = (*rest, (*operands, tag))  # type: ignore[misc]  # the operands are a tuple
            scope.passed[control_node, tag] = {block: _placeholder(block, None) for block in node_blocks(control_node)}
        return scope.passed[control_node, tag][self.block]

    def scope_of(self, block: Block, node: fx.Node) -> _Scope:
        """The scope of a block of a control node here."""
        if block not in self.inner:
            self.inner[block] = _Scope(block, (self, node))
        return self.inner[block]

    def _of_branch(self, node: fx.Node, position: Any) -> Any:
        blocks = node_blocks(node)
        tags = [self.scope_of(block, node).tag(block.outputs[position]) for block in blocks]
        if not isinstance(tags[0], fx.Node) and tags[0] == tags[1]:
            return tags[0]
        for block, tag in zip(blocks, tags):
            _append_output(block, tag)
        return self._item(node, len(blocks[0].outputs) - 1)

    def _of_loop(self, node: fx.Node, position: Any) -> Any:
        (body,) = node_blocks(node)
        carried: Any = node.args[2]
        if body.outputs[1 + position] is body.inputs[position]:
            return self.tag(carried[position])
        return self._item(node, self._carry(node, body, position))

    def _carry(self, node: fx.Node, body: Block, position: int) -> int:
        """Let a loop carry the number for one of its variables; gives the position of the number among the variables."""
        if (node, position) in self.carried:
            return self.carried[node, position]
        carried: Any = node.args[2]
        first, scope, number = self.tag(carried[position]), self.scope_of(body, node), len(carried)
        self.carried[node, position] = number
        scope.tags[body.inputs[position]] = _placeholder(body, body.inputs[number] if number < len(body.inputs) else None)
        node.args = (*node.args[:2], (*carried, first), node.args[3])
        _append_output(body, NEW)
        then = scope.tag(body.outputs[1 + position])
        outputs = list(body.outputs)
        outputs[1 + number] = then
        body.graph.output_node().args = (tuple(outputs),)
        return number

    def _item(self, node: fx.Node, position: int) -> fx.Node:
        with self.block.graph.inserting_after(node):
            return self.block.graph.call_function(operator.getitem, (node, position))


def _placeholder(block: Block, before: fx.Node | None) -> fx.Node:
    """One more input of a block, before another one or as the last."""
    place = before or next(node for node in block.graph.nodes if node.op != "placeholder")
    with block.graph.inserting_before(place):
        made = block.graph.placeholder("which")
    made.meta["type"] = "int"
    return made


def _append_output(block: Block, value: Any) -> None:
    block.graph.output_node().args = ((*block.outputs, value),)


def _outer_values(node: fx.Node, block: Block) -> Iterator[tuple[fx.Node, Any]]:
    carried: Any = node.args[2] if node.target is control.while_ else ()
    operands: Any = node.args[3]
    yield from zip(block.inputs, (*carried, *operands), strict=True)


def _bindings(node: fx.Node) -> Iterator[tuple[fx.Node, Any]]:
    """Each input of the blocks of a control node with each value that may come in there."""
    for block in node_blocks(node):
        yield from _outer_values(node, block)
        if node.target is control.while_:
            yield from zip(block.inputs, block.outputs[1:])


def _results(node: fx.Node, position: int) -> Iterator[Any]:
    """What one result of a control node may be."""
    if node.target is control.while_:
        yield node.args[2][position]  # type: ignore[index]  # a tuple
    for block in node_blocks(node):
        yield block.outputs[position + (node.target is control.while_)]


def _converts(node: fx.Node, target: torch._ops.OpOverload) -> bool:
    """Whether a tensor is made one of another dtype."""
    source = node.args[0]
    if target._schema.name != "aten::to" or not isinstance(source, fx.Node):
        return False
    before, after = (str(value.meta.get("type", "")).partition("[")[0] for value in (source, node))
    return bool(before and after) and before != after


def _cut(roots: _Roots) -> _Roots:
    """The same memory, in other tensors."""
    return frozenset((root, which, False) for root, which, _ in roots)
