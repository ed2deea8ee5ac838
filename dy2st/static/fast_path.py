"""The fast path of a call to its program, once a call like it has gone the slow one.

A route is a function that recognises the call (:mod:`dy2st.static.matching`), the runner of the program, and a function that
puts the result together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from dy2st import logs
from dy2st.capture import on_raise
from dy2st.capture.attributes.tensor_attributes import Marks
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.sources import fetch
from dy2st.capture.outputs.captured import Captured
from dy2st.errors import IslandError
from dy2st.static.cache import Entry
from dy2st.static.calls.call import Call
from dy2st.static.calls.signature import CallSignature
from dy2st.static.matching.arguments import CallShape
from dy2st.static.matching.code import NotInline, Writer
from dy2st.static.matching.match import Match, match_function
from dy2st_runtime.executors import Runner
from dy2st_runtime.executors.python.code import tuple_text
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Structure, TupleOf
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.primitives.cells import closing, owners


class Route:
    """The fast path to one program.

    Args:
        entry: the program in the cache.
        match: recognises the calls it serves.
        run: runs the program.

    Attributes:
        build: makes the result of the program's outputs.
    """

    __slots__ = ("build", "entry", "match", "run")

    def __init__(self, entry: Entry, match: Match, run: Runner) -> None:
        self.entry, self.match, self.run = entry, match, run
        self.build = result_builder(entry.captured.program.out_structure)

    def follow(self, inputs: list[Any], values: list[Any] | None) -> Any:
        """Run the program for a call that :attr:`match` recognised."""
        if values is None:
            return self.build(self.run(inputs))
        return run_and_write(self.entry.captured, self.run, inputs, values)


def run_and_write(
    captured: Captured, run: Runner, inputs: Sequence[Any], values: Sequence[Any], arguments: Sequence[Any] = ()
) -> Any:
    """Run a program, write what it leaves outside, also where it raises, and put the result together.

    Args:
        captured: the program.
        run: runs it.
        inputs: of the program.
        values: of its sources.
        arguments: what the sources start from.

    Raises:
        IslandError: Python that the program calls has changed what the program has read.
    """
    on_raise.begin()
    try:
        outputs: Sequence[Any] = run(inputs)
    except BaseException:
        with CAPTURE_LOCK.writing():
            has_left = on_raise.write(values)
        if captured.program.effects and not has_left:
            on_raise.miss()
        raise
    if len(captured.late):
        _check_late(captured, arguments)
    written = captured.outside
    result = written.known(values)
    if written.effects:
        with CAPTURE_LOCK.writing():
            outputs = written.write(values, outputs, result)
    return unflatten(captured.program.out_structure, outputs, result)


def _check_late(captured: Captured, arguments: Sequence[Any]) -> None:
    broken = captured.late.failure(fetch(captured.sources, arguments))
    if broken is not None:
        raise IslandError(
            f"Python that {captured.program.name} calls has changed {broken.source.name}, and what the program does after the call "
            f"relies on it ({broken.expected}); read it in the function that changes it, and give it back"
        )


def _without_classes(run: Runner) -> Runner:
    def run_without_classes(inputs: Sequence[Any]) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return run(inputs)

    return run_without_classes


def with_marks(run: Runner, marks: Mapping[int, Marks], has_classes: bool) -> Runner:
    """Return a runner that gives parameters and attributes of tensors as well: a program makes plain tensors.

    Args:
        run: runs the program.
        marks: for the outputs that have some, by position.
        has_classes: whether tensors of it are of classes of the user's: what these say of operations is in the program.
    """
    if has_classes:
        run = _without_classes(run)
    if not marks:
        return run

    def run_with_marks(inputs: Sequence[Any]) -> Any:
        outputs = run(inputs)
        for position, known in marks.items():
            if outputs[position] is not None:  # it is there on some ways only
                known.put_on(outputs[position])
        return outputs

    return run_with_marks


_CLOSING = threading.RLock()
"""Held by a program that changes objects from outside, which have cells as long as it runs."""


def prepared(run: Runner, captured: Captured) -> Runner:
    """Return a runner that does for a program what no operation of it does."""
    return with_cells(with_marks(run, captured.marks, captured.has_classes), captured)


def with_cells(run: Runner, captured: Captured) -> Runner:
    """Return a runner that lets the program give objects which it changes cells, and takes these away afterwards."""
    if not captured.takes_cells:
        return run
    known: Callable[[], AbstractContextManager[None]] = owners if captured.asks_owners else nullcontext

    def run_with_cells(inputs: Sequence[Any]) -> Any:
        with _CLOSING, known(), closing():
            return run(inputs)

    return run_with_cells


def find(signature: CallSignature, call: Call, entry: Entry, call_shape: CallShape, bound: bool, run: Runner) -> Route | None:
    """Return the route for calls like one that an entry of the cache serves; ``None`` where there is only the slow path.

    Args:
        signature: of the user's function.
        call: that call.
        entry: the program.
        call_shape: how the arguments were given.
        bound: whether the function is bound to an object, which comes first.
        run: runs the program.
    """
    if entry.captured.guards.once or len(entry.captured.late):
        return None
    try:
        return Route(entry, match_function(signature, call, entry.captured, call_shape, bound), run)
    except (NotInline, NotImplementedError):
        return None


def result_builder(structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """Return a function that does what :func:`unflatten` does with one structure, without looking at it again.

    Example:
        >>> result_builder(TupleOf((Leaf(1), Const(3))))(["a", "b"])
        ('b', 3)
    """
    out = Writer("def build(o):")
    try:
        out.line(f"return {_expression(structure, out)}", 1)
    except NotInline:
        return lambda outputs: unflatten(structure, outputs)
    return out.compiled("build", f"<result {id(structure):x}>")


def _expression(structure: Structure, out: Writer) -> str:
    match structure:
        case Leaf(index):
            return f"o[{index}]"
        case Const(value):
            return out.constant(value)
        case TupleOf(items, None):
            parts = [_expression(item, out) for item in items]
            return f"(*[{', '.join(parts)}],)" if _is_folded(structure) else tuple_text(parts)
        case ListOf(items):
            return f"[{', '.join(_expression(item, out) for item in items)}]"
        case DictOf(keys, items, factory) if factory is dict:
            pairs = (f"{out.constant(key)}: {_expression(item, out)}" for key, item in zip(keys, items))
            return f"{{{', '.join(pairs)}}}"
    raise NotInline("a class of its own")


def _is_folded(structure: Structure) -> bool:
    """Tell whether Python would make one tuple when the code is compiled, and not one at each call."""
    return isinstance(structure, TupleOf) and all(isinstance(item, Const) or _is_folded(item) for item in structure.items)


def timed(run: Runner, name: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program and tell how long it took."""
    start = time.perf_counter()
    outputs = run(inputs)
    logs.execution.debug("%s: %.3f ms", name, 1e3 * (time.perf_counter() - start))
    return outputs
