"""What the machine does itself with objects of Python, see ``csrc/python/objects.cpp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.executors.native.instructions import Instruction
from dy2st_runtime.ir.structure import CellOf, ObjectOf
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.cells import slots_of


def instruction(
    target: control.Control, args: Sequence[Any], register: Callable[[Any], int], constant: Callable[[Any], int]
) -> Instruction | None:
    """Return an operation on an object that the machine does itself; ``None`` if it leaves it to Python.

    Args:
        target: the operation.
        args: of the node.
        register: gives the register of an argument.
        constant: gives that of a constant, which may be a tuple.
    """
    if target is control.item_parts and isinstance(args[0], fx.Node):
        inputs = [register(args[0]), constant(_kind_of_parts(args[1])), constant(len(args) > 2 and bool(args[2]))]
        return Instruction("python", target.name, inputs=inputs, arguments=(target.name, ()))
    if target is control.item_make and isinstance(args[0], CellOf) and isinstance(args[1][0], fx.Node):
        return Instruction("python", target.name, inputs=[register(args[1][0])], arguments=("cell", ()))
    return None


def _kind_of_parts(kind: int | ObjectOf) -> Any:
    if not isinstance(kind, ObjectOf):
        return kind
    slots = dict(slots_of(kind.factory))
    return kind.factory, kind.fields, tuple(map(slots.get, kind.fields))
