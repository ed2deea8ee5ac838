"""Runs blocks for many examples: a branch or a loop is run by those that take it, and by no others.

The examples of a block are done together. Where a condition differs, those for which it holds and the others are parted, each with
what it reads, and what they leave is put together again; a loop goes on with those for which there is a next iteration. So a branch
or an iteration costs what its examples cost. An example that raises leaves the block, and the blocks around it; the others go on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from dy2st_runtime.batching.operators import Examples, Failed, run
from dy2st_runtime.batching.plans import Part, Plan, Step
from dy2st_runtime.batching.report import BatchReport
from dy2st_runtime.batching.values import Positions, join, take, truth, views
from dy2st_runtime.call.tracebacks import note

Registers = dict[fx.Node, Any]


class Interpreter:
    """Runs the blocks of one program.

    Attributes:
        errors: what examples have raised, by their numbers.
        report: takes note of how many examples are where.
    """

    def __init__(self, plan: Plan, report: BatchReport) -> None:
        self.errors: dict[int, Exception] = {}
        self.report = report
        self._written = plan.all_written

    def block(self, plan: Plan, inputs: Sequence[Any], examples: Examples) -> tuple[list[Any], Examples]:
        """Run a block.

        Args:
            plan: the block.
            inputs: the values of its inputs.
            examples: those that run it.

        Returns:
            The values of its outputs, and the examples that have come to its end.
        """
        registers: Registers = dict(zip(plan.inputs, inputs))
        examples = self.steps(plan.steps, registers, examples)
        return self.outputs(plan, registers) if len(examples) else [None] * len(plan.outputs), examples

    def outputs(self, plan: Plan, registers: Registers) -> list[Any]:
        """Return what a block gives back."""
        return [registers[value] if isinstance(value, fx.Node) else value for value in plan.outputs]

    def steps(self, steps: Sequence[Step], registers: Registers, examples: Examples) -> Examples:
        """Run operations; gives the examples that have come to the end."""
        for step in steps:
            values = [registers[node] for node in step.reads]
            part = step.part
            try:
                if part is Part.OPERATION:
                    registers[step.node] = run(step, values, examples)
                elif part is Part.ITEM:
                    registers[step.node] = _item(step, values, examples)
                else:
                    enter = self._branch if part is Part.BRANCH else self._loop
                    registers[step.node], examples = enter(step, registers, values, examples)
                    if not len(examples):
                        break
            except Failed as failed:
                examples = self._without(step, failed, registers, examples)
                if not len(examples):
                    break
            for node in step.forgotten:
                registers.pop(node, None)
        return examples

    def _without(self, step: Step, failed: Failed, registers: Registers, examples: Examples) -> Examples:
        """Take those examples out of a block that have raised."""
        for position, error in failed.errors.items():
            _tell(error, step)
            self.errors[int(examples.ids[position])] = error
        keep = np.delete(np.arange(len(examples)), list(failed.errors))
        if len(keep):
            self._shrink(registers, keep, len(examples))
            registers[step.node] = failed.value
        return examples.some(keep)

    def _shrink(self, registers: Registers, keep: Positions, count: int) -> None:
        """Leave the values of some of the examples in the registers."""
        for node, value in registers.items():
            registers[node] = some(value, keep, count, node in self._written)

    # -- branches ------------------------------------------------------------------------------------------------------------

    def _branch(self, step: Step, registers: Registers, values: Sequence[Any], examples: Examples) -> tuple[Any, Examples]:
        (pred, _, _, operands), _ = step.build(values)
        taken = truth(pred, len(examples))
        pieces: list[tuple[Positions, list[Any]]] = []
        for number, plan in enumerate(step.blocks):
            if isinstance(taken, bool):
                positions = np.arange(len(examples)) if taken is (number == 0) else np.empty(0, np.int64)
            else:
                positions = np.flatnonzero(taken if number == 0 else ~taken)
            if not len(positions):
                continue
            self.report.count(step.node, number, len(positions))
            given = parted(plan, operands, positions, len(examples))
            outputs, ended = self.block(plan, given, examples.some(positions))
            if len(ended):
                pieces.append((_still(positions, examples, ended), outputs))
        return self._joined(step, registers, pieces, examples)

    def _joined(
        self, step: Step, registers: Registers, pieces: list[tuple[Positions, list[Any]]], examples: Examples
    ) -> tuple[Any, Examples]:
        """Put together what the examples leave; those that are in no piece have raised."""
        count = sum(len(positions) for positions, _ in pieces)
        if count < len(examples):
            keep = np.sort(np.concatenate([positions for positions, _ in pieces])) if pieces else np.empty(0, np.int64)
            if not len(keep):
                return None, examples.some(keep)
            self._shrink(registers, keep, len(examples))
            examples = examples.some(keep)
            pieces = [(np.searchsorted(keep, positions), outputs) for positions, outputs in pieces]
        columns = zip(*(outputs for _, outputs in pieces))
        return tuple(
            join([(positions, value) for (positions, _), value in zip(pieces, column)], count, is_written)
            for column, is_written in zip(columns, step.written)
        ), examples

    # -- loops ---------------------------------------------------------------------------------------------------------------

    def _loop(self, step: Step, registers: Registers, values: Sequence[Any], examples: Examples) -> tuple[Any, Examples]:
        (pred, _, carried, operands), _ = step.build(values)
        loop = Loop(self, step, truth(pred, len(examples)), list(carried), list(operands), examples)
        pieces: list[tuple[Positions, list[Any]]] = []
        while len(loop.positions):
            pieces += loop.iterate()
        return self._joined(step, registers, pieces, examples)


@contextlib.contextmanager
def as_captured(default_dtype: torch.dtype) -> Iterator[None]:
    """Have PyTorch's default dtype be that of a program, and put it back, as the grad mode, which the program may have switched.

    Args:
        default_dtype: of the program; it belongs to the process, so it is set only where it differs.
    """
    grad_enabled, before = torch.is_grad_enabled(), torch.get_default_dtype()
    if before != default_dtype:
        torch.set_default_dtype(default_dtype)
    try:
        yield
    finally:
        torch._C._set_grad_enabled(grad_enabled)
        if before != default_dtype:
            torch.set_default_dtype(before)


class Loop:
    """A loop with those of its examples that go on.

    Attributes:
        positions: of these among the examples that have come to the loop.
    """

    def __init__(
        self, interpreter: Interpreter, step: Step, going: Any, carried: list[Any], operands: list[Any], examples: Examples
    ) -> None:
        self._interpreter, self._step, self._plan = interpreter, step, step.blocks[0]
        self._all, self._operands, self._going = examples, operands, going
        self.positions = np.arange(len(examples))
        self._carried, self._examples, self._count = carried, examples, len(examples)
        self._read: list[Any] | None = None

    def iterate(self) -> list[tuple[Positions, list[Any]]]:
        """Take out those that are done, and do one iteration of the others.

        Returns:
            The positions of those that are done, with what the loop leaves for them.
        """
        done = self._part()
        if not len(self.positions):
            return done
        if self._read is None:
            self._read = parted(self._plan, self._operands, self.positions, self._count, len(self._carried))
        self._interpreter.report.count(self._step.node, 0, len(self.positions))
        outputs, ended = self._interpreter.block(self._plan, [*self._carried, *self._read], self._examples)
        if len(ended) < len(self._examples):
            self.positions, self._read = _still(self.positions, self._all, ended), None
        self._examples, self._carried = ended, outputs[1:]
        self._going = truth(outputs[0], len(ended)) if len(ended) else False
        return done

    def _part(self) -> list[tuple[Positions, list[Any]]]:
        going = self._going
        if isinstance(going, bool):
            if going or not len(self.positions):
                return []
            done, self.positions = self.positions, self.positions[:0]
            return [(done, self._carried)]
        stay, leave = np.flatnonzero(going), np.flatnonzero(~going)
        flags = self._plan.written
        left = [some(value, leave, len(going), is_written) for value, is_written in zip(self._carried, flags)]
        self._carried = [some(value, stay, len(going), is_written) for value, is_written in zip(self._carried, flags)]
        done = self.positions[leave]
        self.positions, self._examples, self._read = self.positions[stay], self._examples.some(stay), None
        return [(done, left)]


# -- parting -----------------------------------------------------------------------------------------------------------------


def parted(plan: Plan, values: Sequence[Any], positions: Positions, count: int, first: int = 0) -> list[Any]:
    """Return what a block reads for some of the examples, from an input on."""
    flags = zip(plan.used[first:], plan.written[first:])
    return [some(value, positions, count, is_written) if is_used else None for value, (is_used, is_written) in zip(values, flags)]


def some(value: Any, positions: Positions, count: int, is_written: bool) -> Any:
    """Return the value for some of the examples, in order; tensors that may be written stay what they are."""
    if len(positions) == count:
        return value
    return take(views(value, count) if is_written else value, positions)


def _still(positions: Positions, examples: Examples, ended: Examples) -> Positions:
    """Return the positions of those that have come to the end."""
    return positions if len(ended) == len(positions) else positions[np.isin(examples.ids[positions], ended.ids)]


def _item(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Take one of several values that an operation has given."""
    (source, position), _ = step.build(values)
    if isinstance(source, tuple) and type(position) is int:
        return source[position]
    return run(step, values, examples)


def _tell(error: Exception, step: Step) -> None:
    """Say which line of the user's has raised."""
    where = step.location
    if where is not None and not getattr(error, "__notes__", ()):
        note(error, f'raised by the program at File "{where.file}", line {where.line}, in {where.function}')
