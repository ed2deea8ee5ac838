"""Which inputs of a block are changed in place by it, and which results may share memory with them.

``torch.cond`` and ``while_loop`` take copies: a block works on its own copy of what it changes, and the copy is written back
afterwards. That is eager's meaning as long as nobody looks at the same memory under another name that got lost on the way;
:func:`hazard` finds where somebody might.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import fx

from dy2st_runtime.ir.program import Block, node_blocks
from dy2st_runtime.primitives import control, scalars

_SAME_WITHOUT_SAYING = ("aten::dropout", "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout")
"""Operators that give back their input itself in evaluation mode, though their schemas do not say so."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a block does to its inputs.

    Attributes:
        tensors: the positions of inputs whose memory is written.
        lists: the positions of lists that change.
        origins: for each output, the positions of inputs it may share memory with.
        hazard: an operation that writes what may be seen under a name that a block of ``torch.cond`` would cut off.
        together: pairs of outputs that may share memory with each other.
        used: the positions of inputs that something uses.
    """

    tensors: frozenset[int]
    lists: frozenset[int]
    origins: tuple[frozenset[int], ...]
    hazard: fx.Node | None = None
    together: frozenset[tuple[int, int]] = frozenset()
    used: frozenset[int] = frozenset()


_known: WeakKeyDictionary[Block, Facts] = WeakKeyDictionary()


def facts(block: Block) -> Facts:
    """Return what a block does to its inputs; computed once."""
    result = _known.get(block)
    if result is None:
        result = _known[block] = _Analysis(block).facts()
    return result


class _Analysis:
    """One walk through a block; a value's roots are the inputs and operations that made its memory."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.roots: dict[fx.Node, frozenset[fx.Node]] = {node: frozenset([node]) for node in block.inputs}
        self.inside: dict[fx.Node, frozenset[fx.Node]] = {}  # of a list: the roots of its items
        self.cut: list[tuple[fx.Node, frozenset[fx.Node]]] = []  # results of blocks, and what they may share memory with
        self.tensors: set[fx.Node] = set()
        self.lists: set[fx.Node] = set()
        self.hazard: fx.Node | None = None
        self.order = {node: number for number, node in enumerate(block.graph.nodes)}

    def facts(self) -> Facts:
        for node in self.block.graph.nodes:
            if node.op == "call_function":
                self.visit(node)
        position = {node: number for number, node in enumerate(self.block.inputs)}

        def places(nodes: frozenset[fx.Node] | set[fx.Node]) -> frozenset[int]:
            return frozenset(position[node] for node in nodes if node in position)

        roots = [self.of(value) for value in self.block.outputs]
        pairs = itertools.combinations(range(len(roots)), 2)
        return Facts(
            places(self.tensors),
            places(self.lists),
            tuple(map(places, roots)),
            self.hazard,
            frozenset((one, other) for one, other in pairs if self.may_share(roots[one], roots[other])),
            frozenset(number for node, number in position.items() if node.users),
        )

    def may_share(self, one: frozenset[fx.Node], other: frozenset[fx.Node]) -> bool:
        """Tell whether values with these roots may share memory; a result of a block with what the block got, too."""

        def reached(roots: frozenset[fx.Node]) -> frozenset[fx.Node]:
            return roots.union(*(shared for result, shared in self.cut if result in roots))

        return bool(reached(one) & reached(other))

    def of(self, value: Any) -> frozenset[fx.Node]:
        """Return the roots of an argument."""
        if isinstance(value, fx.Node):
            return self.roots.get(value, frozenset([value])) | self.inside.get(value, frozenset())
        if isinstance(value, (tuple, list)):
            return frozenset[fx.Node]().union(*(self.of(item) for item in value))
        return frozenset()

    def visit(self, node: fx.Node) -> None:
        blocks = node_blocks(node)
        if node.target in (control.if_, control.while_):
            self.nested(node, blocks)
        elif node.target in control.LIST_CHANGES:
            self.change_list(node)
        elif node.target is control.list_:
            self.roots[node] = frozenset([node])
            self.inside[node] = self.of(node.args[0])
        elif isinstance(node.target, control.Control):
            self.roots[node] = self.of(node.args) | {node}
        elif isinstance(node.target, torch._ops.OpOverload) and node.target not in scalars.NAMES:
            self.operator(node, node.target)
        else:
            self.roots[node] = self.of(node.args)

    def change_list(self, node: fx.Node) -> None:
        changed = node.args[0]
        assert isinstance(changed, fx.Node)
        for root in self.roots.get(changed, frozenset([changed])):
            self.lists.add(root)
            self.inside[root] = self.inside.get(root, frozenset()) | self.of(node.args[1:])
        self.roots[node] = self.of(changed)

    def operator(self, node: fx.Node, target: torch._ops.OpOverload) -> None:
        written = frozenset[fx.Node]().union(*(self.of(value) for value in _written(node, target)))
        if written:
            self.write(node, written)
        shared = [value for value, alias in _aliased(node, target) if alias]
        if target._schema.name in _SAME_WITHOUT_SAYING:
            shared.append(node.args[0])
        self.roots[node] = frozenset([node]).union(*(self.of(value) for value in shared)) if shared else frozenset([node])

    def write(self, node: fx.Node, written: frozenset[fx.Node]) -> None:
        self.tensors |= written
        for result, shared in self.cut:
            names = {result}
            if written & names:
                others = shared
            elif written & shared:
                others = frozenset(names)
            else:
                continue
            if any(self.used_after(other, node) for other in others):
                self.hazard = self.hazard or node

    def used_after(self, root: fx.Node, node: fx.Node) -> bool:
        """Tell whether a value with a root is used after an operation; the caller sees what came in as an input."""
        if root.op == "placeholder":
            return True
        mine = (value for value in self.order if root in self.of(value))
        return any(self.order[user] > self.order[node] for value in mine for user in value.users)

    def nested(self, node: fx.Node, blocks: Sequence[Block]) -> None:
        if node.target is control.if_:
            outer: tuple[Any, ...] = node.args[3]  # type: ignore[assignment]  # checked by verify
            carried = 0
        else:
            outer = (*node.args[2], *node.args[3])  # type: ignore[misc]
            carried = len(node.args[2])  # type: ignore[arg-type]
        inner = [facts(block) for block in blocks]
        for match in inner:
            self.hazard = self.hazard or (match.hazard and node)
            if carried and any(self.is_seen_otherwise(position, outer, inner, carried) for position in match.tensors):
                self.hazard = self.hazard or node
            for position in match.tensors:
                self.write(node, self.of(outer[position]))
            for position in match.lists:
                self.lists |= self.roots.get(outer[position], frozenset())
        shared = frozenset[fx.Node]()
        for match in inner:
            for origins in match.origins[1:] if carried else match.origins:
                shared = shared.union(*(self.of(outer[position]) for position in origins))
        if carried:
            shared = shared.union(*(self.of(value) for value in outer[:carried]))
        self.roots[node] = frozenset([node])
        if shared:
            self.cut.append((node, shared))

    def is_seen_otherwise(self, written: int, outer: Sequence[Any], inner: Sequence[Facts], carried: int) -> bool:
        """Tell whether a block uses what it writes to under the name of another input, which will be another tensor there.

        Args:
            written: the position of the input that a block writes to.
            outer: what the blocks get.
            inner: facts of the blocks.
            carried: how many of the inputs a loop gives from iteration to iteration.
        """
        names, waiting = {written}, [written]
        while waiting:
            one = waiting.pop()
            for other in range(len(outer)):
                if other not in names and self.are_together(one, other, outer, inner, carried):
                    names.add(other)
                    waiting.append(other)
        return any(name in block.used for name in names - {written} for block in inner)

    def are_together(self, one: int, other: int, outer: Sequence[Any], inner: Sequence[Facts], carried: int) -> bool:
        """Tell whether two inputs of blocks may share memory, at first or after an iteration."""
        if self.may_share(self.of(outer[one]), self.of(outer[other])):
            return True
        for body in inner:
            for first, second in ((one, other), (other, one)):
                if first < carried and first + 1 < len(body.origins) and second in body.origins[first + 1]:
                    return True
            if one < carried and other < carried and tuple(sorted((one + 1, other + 1))) in body.together:
                return True
        return False


def _aliased(node: fx.Node, target: torch._ops.OpOverload) -> Iterator[tuple[Any, bool]]:
    """Yield the arguments of an operator, and whether a result may share memory with each."""
    returned = set[str]()
    for result in target._schema.returns:
        if result.alias_info is not None:
            returned |= set(result.alias_info.before_set)
    for value, argument in _paired(node, target):
        own = set() if argument.alias_info is None else set(argument.alias_info.before_set)
        yield value, bool(own & returned)


def _written(node: fx.Node, target: torch._ops.OpOverload) -> Iterator[Any]:
    for value, argument in _paired(node, target):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield value


def _paired(node: fx.Node, target: torch._ops.OpOverload) -> Iterator[tuple[Any, Any]]:
    for number, argument in enumerate(target._schema.arguments):
        if number < len(node.args):
            yield node.args[number], argument
        elif argument.name in node.kwargs:
            yield node.kwargs[argument.name], argument
