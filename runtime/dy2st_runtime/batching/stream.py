"""Continuous batching: examples that are done leave, waiting ones enter at the loop's head.

The loop is the first one of the function that is in no branch. A function without one takes as many examples as there are lanes at
a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from dy2st_runtime.batching.interpreter import Interpreter, Registers, as_captured, some
from dy2st_runtime.batching.operators import Examples, for_each
from dy2st_runtime.batching.plans import Plan, Step
from dy2st_runtime.batching.report import BatchReport
from dy2st_runtime.batching.streams import Streams
from dy2st_runtime.batching.values import Each, Positions, Stacked, differs, is_plain, join, of_items, truth, views
from dy2st_runtime.ir.program import Block, Program
from dy2st_runtime.primitives import control

Finished = tuple[int, Any, "Exception | None"]
"""The number of an example, its result, and what it has raised."""


class Call:
    """What runs for an example.

    Attributes:
        program: that runs.
        plan: the same, prepared.
        inputs: the values of its inputs, for this example.
        key: the same for all examples with this program.
        results: gives the results of some examples, from the outputs of the program.
    """

    def __init__(
        self, program: Program, plan: Plan, inputs: Sequence[Any], key: Block, results: Callable[[list[Any], int], list[Any]]
    ) -> None:
        self.program, self.plan, self.inputs, self.key, self.results = program, plan, inputs, key, results


class Lanes:
    """The examples that run at a time.

    Args:
        prepare: gives what runs for an example, from ``(args, kwargs)``.
        report: takes note of how many examples are where.

    Attributes:
        active: how many have entered, and have not left.
    """

    def __init__(self, prepare: Callable[[Any], Call], report: BatchReport) -> None:
        self._prepare, self._report = prepare, report
        self._streams = Streams(torch.zeros(0, dtype=torch.int64))
        self._names: dict[int, int] = {}
        """What the caller calls the examples that are in."""
        self._ids: dict[int, int] = {}
        self._groups: dict[Block, _Group] = {}
        self.active = 0

    def admit(self, examples: Sequence[tuple[int, Any]]) -> list[Finished]:
        """Let examples enter.

        Args:
            examples: each with its number, as ``(args, kwargs)``.

        Returns:
            Those that are done already.
        """
        finished: list[Finished] = []
        waiting: dict[Block, list[tuple[int, Call]]] = {}
        for number, example in examples:
            try:
                call = self._prepare(example)
            except Exception as error:
                finished.append((number, None, error))
                continue
            waiting.setdefault(call.key, []).append((number, call))
        for key, calls in waiting.items():
            ids = self._streams.add(torch.randint(2**62, (len(calls),)))
            for example, (number, _) in zip(ids.tolist(), calls):
                self._names[example], self._ids[number] = number, example
            self.active += len(calls)
            group = self._groups.setdefault(key, _Group(calls[0][1], self._report))
            with as_captured(calls[0][1].program.default_dtype):
                done = group.enter([call for _, call in calls], Examples(ids, self._streams, self._report))
            finished += self._named(done)
        return finished

    def step(self) -> list[Finished]:
        """Do one iteration for those that are in; gives those that are done."""
        finished: list[Finished] = []
        for group in self._groups.values():
            with as_captured(group.default_dtype):
                done = group.step()
            finished += self._named(done)
        return finished

    def drop(self, numbers: Sequence[int]) -> None:
        """Let examples leave whose results nobody wants."""
        dropped = [self._ids.pop(number) for number in numbers if number in self._ids]
        for group in self._groups.values():
            group.drop(dropped)
        self._forget(dropped)

    def _named(self, done: list[Finished]) -> list[Finished]:
        named = [(self._names[example], result, error) for example, result, error in done]
        for number, _, _ in named:
            del self._ids[number]
        self._forget([example for example, _, _ in done])
        return named

    def _forget(self, examples: Sequence[int]) -> None:
        """Give what belongs to examples that have left to others."""
        self.active -= len(examples)
        for example in examples:
            del self._names[example]
        self._streams.forget(examples)


@dataclasses.dataclass
class _Waiting:
    """Examples at the head of the loop.

    Attributes:
        examples: their numbers.
        registers: what is read after the loop.
        carried, operands: of the loop.
        going: whether there is a next iteration, by example.
    """

    examples: Examples
    registers: Registers
    carried: list[Any]
    operands: list[Any]
    going: Any

    def some(self, positions: Positions, step: Step) -> _Waiting:
        """Return some of them."""
        count, plan = len(self.examples), step.blocks[0]
        flags = plan.written
        skip = len(self.carried)
        return _Waiting(
            self.examples.some(positions),
            {node: some(value, positions, count, node in plan.all_written) for node, value in self.registers.items()},
            [some(value, positions, count, written) for value, written in zip(self.carried, flags)],
            [some(value, positions, count, written) for value, written in zip(self.operands, flags[skip:])],
            self.going if isinstance(self.going, bool) else self.going[positions],
        )


class _Group:
    """The examples of one program."""

    def __init__(self, call: Call, report: BatchReport) -> None:
        self._call, self._report = call, report
        self.default_dtype = call.program.default_dtype
        steps = call.plan.steps
        self._at = next((at for at, step in enumerate(steps) if step.target is control.while_), len(steps))
        self._waiting: _Waiting | None = None

    def enter(self, calls: Sequence[Call], examples: Examples) -> list[Finished]:
        """Run examples up to the loop."""
        interpreter, plan = Interpreter(self._call.plan, self._report), self._call.plan
        registers: Registers = dict(zip(plan.inputs, self._inputs(calls)))
        examples = interpreter.steps(plan.steps[: self._at], registers, examples)
        done = _raised(interpreter)
        if not len(examples):
            return done
        if self._at == len(plan.steps):
            return done + self._left(registers, examples)
        step = plan.steps[self._at]
        (pred, _, carried, operands), _ = step.build([registers[node] for node in step.reads])
        later = _read_later(plan, self._at)
        entered = _Waiting(
            examples,
            {node: value for node, value in registers.items() if node in later},
            list(carried),
            list(operands),
            truth(pred, len(examples)),
        )
        self._waiting = entered if self._waiting is None else self._joined(self._waiting, entered, step)
        return done

    def _inputs(self, calls: Sequence[Call]) -> list[Any]:
        plan = self._call.plan
        return [_column(column, is_written) for column, is_written in zip(zip(*(call.inputs for call in calls)), plan.written)]

    def _joined(self, a: _Waiting, b: _Waiting, step: Step) -> _Waiting:
        sizes = len(a.examples), len(b.examples)
        count = sum(sizes)
        at = (np.arange(sizes[0]), np.arange(sizes[0], count))

        def both(x: Any, y: Any, is_written: bool) -> Any:
            if is_written:
                x, y = views(x, sizes[0]), views(y, sizes[1])
            return join([(at[0], x), (at[1], y)], count, is_written)

        flags, skip, written_later = step.blocks[0].written, len(a.carried), self._call.plan.all_written
        going = np.concatenate(
            [np.full(size, side.going) if isinstance(side.going, bool) else side.going for side, size in zip((a, b), sizes)]
        )
        return _Waiting(
            dataclasses.replace(a.examples, ids=np.concatenate([a.examples.ids, b.examples.ids])),
            {node: both(value, b.registers[node], node in written_later) for node, value in a.registers.items()},
            [both(x, y, written) for x, y, written in zip(a.carried, b.carried, flags)],
            [both(x, y, written) for x, y, written in zip(a.operands, b.operands, flags[skip:])],
            going,
        )

    def step(self) -> list[Finished]:
        """Let those leave that are done, and do an iteration of the loop for the others."""
        waiting, step = self._waiting, self._call.plan.steps[self._at] if self._waiting is not None else None
        if waiting is None or step is None:
            return []
        count = len(waiting.examples)
        going = np.full(count, waiting.going) if isinstance(waiting.going, bool) else waiting.going
        done: list[Finished] = []
        if not going.all():
            leaving = waiting.some(np.flatnonzero(~going), step)
            done = self._leave(leaving, step)
            if not going.any():
                self._waiting = None
                return done
            waiting = waiting.some(np.flatnonzero(going), step)
        self._report.count(step.node, 0, len(waiting.examples))
        interpreter = Interpreter(self._call.plan, self._report)
        outputs, ended = interpreter.block(step.blocks[0], [*waiting.carried, *waiting.operands], waiting.examples)
        done += _raised(interpreter)
        if not len(ended):
            self._waiting = None
            return done
        if len(ended) < len(waiting.examples):
            waiting = waiting.some(np.flatnonzero(np.isin(waiting.examples.ids, ended.ids)), step)
        self._waiting = dataclasses.replace(waiting, carried=outputs[1:], going=truth(outputs[0], len(ended)))
        return done

    def drop(self, examples: Sequence[int]) -> None:
        """Let some examples leave."""
        waiting = self._waiting
        if waiting is None or not examples:
            return
        stay = np.flatnonzero(~np.isin(waiting.examples.ids, examples))
        if len(stay) < len(waiting.examples):
            self._waiting = waiting.some(stay, self._call.plan.steps[self._at]) if len(stay) else None

    def _leave(self, leaving: _Waiting, step: Step) -> list[Finished]:
        """Run what is behind the loop."""
        interpreter = Interpreter(self._call.plan, self._report)
        registers = {**leaving.registers, step.node: tuple(leaving.carried)}
        examples = interpreter.steps(self._call.plan.steps[self._at + 1 :], registers, leaving.examples)
        done = _raised(interpreter)
        return done + self._left(registers, examples) if len(examples) else done

    def _left(self, registers: Registers, examples: Examples) -> list[Finished]:
        outputs = [registers[value] if isinstance(value, fx.Node) else value for value in self._call.plan.outputs]
        results = self._call.results(outputs, len(examples))
        return [(number, result, None) for number, result in zip(examples.ids.tolist(), results)]


def _raised(interpreter: Interpreter) -> list[Finished]:
    return [(number, None, error) for number, error in interpreter.errors.items()]


def _column(values: Sequence[Any], is_written: bool) -> Any:
    """Return the input of several examples."""
    first = values[0]
    if isinstance(first, list):
        return Each(list(map(list, values)))
    if all(value is first for value in values):
        return for_each(first, len(values)) if is_written and not differs(first) else first
    if is_written:
        return Each(list(values))
    if len(values) == 1:
        return Stacked(first.unsqueeze(0)) if is_plain(first) else first
    return of_items(values)


def _read_later(plan: Plan, at: int) -> set[fx.Node]:
    """Return the nodes that are read behind the loop."""
    nodes = {node for step in plan.steps[at + 1 :] for node in step.reads}
    return nodes | {value for value in plan.outputs if isinstance(value, fx.Node)}
