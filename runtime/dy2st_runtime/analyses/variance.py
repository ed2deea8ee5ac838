"""Which values of a program are the same in all processes of a group, and which may differ from process to process.

    x                             differs: it is an argument
    w                             is the same: a parameter, of which processes have copies
    y = aten.clone(x)
    call_(all_reduce, (y,))       y is the same from here on
    p = aten.gt.Scalar(x, 0)      differs
    if p:
      call_(all_reduce, (z,))     found: processes may not meet here

A value that a branch or loop leaves differs where its condition does. A tensor that is written is as different as what is written
into it, and as the conditions under which that is done; so are those that may share its memory. State is the same as long as the
program writes nothing into it that differs, or, in the strict form, never.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, writes
from dy2st_runtime.analyses.communication import group_of, makes_same
from dy2st_runtime.distributed.boundaries import Boundary
from dy2st_runtime.ir.program import Block, Program, node_blocks, operations
from dy2st_runtime.ir.structure import Leaf, walk
from dy2st_runtime.primitives import control

Uniform = frozenset[frozenset[int]] | None
"""The groups of ranks in which a value is the same; ``None`` for one that is the same everywhere."""
_DIFFERS: Uniform = frozenset()
_MOST_ROUNDS = 8


class Finding(NamedTuple):
    """An operation that works together with others, where processes may part ways before it.

    Attributes:
        node: the operation.
        condition: the branch or loop that decides whether it is done.
        ranks: of the group.
    """

    node: fx.Node
    condition: fx.Node
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        what = "a loop" if self.condition.target is control.while_ else "a branch"
        name = getattr(self.node.args[0], "__qualname__", None) if self.node.target is control.call_ else str(self.node.target)
        return (
            f"{name} at {self.node.meta.get('location')} works together with ranks {[*self.ranks]}, and stands in {what} of which "
            f"each decides for itself, at {self.condition.meta.get('location')}"
        )


def both(a: Uniform, b: Uniform) -> Uniform:
    """Return in which groups what depends on two values is the same."""
    if a is None:
        return b
    return a if b is None else a & b


def holds(value: Uniform, ranks: Iterable[int]) -> bool:
    """Tell whether a value is the same in all processes of a group."""
    return value is None or any(group.issuperset(ranks) for group in value)


class Variance:
    """The values of one program.

    Args:
        program: any program.
        strict: whether state counts as different from process to process, whatever it is.

    Attributes:
        findings: where processes may not meet.
        conditions: for each branch and loop, in which groups its condition is the same.
    """

    def __init__(self, program: Program, strict: bool = False) -> None:
        self._program, self._strict = program, strict
        self._aliasing = Aliasing(program.block, inputs_apart=True)
        different: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            self._run(different)
            found = self._different_states()
            if strict or found <= different:
                break
            different |= found
        self.findings = list(self._found.values())

    def _run(self, different: set[int]) -> None:
        self._of: dict[fx.Node, Uniform] = {}
        self._parts: dict[fx.Node, list[Uniform]] = {}
        self._outer: dict[fx.Node, fx.Node] = {}
        self._path: list[tuple[fx.Node, Uniform]] = []
        self._found: dict[tuple[fx.Node, fx.Node], Finding] = {}
        self.conditions: dict[fx.Node, Uniform] = {}
        inputs = len(self._program.inputs)
        for position, node in enumerate(self._program.block.inputs):
            is_same = position >= inputs and not self._strict and position - inputs not in different
            self._of[node] = None if is_same else _DIFFERS
        self._block(self._program.block)

    def _different_states(self) -> set[int]:
        """Return the positions of the state that the program leaves different."""
        nodes, states = self._program.block.inputs[len(self._program.inputs) :], self._program.states
        names = {slot.name: position for position, slot in enumerate(states)}
        found = {position for position, node in enumerate(nodes) if self._of[node] is not None}
        outputs = self._program.block.outputs
        for effect in self._program.effects:
            leaves = (outputs[part.index] for part in walk(effect.value) if isinstance(part, Leaf))
            if effect.target in names and any(self._value(leaf) is not None for leaf in leaves):
                found.add(names[effect.target])
        return found

    # -- values ----------------------------------------------------------------------------------------------------------------

    def _resolved(self, node: fx.Node) -> fx.Node:
        while node in self._outer:
            node = self._outer[node]
        return node

    def _value(self, value: Any) -> Uniform:
        result: Uniform = None
        nodes: list[fx.Node] = []
        fx.map_arg((value,), nodes.append)
        for node in nodes:
            result = both(result, self._of.get(self._resolved(node)))
        return result

    def _write(self, node: fx.Node, value: Uniform, replaces: bool) -> None:
        """Note that the memory of a value is written; ``replaces`` if all of it is."""
        owner = self._resolved(node)
        for other in list(self._of):
            if other is not owner and self._aliasing.share(owner, other):
                self._of[other] = both(self._of[other], value)
        self._of[owner] = value if replaces else both(self._of.get(owner), value)

    # -- operations ------------------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> list[Uniform]:
        for node in block.graph.nodes:
            if node.op == "call_function":
                self._visit(node)
        return [self._value(value) for value in block.outputs]

    def _visit(self, node: fx.Node) -> None:
        group = group_of(node)
        if group is not None and len(group.ranks) > 1:
            for condition, value in self._path:
                if not holds(value, group.ranks):
                    self._found.setdefault((node, condition), Finding(node, condition, group.ranks))
        if node.target is control.if_:
            self._branch(node)
        elif node.target is control.while_:
            self._loop(node)
        elif node.target is control.call_:
            self._call(node, None if group is None else frozenset({frozenset(group.ranks)}))
        elif node.target is operator.getitem and node.args[0] in self._parts and isinstance(node.args[1], int):
            parts = self._parts[node.args[0]]  # type: ignore[index]
            self._of[node] = parts[node.args[1]] if node.args[1] < len(parts) else None
        else:
            self._operation(node, group)

    def _operation(self, node: fx.Node, group: Any) -> None:
        value = self._value((node.args, node.kwargs))
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            if group is not None:
                value = both(value, _DIFFERS)
                value = (value or frozenset()) | {frozenset(group.ranks)} if makes_same(node) else value
            elif torch.Tag.nondeterministic_seeded in target.tags or target.namespace == "dy2st_random":
                value = _DIFFERS
        elif target is control.transform_:
            for block in node_blocks(node):
                self._enter(block, (*node.args[2], *node.args[3]))  # type: ignore[misc]
                self._block(block)
        if target in (control.transform_, control.apply_) and any(map(_is_unknown, _inside(node))):
            value = _DIFFERS
        for written in writes(node):
            self._write(written, value, replaces=False)
        if target in control.LIST_CHANGES and isinstance(node.args[0], fx.Node):
            self._write(node.args[0], value, replaces=False)
        self._of[node] = value

    def _call(self, node: fx.Node, group: Uniform) -> None:
        call, args = node.args[0], node.args[1]
        given = [self._value(argument) for argument in args] if isinstance(args, tuple) else []
        if isinstance(call, Boundary):  # it gives back what it gets; behind that come parameters, which are the same everywhere
            self._parts[node], self._of[node] = given, self._value(args)
            return
        told = getattr(call, "tells_same", None)
        if told is not None:
            self._of[node] = group if told else None
            return
        nodes: list[fx.Node] = []
        fx.map_arg(args, nodes.append)
        if group is None:
            for written in nodes if not getattr(call, "only_keeps", False) else ():
                self._write(written, _DIFFERS, replaces=False)
            self._of[node] = _DIFFERS
            return
        self._of[node] = None  # what waits, or nothing
        first: list[fx.Node] = []
        fx.map_arg(args[:1] if isinstance(args, tuple) else (), first.append)
        for written in first:
            before = self._of.get(self._resolved(written))
            known = group if before is None else before | (group or frozenset())
            same = makes_same(node)
            self._write(written, known if same else _DIFFERS, replaces=same)

    # -- control flow ----------------------------------------------------------------------------------------------------------

    def _decide(self, node: fx.Node, value: Uniform) -> None:
        self.conditions[node] = both(self.conditions.get(node), value)

    def _branch(self, node: fx.Node) -> None:
        pred, then, orelse, operands = node.args
        condition = self._value(pred)
        self._decide(node, condition)
        before = dict(self._of)
        self._path.append((node, condition))
        ways = []
        for block in (then, orelse):
            self._of = dict(before)
            self._enter(block, operands)
            ways.append((self._block(block), self._of))  # type: ignore[arg-type]
        self._path.pop()
        (left, after_left), (right, after_right) = ways
        self._of = self._joined(before, (after_left, after_right), condition)
        same = [_same_constant(a, b) for a, b in zip(then.outputs, orelse.outputs)]  # type: ignore[union-attr]
        results = [None if known else both(condition, both(a, b)) for a, b, known in zip(left, right, same)]
        self._give(node, results)

    def _loop(self, node: fx.Node) -> None:
        pred, body, carried, operands = node.args
        values = [self._value(value) for value in carried]  # type: ignore[union-attr]
        condition = self._value(pred)
        for _ in range(_MOST_ROUNDS):
            before = dict(self._of)
            self._enter(body, operands, len(values))
            for inner, value in zip(body.inputs, values):  # type: ignore[union-attr]
                self._of[inner] = value
            self._path.append((node, condition))
            following, *results = self._block(body)  # type: ignore[arg-type]
            self._path.pop()
            self._of = self._joined(before, (before, self._of), condition)
            now = [both(a, b) for a, b in zip(values, results)]
            decided = both(condition, following)
            if now == values and decided == condition and all(self._of[known] == value for known, value in before.items()):
                break
            values, condition = now, decided
        else:  # it goes on changing: nothing is known
            values, condition = [_DIFFERS] * len(values), _DIFFERS
        self._decide(node, condition)
        self._give(node, [both(value, condition) for value in values])

    def _enter(self, block: Any, operands: Any, skip: int = 0) -> None:
        for inner, outer in zip(block.inputs[skip:], operands):
            if isinstance(outer, fx.Node):
                self._outer[inner] = outer
            else:
                self._of[inner] = None

    def _joined(self, before: dict[fx.Node, Uniform], ways: Sequence[dict[fx.Node, Uniform]], condition: Uniform) -> Any:
        """Return what is known after some ways: what one of them has written depends on which way was taken."""
        result = dict(before)
        for node, known in before.items():
            left = [way[node] for way in ways]
            if any(value != known for value in left):
                result[node] = functools.reduce(both, left, condition)
        return result

    def _give(self, node: fx.Node, results: list[Uniform]) -> None:
        self._parts[node] = results
        self._of[node] = None
        for result in results:
            self._of[node] = both(self._of[node], result)


def _same_constant(a: Any, b: Any) -> bool:
    return not isinstance(a, fx.Node) and not isinstance(b, fx.Node) and type(a) is type(b) and bool(a == b)


def _inside(node: fx.Node) -> Iterable[fx.Node]:
    return (inner for block in node_blocks(node) for inner in operations(block))


def _is_unknown(node: fx.Node) -> bool:
    target = node.target
    random = isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
    return random or target in (control.call_, control.apply_)
