"""What runs one region of a program: compiled at its first call, for the kind of arguments that came.

A region has variants: with gradients or without, and for each combination of what torch takes for granted about sizes (a size
of 1 is not like others). The last one used is tried first; its check is a few comparisons. What no variant fits is compiled, and
what cannot be compiled runs operation by operation.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import fx

from dy2st_runtime.analyses.fusable import dims_of
from dy2st_runtime.executors import python
from dy2st_runtime.executors.inductor import compile as inductor_compile
from dy2st_runtime.executors.inductor.autograd import step_of
from dy2st_runtime.executors.inductor.compile import CannotCompile, Compiled, autocast_state, compile_region
from dy2st_runtime.ir.program import Block, Location, Program
from dy2st_runtime.ir.structure import Const
from dy2st_runtime.passes.regions.outlining import Part

MAX_VARIANTS = 8
"""How often one region is compiled before it stays uncompiled for what does not fit."""

Function = Callable[..., Sequence[Any]]


class Region:
    """A region; call it with the values of its inputs.

    Args:
        part: what it computes.
        name: of the program, for messages.
        requires_grad: for each input, whether it may require a gradient, as far as the program tells.
        unstable: whether the program changes tensors in place.
        progress: told when it starts and ends to compile.
        pool: what was compiled for regions that are the same.
    """

    def __init__(
        self,
        part: Part,
        name: str,
        requires_grad: Sequence[bool],
        unstable: bool,
        progress: Progress,
        pool: list[Compiled],
    ) -> None:
        self.__name__ = self.__qualname__ = "region"
        self.location = part.location
        self.failure: str | None = None
        self.variants: list[Variant] = []
        self._graph, self._name, self._progress = part.graph, name, progress
        self.writes, self.unstable, self._pool = part.writes, unstable, pool
        inputs = list(part.graph.find_nodes(op="placeholder"))
        self._hoped = list(requires_grad)
        self._dynamic = [_dynamic_dims(node) for node in inputs]
        self.tensors = [dims_of(node) is not None for node in inputs]
        self.read: Sequence[int] = [index for index, is_tensor in enumerate(self.tensors) if is_tensor and index not in part.writes]
        self._seen: list[tuple[int, ...]] | None = None
        self.uncompiled = python.Compiled(_as_program(part.graph, name, part.location))
        self.entry: Function = self.select

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self.entry(*args)

    def plainly(self, *args: Any) -> Sequence[Any]:
        """Run it operation by operation."""
        return self.uncompiled.function([], *args)

    def replay(self, *args: Any) -> Sequence[Any]:
        """Run it once more operation by operation, for its gradient: what it changes was changed already."""
        return self.plainly(*[value.clone() if index in self.writes else value for index, value in enumerate(args)])

    def select(self, *args: Any) -> Sequence[Any]:
        """Find the variant for the arguments, or make it."""
        if not self._fits_plain(args):
            return self.plainly(*args)
        with inductor_compile.lock:
            variant = self._find(args) or self._make(args)
            if variant is None:
                return self.plainly(*args)
            self.entry = variant.entry
        return variant.run(*args)

    def _fits_plain(self, args: Sequence[Any]) -> bool:
        """Tell whether compiled code may run at all: nothing is empty, and what is changed shares no memory."""
        for index in self.writes:
            own = args[index].untyped_storage().data_ptr()
            others = [value for position, value in enumerate(args) if position != index and isinstance(value, torch.Tensor)]
            if any(value.untyped_storage().data_ptr() == own for value in others):
                return False
        return not any(isinstance(value, torch.Tensor) and value.numel() == 0 for value in args)

    def _find(self, args: Sequence[Any]) -> Variant | None:
        known = {id(variant.compiled) for variant in self.variants}
        self.variants += [Variant(self, compiled) for compiled in self._pool if id(compiled) not in known]
        return next((variant for variant in self.variants if variant.fits(*args)), None)

    def _make(self, args: Sequence[Any]) -> Variant | None:
        if self.failure is not None:
            return None
        if len(self.variants) >= MAX_VARIANTS:
            self._fail(f"its operands came in more than {MAX_VARIANTS} kinds; the others run uncompiled", lasting=False)
            return None
        self._learn(args)
        wanted = self._wanted(args)
        try:
            with self._progress:
                compiled = compile_region(self._graph, args, self._dynamic, wanted)
        except Exception as error:  # whatever the compiler fails with, the region runs without it
            self._fail(first_line(error))
            return None
        self._pool.append(compiled)
        variant = Variant(self, compiled)
        self.variants.insert(0, variant)
        return variant

    def _learn(self, args: Sequence[Any]) -> None:
        """Note that a size that differs from that of an earlier call is dynamic from now on."""
        now = [tuple(value.shape) if isinstance(value, torch.Tensor) else () for value in args]
        if self._seen is not None:
            for index, (old, new) in enumerate(zip(self._seen, now)):
                changed = {dim for dim, (a, b) in enumerate(zip(old, new)) if a != b}
                self._dynamic[index] = self._dynamic[index] | changed
        self._seen = now

    def _wanted(self, args: Sequence[Any]) -> list[bool]:
        """For which inputs gradients are compiled: those that require one now, and those that may at a later call."""
        now = [isinstance(value, torch.Tensor) and value.requires_grad for value in args]
        if not torch.is_grad_enabled() or not any(now):
            return [False] * len(args)
        self._hoped = [old or new for old, new in zip(self._hoped, now)]
        floats = [isinstance(value, torch.Tensor) and value.is_floating_point() for value in args]
        return [hoped and fits for hoped, fits in zip(self._hoped, floats)]

    def _fail(self, reason: str, lasting: bool = True) -> None:
        first, self.failure = self.failure is None, reason
        if lasting:
            self.entry = self.select if self.variants else self.plainly
        if first:
            warnings.warn(f"{self.location}: a part of {self._name} runs uncompiled: {reason}", stacklevel=2)


class Compilable(Protocol):
    """What is compiled for several kinds of arguments: a region, or a whole program.

    Attributes:
        tensors: for each argument, whether it is a tensor.
        writes: the positions of arguments that it changes in place.
        read: those of tensors that it does not change.
        unstable: whether tensors are changed in place around it.
    """

    tensors: list[bool]
    writes: tuple[int, ...]
    read: Sequence[int]
    unstable: bool

    def select(self, *args: Any) -> Any:
        """Return what takes arguments that do not fit."""

    def replay(self, *args: Any) -> Sequence[Any]:
        """Run it once more, for the gradient of its gradient."""


class Variant:
    """A region compiled for one kind of arguments.

    Attributes:
        compiled: what the compiler gave.
        fits: whether arguments are of that kind.
        run: runs it, for arguments that fit.
        entry: checks, and runs it or selects another variant.
    """

    def __init__(self, region: Compilable, compiled: Compiled) -> None:
        self.compiled = compiled
        training, writes = any(compiled.requires_grad), bool(region.writes)
        self.run: Function = _runner(region, compiled, training)
        names = [f"a{index}" for index in range(len(compiled.requires_grad))]
        tensors = [name for name, is_tensor in zip(names, region.tensors) if is_tensor]
        space = {
            **compiled.space,
            "run": self.run,
            "forward": compiled.forward,
            "select": region.select,
            "grad": torch.is_grad_enabled,
            "autocast": torch._C._is_any_autocast_enabled,
            "autocast_state": autocast_state,
            "autocast_then": compiled.autocast,
        }
        given = ", ".join(names)
        checks = _indented([*compiled.check_text, *_mode_checks(compiled, names, tensors, training)])
        call = f"run({given})" if training or compiled.cut or compiled.autocast is not None or writes else f"forward([{given}])"
        text = (
            f"def fits({given}):\n try:\n{checks} except AssertionError:\n  return False\n return True\n"
            f"def entry({given}):\n try:\n{checks} except AssertionError:\n  return select({given})\n return {call}\n"
        )
        exec(compile(text, "<check of a region>", "exec"), space)
        self.fits: Callable[..., bool] = space["fits"]
        self.entry: Function = region.select if writes else space["entry"]


def _mode_checks(compiled: Compiled, names: Sequence[str], tensors: Sequence[str], training: bool) -> list[str]:
    """Grad mode and autocast are as they were."""
    if compiled.cut:
        training, tensors = False, []
    yes = [f"{name}.requires_grad" for name, wanted in zip(names, compiled.requires_grad) if wanted]
    no = [f"{name}.requires_grad" for name, wanted in zip(names, compiled.requires_grad) if not wanted and name in tensors]
    lines = []
    if training:
        lines.append(f"if not (grad() and ({' or '.join(yes)})): raise AssertionError")
        lines += [f"if {' or '.join(no)}: raise AssertionError"] if no else []
    elif no:
        lines.append(f"if grad() and ({' or '.join(no)}): raise AssertionError")
    same = "autocast()" if compiled.autocast is None else "autocast_state() != autocast_then"
    return [*lines, f"if {same}: raise AssertionError"]


def _runner(region: Compilable, compiled: Compiled, training: bool) -> Function:
    if training:
        run: Function = step_of(compiled, region.replay, region.unstable, region.read)
    else:
        forward = compiled.forward

        def run(*args: Any) -> Sequence[Any]:
            with torch.no_grad():
                return forward(list(args))

    if compiled.autocast is not None:
        run = _without_autocast(run)
    return _counting_writes(run, region.writes) if region.writes else run


def _without_autocast(run: Function) -> Function:
    """Return what autocast would do is compiled in; it must not be done twice."""

    def without(*args: Any) -> Sequence[Any]:
        with torch._C._DisableAutocast():
            return run(*args)

    return without


def _counting_writes(run: Function, writes: Sequence[int]) -> Function:
    """Return generated code changes tensors without telling autograd."""

    def counting(*args: Any) -> Sequence[Any]:
        results = run(*args)
        torch.autograd.graph.increment_version([args[index] for index in writes])
        return results

    return counting


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


def _dynamic_dims(node: fx.Node) -> frozenset[int]:
    return frozenset(dim for dim, size in enumerate(dims_of(node) or ()) if not size.isdigit())


def _as_program(graph: fx.Graph, name: str, location: Location | None) -> Program:
    return Program(name, Block(graph), (), Const(None), (), Const(None), origin=location or Location("<unknown>", 0))


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    text = str(error).strip().partition("\n")[0]
    return text if isinstance(error, CannotCompile) else f"{type(error).__name__}: {text}"


class Progress:
    """Says on the standard error stream that a program is being compiled, once that has taken a second.

    Args:
        name: of the program.
    """

    def __init__(self, name: str) -> None:
        self._name, self._spent, self._told = name, 0.0, False
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()
        if self._spent > 1 and not self._told:
            self._tell()

    def __exit__(self, *exc: object) -> None:
        self._spent += time.perf_counter() - self._start
        if self._spent > 1 and not self._told:
            self._tell()

    def _tell(self) -> None:
        self._told = True
        print(f"dy2st: {self._name} is being compiled by Inductor; later runs take it from the disk", file=sys.stderr, flush=True)
