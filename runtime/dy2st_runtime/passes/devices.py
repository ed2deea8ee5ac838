"""A program for another device than the one it was captured on.

    arange = aten.arange.default(n, device=cuda:0)  →  arange = aten.arange.default(n, device=cpu)

Only the device of the program's inputs is replaced: a program that names a second device means that one.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.program import InputSlot, Program, copy_block, nested_blocks
from dy2st_runtime.primitives import modes


def captured_device(program: Program) -> torch.device:
    """Return the device of the first tensor among the inputs; the CPU when there is none."""
    return torch.device(next((slot.device for slot in program.inputs if slot.dtype is not None), "cpu"))


def move_to_device(program: Program, device: torch.device) -> Program:
    """Replace the device that the program was captured on.

    Args:
        program: any program.
        device: where its inputs and its state will be.

    Returns:
        The program as it would have been captured there.
    """
    old = captured_device(program)
    if _same(old, device):
        return program
    block = copy_block(program.block)

    def replace(value: Any) -> Any:
        return device if isinstance(value, torch.device) and _same(value, old) else value

    for inner in nested_blocks(block):
        for node in inner.graph.nodes:
            node.args = fx.node.map_aggregate(node.args, replace)
            node.kwargs = fx.node.map_aggregate(node.kwargs, replace)
            if modes.TARGETS.get(node.target) == "enter_autocast" and node.args[0] == old.type:
                node.args = (device.type, *node.args[1:])
    return dataclasses.replace(program, block=block, inputs=tuple(_move_slot(slot, old, device) for slot in program.inputs))


def _same(a: torch.device, b: torch.device) -> bool:
    return a.type == b.type and (a.type == "cpu" or (a.index or 0) == (b.index or 0))


def _move_slot(slot: InputSlot, old: torch.device, device: torch.device) -> InputSlot:
    if slot.dtype is None or not _same(torch.device(slot.device), old):
        return slot
    return dataclasses.replace(slot, device=str(device))
