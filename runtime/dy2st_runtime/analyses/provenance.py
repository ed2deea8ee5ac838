"""Which value a result of a program is, told by the program itself.

    if c:                     if c:
        z = x + 1                 z, from = x + 1, -1
    else:                     else:
        z = x                     z, from = x, 0
    return z                  return z, from

In eager code ``z`` may be the very argument ``x``, or nothing at all. What lowers a program to operators that copy gives back other
tensors with the same contents, and zeros for nothing; with these numbers its caller can give back what eager would.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, shared_arguments
from dy2st_runtime.analyses.fusable import Kind, kind_of
from dy2st_runtime.ir.program import Block, InputSlot, Program, StateSlot, copy_block, node_blocks
from dy2st_runtime.primitives import control

NEW = -1
"""The number of a tensor or Python number that the program made."""

NOTHING = -2
"""The number of ``None``."""

NUMBERS = ("int", "float", "bool")
"""The types of Python numbers."""


@dataclasses.dataclass(frozen=True)
class _View:
    """Other than an input, and maybe with memory of it."""

    position: int


Origin = Any
"""Where a value may come from: the position of an input, the node that made it, :data:`NOTHING`, or a :class:`_View`."""


class UntoldError(Exception):
    """A result whose origin no number tells."""


@dataclasses.dataclass(frozen=True)
class Told:
    """A program that tells where its results come from.

    Attributes:
        program: a copy of the program; its root block has more outputs.
        origins: for each output of the original, a number, or the position of the output that holds it in a tuple.
    """

    program: Program
    origins: tuple[int | tuple[int], ...]


def with_provenance(program: Program) -> Told:
    """Make a program tell where its results come from.

    Args:
        program: without Python calls.

    Raises:
        UntoldError: a result may share memory with an input without being it, or two results with each other.
    """
    block = copy_block(program.block)
    origins = Origins(block)
    outputs = list(block.outputs)
    slots: list[InputSlot | StateSlot] = [*program.inputs, *program.states]
    _check(origins, outputs, [slot.name for slot in slots])
    writer = _Writer(origins)
    told: list[int | tuple[int]] = []
    extra: list[Any] = []
    for value in outputs:
        number = writer.number(value, _Place(block))
        if isinstance(number, fx.Node):
            told.append((len(outputs) + len(extra),))
            extra.append(number)
        else:
            told.append(number)
    _set_outputs(block, [*outputs, *extra])
    return Told(dataclasses.replace(program, block=block), tuple(told))


def _check(origins: Origins, outputs: Sequence[Any], names: Sequence[str]) -> None:
    results: dict[Any, Any] = {}
    for value in outputs:
        for origin in origins.of(value):
            if isinstance(origin, _View):
                which = f"{names[origin.position]!r}, which comes from outside"
                raise UntoldError(f"a result shares memory with {which}; return a clone of it")
            if isinstance(origin, fx.Node) and results.setdefault(origin, value) is not value:
                raise UntoldError("two results may share memory; return a clone of one of them")


class Origins:
    """What every value of a program may be.

    Args:
        root: its root block.
    """

    def __init__(self, root: Block) -> None:
        self._known: dict[Any, frozenset[Origin]] = {node: frozenset({index}) for index, node in enumerate(root.inputs)}
        self._aliasing = Aliasing(root)
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(root)

    def of(self, value: Any) -> frozenset[Origin]:
        """Return the origins of a value."""
        if value is None:
            return frozenset({NOTHING})
        return self._known.get(value, frozenset()) if isinstance(value, (fx.Node, tuple)) else frozenset()

    def numbers(self, value: Any) -> set[int]:
        """Return the numbers of its origins."""
        return {origin if isinstance(origin, int) else NEW for origin in self.of(value)} or {NEW}

    def _add(self, key: Any, origins: frozenset[Origin]) -> None:
        old = self._known.get(key, frozenset())
        if not origins <= old:
            self._known[key] = old | origins
            self._changed = True

    def _block(self, block: Block) -> None:
        for node in block.graph.nodes:
            if node.op == "call_function":
                self._node(node)

    def _node(self, node: fx.Node) -> None:
        if node.target in (control.if_, control.while_):
            self._control(node)
        elif node.target is operator.getitem and _is_part(node):
            self._add(node, self.of((node.args[0], node.args[1])))
        elif (changed := changed_in_place(node)) is not None:
            self._add(node, self.of(changed))
        elif self._gives_new(node):
            self._add(node, frozenset({node}))
        else:
            inner = [value for block in node_blocks(node) for value in block.outputs]
            origins = frozenset[Origin]().union(*(self.of(value) for value in (*node.all_input_nodes, *inner)))
            results = {node} if isinstance(node.target, control.Control) else set[Origin]()
            self._add(node, frozenset(results | {_View(origin) if isinstance(origin, int) else origin for origin in origins}))

    def _gives_new(self, node: fx.Node) -> bool:
        """Tell whether an operation gives a number, or a tensor in memory of its own."""
        if node.target is operator.getitem:
            return isinstance(node.args[0], fx.Node) and kind_of(node.args[0]) is Kind.COMPUTE
        if isinstance(node.target, control.Control):
            return False  # lists hold what is put into them
        if not isinstance(node.target, torch._ops.OpOverload) or _converts(node):
            return True
        if not any("Tensor" in str(result.type) for result in node.target._schema.returns):
            return True
        return kind_of(node) is not Kind.ALIAS and self._aliasing.is_new(node)

    def _control(self, node: fx.Node) -> None:
        is_loop = node.target is control.while_
        carried: Any = node.args[2] if is_loop else ()
        operands: Any = node.args[3]
        for block in node_blocks(node):
            for inner, outer in zip(block.inputs, (*carried, *operands)):
                self._add(inner, self.of(outer))
            self._block(block)
            for position, value in enumerate(block.outputs[1:] if is_loop else block.outputs):
                self._add((node, position), self.of(value))
                if is_loop:
                    self._add(block.inputs[position], self.of(value))
        for position, value in enumerate(carried):
            self._add((node, position), self.of(value))


def changed_in_place(node: fx.Node) -> fx.Node | None:
    """Return the argument that an operation changes and gives back."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    if not any(result.alias_info and result.alias_info.is_write for result in target._schema.returns):
        return None
    return next((value for value in shared_arguments(node, target) if isinstance(value, fx.Node)), None)


def _converts(node: fx.Node) -> bool:
    """Tell whether a tensor is made one of another dtype."""
    source = node.args[0] if node.args else None
    if not (isinstance(source, fx.Node) and str(node.target).startswith("aten.to.")):
        return False
    before, after = (str(value.meta.get("type", "")).partition("[")[0] for value in (source, node))
    return bool(before and after) and before != after


def _is_part(node: fx.Node) -> bool:
    """Tell whether a node takes a result of a control operation."""
    source, position = node.args
    return isinstance(source, fx.Node) and source.target in (control.if_, control.while_) and isinstance(position, int)


@dataclasses.dataclass(frozen=True)
class _Place:
    """A block, and the control operation that it belongs to."""

    block: Block
    owner: fx.Node | None = None
    outside: _Place | None = None


class _Writer:
    """Adds values to blocks that hold the numbers of others."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._added: dict[Any, Any] = {}

    def number(self, value: Any, place: _Place) -> Any:
        """Return the number of a value: itself, or a node in its block."""
        known = self._origins.numbers(value)
        if len(known) == 1:
            return known.pop()
        if value not in self._added:
            self._write(value, place)
        return self._added[value]

    def _write(self, value: fx.Node, place: _Place) -> None:
        if value.op == "placeholder":
            assert place.owner is not None and place.outside is not None, "an input of the program is itself"
            position = place.block.inputs.index(value)
            count = len(place.owner.args[2]) if place.owner.target is control.while_ else 0  # type: ignore[arg-type]  # see verify
            if position < count:
                self._carry(place.owner, place.outside, position)
            else:
                self._hand_in(place.owner, place.outside, position - count)
            return
        changed = changed_in_place(value)
        if changed is not None:
            self._added[value] = self.number(changed, place)
            return
        owner, result = value.args
        assert isinstance(owner, fx.Node) and isinstance(result, int)
        index: int = self._carry(owner, place, result) if owner.target is control.while_ else self._join(owner, place, result)
        with place.block.graph.inserting_after(owner):
            outcome = place.block.graph.call_function(operator.getitem, (owner, index))
        outcome.meta = {**owner.meta, "type": "int"}
        self._added[value] = outcome

    def _hand_in(self, owner: fx.Node, outside: _Place, position: int) -> None:
        """Make the number of an operand one more operand."""
        pred, second, third, operands = owner.args
        number = self.number(operands[position], outside)  # type: ignore[index]  # a tuple, see verify
        count = len(third) if owner.target is control.while_ else 0  # type: ignore[arg-type]
        blocks = node_blocks(owner)
        if (owner, number, "operand") not in self._added:
            self._added[owner, number, "operand"] = [_placeholder_after(block, block.inputs[-1]) for block in blocks]
            owner.args = (pred, second, third, (*owner.args[3], number))  # type: ignore[misc]
        for block, result in zip(blocks, self._added[owner, number, "operand"]):
            self._added[block.inputs[count + position]] = result

    def _join(self, owner: fx.Node, place: _Place, position: int) -> int:
        """Make the number of a branch's result one more result."""
        if (owner, position) not in self._added:
            blocks = node_blocks(owner)
            numbers = [self.number(block.outputs[position], _Place(block, owner, place)) for block in blocks]
            self._added[owner, position] = len(blocks[0].outputs)
            for block, number in zip(blocks, numbers):
                _set_outputs(block, [*block.outputs, number])
        return self._added[owner, position]  # type: ignore[no-any-return]

    def _carry(self, owner: fx.Node, place: _Place, position: int) -> int:
        """Make the number of what a loop carries one more carried value."""
        if (owner, position) not in self._added:
            (body,) = node_blocks(owner)
            pred, _, carried, operands = owner.args
            first = self.number(carried[position], place)  # type: ignore[index]  # a tuple, see verify
            carried = owner.args[2]
            count = self._added[owner, position] = len(carried)  # type: ignore[arg-type]
            inputs = body.inputs
            self._added[inputs[position]] = _placeholder_after(body, inputs[count - 1])
            owner.args = (pred, owner.args[1], (*carried, first), operands)  # type: ignore[misc]
            following = self.number(body.outputs[1 + position], _Place(body, owner, place))
            _insert_output(body, 1 + count, following)
        return self._added[owner, position]  # type: ignore[no-any-return]


def _placeholder_after(block: Block, node: fx.Node) -> fx.Node:
    with block.graph.inserting_after(node):
        result = block.graph.placeholder("origin")
    result.meta["type"] = "int"
    return result


def _insert_output(block: Block, index: int, value: Any) -> None:
    outputs = list(block.outputs)
    _set_outputs(block, [*outputs[:index], value, *outputs[index:]])


def _set_outputs(block: Block, values: Sequence[Any]) -> None:
    block.graph.output_node().args = (tuple(values),)
