"""A program for the machine: flat instructions over numbered registers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.executors.native.callbacks import Callback
from dy2st_runtime.ir.program import Location


@dataclasses.dataclass
class Instruction:
    """One step.

    Attributes:
        kind: a key of ``opcodes`` in ``csrc/assemble.cpp``.
        name: what is called: an operator with its overload, a function on numbers or lists.
        outputs: the registers it writes; -1 for a part of the result that nobody reads.
        inputs: the registers it reads.
        arguments: of an operator, one for each parameter: ``()`` for the default, a register, a list of registers, or a
            constant in a tuple. Of a function of Python that the machine can do itself, what it does, and numbers that it takes.
        dead: the registers that nobody reads afterwards.
        reads: the registers whose values its Python function takes.
        target: where to go on, of a jump.
        spread: whether each part of the result has a register.
        callback: makes the Python function.
        location: the user's line.
    """

    kind: str
    name: str = ""
    outputs: Sequence[int] = ()
    inputs: Sequence[int] = ()
    arguments: tuple[Any, ...] = ()
    dead: list[int] = dataclasses.field(default_factory=list)
    reads: Sequence[int] = ()
    target: int = -1
    spread: bool = False
    callback: Callback | None = None
    location: Location | None = None

    def described(self) -> tuple[Any, ...]:
        """Encode as the machine takes it."""
        parts = (self.kind, self.name, tuple(self.outputs), tuple(self.inputs), self.arguments, self.dead, tuple(self.reads))
        return (*parts, self.target, self.spread, self.label)

    @property
    def label(self) -> str:
        """The user's function and line, for profilers."""
        place = self.location
        return "" if place is None else f"{place.function or '<module>'} ({os.path.basename(place.file)}:{place.line})"

    def read(self) -> set[int]:
        """Return every register that it reads."""
        results = {*self.inputs, *self.reads}
        for argument in self.arguments:
            if isinstance(argument, list):
                results.update(argument)
            elif not isinstance(argument, tuple):
                results.add(argument)
        return results


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A program for the machine.

    Attributes:
        instructions: the steps, the last one returns.
        constants: the values of the first registers.
        inputs: the registers of the program's inputs.
        outputs: the registers of its outputs.
        registers: how many there are.
        may_skip_autograd: whether nothing in it makes a tensor require gradients that comes from ones which do not.
        switches_grad: whether it sets the grad mode.
    """

    instructions: list[Instruction]
    constants: list[Any]
    inputs: list[int]
    outputs: list[int]
    registers: int
    may_skip_autograd: bool
    switches_grad: bool

    def described(self, resolve: Callable[[int], Callable[..., Any]]) -> dict[str, Any]:
        """Encode as the machine takes it."""
        description = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        description["instructions"] = [instruction.described() for instruction in self.instructions]
        return {**description, "resolve": resolve, "leave_autocast": torch.amp.autocast_mode._exit_autocast}
