"""What a saved model leaves on its module when a call of it raises: what was written until then, as in eager.

A program writes at its end, so that nothing is written when it raises. Its recording does the same, and keeps what would have to
be written before each operation that may raise. It runs where the program has failed; and in its place, where a second run
would not do what the first one did.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, keeps
from dy2st_runtime.arrays import calls
from dy2st_runtime.ir.program import Effect, ObjectPlace, Program
from dy2st_runtime.primitives import control

_local = threading.local()


@dataclasses.dataclass(frozen=True)
class Leave:
    """What a program calls to keep what it has written until now.

    Attributes:
        effects: what is written, in terms of what it is called with.
        existing: as in :class:`~dy2st_runtime.ir.program.Program`.
    """

    __name__: ClassVar[str] = "leave"
    only_keeps: ClassVar[bool] = True
    effects: tuple[Effect, ...]
    existing: tuple[tuple[int, ObjectPlace], ...] = ()

    def __call__(self, *outputs: Any) -> None:
        _local.kept = self, outputs


def begin() -> None:
    """Note that a program starts to run."""
    _local.kept = None


def taken() -> tuple[Leave, tuple[Any, ...]] | None:
    """Return what the program has kept last, with what that is made of; nothing is kept any more."""
    kept: tuple[Leave, tuple[Any, ...]] | None = getattr(_local, "kept", None)
    _local.kept = None
    return kept


def nodes(program: Program) -> Iterator[fx.Node]:
    """Return the operations of a program, nested ones included, that keep something."""
    called = (node for block in program.blocks() for node in block.graph.find_nodes(op="call_function", target=control.call_))
    return (node for node in called if isinstance(node.args[0], Leave))


def with_recordings(programs: Iterable[Program]) -> Iterator[Program]:
    """Yield programs, each with its recording after it."""
    for program in programs:
        yield program
        if program.recording is not None:
            yield program.recording


def writing(programs: Iterable[Program]) -> Iterator[Program]:
    """Yield programs with their recordings, and one for each place where these leave something early, which writes that."""
    for program in with_recordings(programs):
        yield program
        yield from (written(program, node.args[0]) for node in nodes(program))  # type: ignore[arg-type]  # a Leave


def written(program: Program, leave: Leave) -> Program:
    """Return a program that writes what it leaves early, and no more."""
    return dataclasses.replace(program, effects=leave.effects, existing=leave.existing, distinct=())


_COMPUTING = (calls.call, calls.memory)
"""Operators of ours that only compute."""


def is_repeatable(program: Program) -> bool:
    """Tell whether a program that has failed does the same again: it has changed no tensor of the caller's and talked to nobody."""
    if any(_acts(node) for node in program.nodes()):
        return False
    aliasing = Aliasing(program.block)
    return not any(aliasing.is_written(value) for value in program.block.inputs)


def _acts(node: fx.Node) -> bool:
    if node.target in _COMPUTING:
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags or node.target.namespace not in ("aten", "prims")
    return node.target in (control.print_, control.apply_) or (node.target is control.call_ and not keeps(node))
