"""Types of the inputs of blocks, where a capture has not written them down."""

from __future__ import annotations

import dataclasses

from torch import fx

from dy2st_runtime.ir.printing import short_dtype
from dy2st_runtime.ir.program import Block, InputSlot, Program, StateSlot, copy_block, node_blocks
from dy2st_runtime.primitives import control


def typed(program: Program) -> Program:
    """Return a copy of a program whose inputs, of all blocks that run as they are, tell their types.

    Args:
        program: any program; it stays as it is.
    """
    block = copy_block(program.block)
    for node, slot in zip(block.inputs, _slots(program)):
        if slot.dtype is not None and "type" not in node.meta:
            node.meta["type"] = _type_of_slot(slot)
    _type_blocks(block)
    return dataclasses.replace(program, block=block)


def _type_blocks(block: Block) -> None:
    for node in block.graph.nodes:
        if node.target in (control.if_, control.while_):
            _type_inputs(node)
            for inner in node_blocks(node):
                _type_blocks(inner)


def _slots(program: Program) -> list[InputSlot | StateSlot]:
    return [*program.inputs, *program.states]


def _type_of_slot(slot: InputSlot | StateSlot) -> str:
    assert slot.dtype is not None
    return f"{short_dtype(slot.dtype)}[{', '.join(map(str, slot.shape))}]"


def _type_inputs(owner: fx.Node) -> None:
    """Note that inputs of nested blocks are of the types of their operands, where the capture has not said it."""
    shift = len(owner.args[2]) if owner.target is control.while_ else 0  # type: ignore[arg-type]  # see verify
    for block in node_blocks(owner):
        for inner, outer in zip(block.inputs[shift:], owner.args[3]):  # type: ignore[arg-type]
            if "type" not in inner.meta and isinstance(outer, fx.Node) and "type" in outer.meta:
                inner.meta["type"] = outer.meta["type"]
