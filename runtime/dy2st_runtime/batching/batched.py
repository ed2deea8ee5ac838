"""A program called for many examples at once: from the arguments of a call to its result."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from dy2st_runtime.batching import refusals
from dy2st_runtime.batching.arriving import as_they_arrive
from dy2st_runtime.batching.dims import Dims, Split, placed, together
from dy2st_runtime.batching.interpreter import Interpreter, as_captured
from dy2st_runtime.batching.operators import Examples, for_each
from dy2st_runtime.batching.plans import Plan, planned
from dy2st_runtime.batching.report import BatchReport
from dy2st_runtime.batching.stream import Call, Finished, Lanes
from dy2st_runtime.batching.streams import Streams
from dy2st_runtime.batching.values import Positions, Stacked, differs, is_plain, items_of, join, of_items, take
from dy2st_runtime.errors import BatchError, ExampleErrors
from dy2st_runtime.inference import without_checkpoints
from dy2st_runtime.ir.program import Block, Program
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Structure, TupleOf, walk
from dy2st_runtime.ir.unflattening import unflatten


class Place(Protocol):
    """Where a call writes something outside of the program."""

    @property
    def name(self) -> str:
        """What it is called."""

    def read(self) -> Any:
        """Return what is there."""

    def write(self, value: Any) -> None:
        """Put a value there, or take out what is there."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What runs for an example.

    Attributes:
        program: captured for it.
        inputs: the values of the root block's inputs, for this example.
        places: one for each effect of the program; an example writes there what is its own.
        existing: containers among the results that come from outside, by number.
        owner: how the names of state begin that belongs to the module itself (``"self."``).
    """

    program: Program
    inputs: Sequence[Any]
    places: Sequence[Place]
    existing: dict[int, Any]
    owner: str = ""


Prepare = Callable[[tuple[Any, ...], dict[str, Any]], Prepared]


class Batched:
    """A function that runs for many examples at once, as written for one.

    Made by :func:`dy2st.batch` or :func:`dy2st_runtime.batch`.

    Args:
        prepare: gives what runs for an example, from its arguments.
        name: of the function.
        in_dims, out_dims, lanes, errors: see :func:`dy2st.batch`; the dims are one for each level, the outermost first.
    """

    def __init__(
        self, prepare: Prepare, name: str, in_dims: tuple[Dims, ...], out_dims: tuple[Dims, ...], lanes: int | None, errors: str
    ) -> None:
        if errors not in ("raise", "return"):
            raise BatchError(f"errors must be 'raise' or 'return', not {errors!r}")
        if lanes is not None and (type(lanes) is not int or lanes < 1):
            raise BatchError(f"lanes must be a number of examples, not {lanes!r}")
        self.__name__ = self.__qualname__ = name
        self._prepare, self._in_dims, self._out_dims, self._lanes, self._errors = prepare, in_dims, out_dims, lanes, errors
        self._state: dict[str, Any] = {}
        self._counts: tuple[int, ...] = (0,)
        """The numbers of examples that have it."""
        self._plans: dict[tuple[Block, bool], tuple[Plan, Program]] = {}
        self._report = BatchReport(name)

    def __repr__(self) -> str:
        return f"<batched {self.__qualname__}>"

    @property
    def state(self) -> dict[str, Any]:
        """What the examples have written to attributes, by name, with the examples first; later calls go on with it."""
        dims = (0,) * len(self._counts)
        return {name: placed(value, dims, self._counts) for name, value in self._state.items()}

    def reset(self) -> None:
        """Forget the state of the examples: the next call begins with that of the module."""
        self._state = {}

    def nested(self, in_dims: Dims, out_dims: Dims, lanes: int | None, errors: str) -> Batched:
        """Return the same for examples of examples."""
        return Batched(
            self._prepare, self.__name__, (in_dims, *self._in_dims), (out_dims, *self._out_dims), lanes or self._lanes, errors
        )

    def report(self) -> BatchReport:
        """Return how many examples were in each branch and iteration, by line, and what they did one by one."""
        return self._report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function for all examples.

        Raises:
            ExampleErrors: it has raised for some of them, and ``errors="raise"``.
            BatchError: the arguments are no examples, or it cannot be run for several at once.
        """
        split = Split(args, kwargs, self._in_dims)
        if self._lanes is not None and split.count > self._lanes:
            return self._in_turns(split)
        seeds = torch.randint(2**62, (split.count,))
        return self._finished(*self._run(split, seeds), split)

    def _run(self, split: Split, seeds: torch.Tensor) -> tuple[Any, dict[int, Exception], Positions]:
        """Run for the examples of a call; gives what they leave, what some have raised, and the numbers of the others."""
        call = self._prepared(split.example)
        interpreter = Interpreter(call.plan, self._report)
        inputs = self._inputs(call, split)
        examples = Examples(np.arange(split.count), Streams(seeds), self._report)
        with as_captured(call.program.default_dtype):
            outputs, ended = interpreter.block(call.plan, inputs, examples)
        if len(ended):
            self._keep(call, inputs, outputs, ended.ids, split)
        result = self._result(call, outputs, ended.ids) if len(ended) else None
        return result, interpreter.errors, ended.ids

    # -- the program -----------------------------------------------------------------------------------------------------------

    def _prepared(self, example: tuple[tuple[Any, ...], dict[str, Any]]) -> _Call:
        if not self._state:
            prepared, firsts = self._prepare(*example), dict[int, tuple[str, Any]]()
        else:
            prepared, firsts = self._with_state(example)
        refusals.check(prepared.program, prepared.existing)
        key = (prepared.program.block, _are_apart(prepared.inputs))
        plan = self._plans.get(key)
        if plan is None:
            program = without_checkpoints(prepared.program)
            plan = self._plans[key] = (planned(program, key[1]), program)
        return _Call(prepared, *plan, firsts)

    def _with_state(self, example: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Prepared, dict[int, tuple[str, Any]]]:
        """Look for the program as if the module had the state of the first example.

        Returns:
            What runs; and for the tensors and tuples of that state, by their identity, the name and those of all examples.
        """
        prepared = self._prepare(*example)
        held = [(place, place.read()) for place in prepared.places if place.name in self._state]
        firsts: dict[int, tuple[str, Any]] = {}
        try:
            for place, _ in held:
                first = items_of(self._state[place.name], math.prod(self._counts))[0]
                firsts |= {id(part): (place.name, value) for part, value in _parts(first, self._state[place.name])}
                place.write(first)
            return self._prepare(*example), firsts
        finally:
            for place, value in held:
                place.write(value)

    def _inputs(self, call: _Call, split: Split) -> list[Any]:
        """Return the values of the inputs for all examples."""
        prepared, count = call.prepared, split.count
        if self._state and self._counts != split.counts:
            raise BatchError(
                f"the state of {math.prod(self._counts)} examples is kept, and the call is for {count}: call reset() first"
            )
        names = [slot.name for slot in prepared.program.inputs] + [
            slot.name.removeprefix(prepared.owner) for slot in prepared.program.states
        ]
        first = len(prepared.program.inputs)
        found: set[str] = set()
        results = []
        for position, (value, name) in enumerate(zip(prepared.inputs, names)):
            if id(value) in split.stacked:
                result: Any = Stacked(split.stacked[id(value)])
            elif id(value) in call.firsts:
                held, result = call.firsts[id(value)]
                found.add(held)
            elif position >= first and name in self._state:
                found.add(name)
                result = self._state[name]
            else:
                result = value
            if call.plan.written[position] and position < first and id(value) not in split.stacked and id(value) not in call.firsts:
                raise BatchError(
                    f"{prepared.program.origin}: {prepared.program.name} changes the argument {name} in place, which the examples "
                    "share; give each its own, or write to a clone"
                )
            if (call.plan.written[position] or isinstance(result, list)) and not differs(result):
                result = for_each(result, count)
            results.append(result)
        for name, value in self._state.items():
            if _differs_inside(value) and name not in found and any(place.name == name for place in prepared.places):
                raise BatchError(
                    f"{prepared.program.origin}: {name} differs between the examples, and {prepared.program.name} is captured for "
                    "one value of it; keep it in a tensor"
                )
        return results

    def _keep(self, call: _Call, inputs: Sequence[Any], outputs: Sequence[Any], ended: Positions, split: Split) -> None:
        """Keep what the examples have written for the next call; those that have raised keep what they had."""
        prepared, count = call.prepared, split.count
        slots = prepared.program.states
        for position, slot in enumerate(slots, len(prepared.program.inputs)):
            if call.plan.written[position] and slot.dtype is not None:
                self._state[slot.name.removeprefix(prepared.owner)], self._counts = inputs[position], split.counts
        for effect, place in zip(prepared.program.effects, prepared.places):
            value = self._value(call, effect.value, outputs, ended)
            if len(ended) < count:
                others = np.setdiff1d(np.arange(count), ended)
                old = self._state.get(place.name, place.read())
                value = join([(ended, value), (others, take(old, others))], count)
            self._state[place.name], self._counts = value, split.counts

    # -- results ---------------------------------------------------------------------------------------------------------------

    def _result(self, call: _Call, outputs: list[Any], ended: Positions) -> Any:
        """Return the result of all examples: a structure with values of registers in it, or one for each example."""
        structure = call.program.out_structure
        if all(map(_is_same_for_all, walk(structure))) or not any(map(differs, outputs)):
            return unflatten(structure, outputs)
        return _OneByOne(self._lanes_of(call, structure, outputs, ended))

    def _lanes_of(self, call: _Call, structure: Structure, outputs: Sequence[Any], ended: Positions) -> list[Any]:
        """Return what is made of the outputs for each example, with the tuples that are there before the call."""
        count, existing = len(ended), dict[int, list[Any]]()
        for number, value in call.prepared.existing.items():
            held = call.firsts.get(id(value))
            existing[number] = [value] * count if held is None else items_of(take(held[1], ended), count)
        return [
            unflatten(structure, lane, {number: items[at] for number, items in existing.items()})
            for at, lane in enumerate(_lanes(structure, outputs, count))
        ]

    def _value(self, call: _Call, structure: Structure, outputs: Sequence[Any], ended: Positions) -> Any:
        """Return a register for what all examples write somewhere."""
        if isinstance(structure, Leaf):
            return outputs[structure.index]
        if isinstance(structure, Const):
            return structure.value
        return of_items(self._lanes_of(call, structure, outputs, ended))

    def _finished(self, result: Any, errors: dict[int, Exception], ended: Positions, split: Split) -> Any:
        """Return what the caller gets."""
        count = split.count
        if not errors and self._errors == "raise":
            return placed(together(result.items) if isinstance(result, _OneByOne) else result, self._out_dims, split.counts)
        results: list[Any] = [None] * count
        for number, item in zip(ended.tolist(), self._each(result, len(ended))):
            results[number] = item
        return self._told(results, errors)

    def _told(self, results: list[Any], errors: dict[int, Exception]) -> list[Any]:
        """Return the results of the examples with what some have raised, or raise that."""
        if self._errors == "return":
            return [errors.get(number, item) for number, item in enumerate(results)]
        raise _failed(errors, results)

    def _each(self, result: Any, count: int) -> list[Any]:
        if not count:
            return []
        return result.items if isinstance(result, _OneByOne) else each(result, count)

    # -- more examples than lanes ------------------------------------------------------------------------------------------------

    def _in_turns(self, split: Split) -> Any:
        assert self._lanes is not None
        results: list[Any] = [None] * split.count
        errors: dict[int, Exception] = {}
        for number, result, error in self._stream(enumerate(split.each()), self._lanes):
            if error is not None:
                errors[number] = error
            results[number] = result
        if not errors and self._errors == "raise":
            return placed(together(results), self._out_dims, split.counts)
        return self._told(results, errors)

    def stream(self, examples: Iterable[Any], lanes: int | None = None, ordered: bool = True) -> Iterator[Any]:
        """Yield the results of examples, of which a number run at a time: one that is done makes room for the next.

        Args:
            examples: of each the tuple of its arguments, or its only argument. They may differ in size.
            lanes: how many run at a time; as many as the function was batched for, or else 64.
            ordered: whether results come in the order of the examples, or as they are done, with their numbers: ``(3, result)``.

        Raises:
            Exception: what an example raises, where its result would come; with ``errors="return"`` that is its result.

        Example:
            >>> @dy2st.to_static
            ... def halvings(x):
            ...     steps = 0
            ...     while x > 1:
            ...         x, steps = x / 2, steps + 1
            ...     return steps
            >>> list(dy2st.batch(halvings).stream([torch.tensor(9.0), torch.tensor(1.0), torch.tensor(2.0)], lanes=2))
            [4, 0, 1]
        """
        calls: Iterator[Any] = ((example if isinstance(example, tuple) else (example,), {}) for example in examples)
        done: dict[int, Any] = {}
        following = 0
        for number, result, error in self._stream(enumerate(calls), lanes or self._lanes or 64):
            if error is not None and self._errors == "raise" and not ordered:
                raise error
            done[number] = result if error is None else _Raised(error)
            if not ordered:
                yield number, self._result_of(done.pop(number))
            while ordered and following in done:
                yield self._result_of(done.pop(following))
                following += 1

    async def astream(self, examples: AsyncIterable[Any], lanes: int | None = None) -> AsyncIterator[tuple[int, Any]]:
        """Yield the results of examples that arrive at any time, as they are done, with their numbers: ``(3, result)``.

        Others run meanwhile: nothing waits for an example that has not arrived.

        Args:
            examples: as for :meth:`stream`.
            lanes: how many run at a time; as many as the function was batched for, or else 64.

        Raises:
            Exception: what an example raises; with ``errors="return"`` that is its result.
        """
        async for number, result, error in as_they_arrive(self.lanes(), examples, lanes or self._lanes or 64):
            yield number, self._result_of(result if error is None else _Raised(error))

    def _result_of(self, result: Any) -> Any:
        if not isinstance(result, _Raised):
            return result
        if self._errors == "return":
            return result.error
        raise result.error

    def _stream(self, examples: Iterable[tuple[int, Any]], most: int) -> Iterator[Finished]:
        lanes, waiting, is_over = self.lanes(), iter(examples), False
        while lanes.active or not is_over:
            free = most - lanes.active
            if not is_over and (free >= max(1, most // 8)):
                entering = list(itertools.islice(waiting, free))
                is_over = len(entering) < free
                yield from lanes.admit(entering)
            yield from lanes.step()

    def lanes(self) -> Lanes:
        """Return what runs examples that enter and leave at any time."""
        return Lanes(self._call, self._report)

    def _call(self, example: tuple[tuple[Any, ...], dict[str, Any]]) -> Call:
        call = self._prepared(example)
        if call.prepared.program.effects:
            effect = call.prepared.program.effects[0]
            raise BatchError(
                f"{call.prepared.program.origin}: {call.prepared.program.name} changes {effect.target}; examples that come and go "
                "have no state: return what it writes instead"
            )

        def results(outputs: list[Any], count: int) -> list[Any]:
            return self._each(self._result(call, outputs, np.arange(count)), count)

        return Call(call.program, call.plan, call.prepared.inputs, call.prepared.program.block, results)


@dataclasses.dataclass(frozen=True)
class _Raised:
    error: Exception


def _is_same_for_all(part: Structure) -> bool:
    """Tell whether a part of a result is the same for all examples, so that a value in it may stand for those of all."""
    if isinstance(part, TupleOf):
        return part.factory is None or hasattr(part.factory, "_fields")
    return isinstance(part, (Leaf, Const, ListOf, DictOf))


@dataclasses.dataclass(frozen=True)
class _Call:
    prepared: Prepared
    plan: Plan
    program: Program
    firsts: dict[int, tuple[str, Any]]


def _parts(first: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors and tuples in a value of the first example, with those of all examples."""
    if isinstance(first, (torch.Tensor, tuple)):
        yield first, value
    if isinstance(first, tuple) and isinstance(value, tuple):
        for one, all_ in zip(first, value):
            yield from _parts(one, all_)


def _differs_inside(value: Any) -> bool:
    return any(map(_differs_inside, value)) if type(value) is tuple else differs(value)


@dataclasses.dataclass(frozen=True)
class _OneByOne:
    """The results of the examples, where their structures may differ."""

    items: list[Any]


def _are_apart(values: Sequence[Any]) -> bool:
    """Tell whether no two tensors share memory, for what is known of them."""
    seen: set[int] = set()
    for value in values:
        if isinstance(value, torch.Tensor):
            if not is_plain(value) or value.untyped_storage().data_ptr() in seen:
                return False
            seen.add(value.untyped_storage().data_ptr())
    return True


def _failed(errors: dict[int, Exception], results: list[Any]) -> ExampleErrors:
    numbers = ", ".join(map(str, sorted(errors)[:8])) + (", ..." if len(errors) > 8 else "")
    error = ExampleErrors(
        f"{len(errors)} of {len(results)} examples raise: {numbers}", [errors[number] for number in sorted(errors)]
    )
    error.by_example, error.results = errors, results
    return error


def _lanes(structure: Structure, outputs: Sequence[Any], count: int) -> Iterator[list[Any]]:
    used = {part.index for part in walk(structure) if isinstance(part, Leaf)}
    columns = [items_of(value, count) if position in used else [None] * count for position, value in enumerate(outputs)]
    return (list(lane) for lane in zip(*columns))


def each(value: Any, count: int) -> list[Any]:
    """Return the result of each example, from a structure with values of registers in it."""
    if differs(value):
        return items_of(value, count)
    if type(value) is dict:
        columns = {key: each(part, count) for key, part in value.items()}
        return [{key: column[at] for key, column in columns.items()} for at in range(count)]
    if type(value) is list or isinstance(value, tuple):
        parts = [each(part, count) for part in value]
        make = list if type(value) is list else tuple if not hasattr(value, "_fields") else lambda items: type(value)(*items)
        return [make([part[at] for part in parts]) for at in range(count)]
    return [value] * count
