"""A whole program with branches and loops as one compiled function, for calls that want no gradients.

What ``torch.cond`` and ``while_loop`` express is lowered to them (:mod:`.whole`) and compiled by Inductor with its control flow;
then nothing of Python or of the native executor runs between its parts. Everything else goes region by region.

What eager would do and the compiled function does not is found out afterwards: the numbers of
:mod:`dy2st_runtime.analyses.provenance` say which results are arguments, or nothing, and a false assertion makes the regions run
the call again: nothing was changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.analyses.purely_functional import STRAIGHT, FunctionalProgram, NotFunctionalError, to_functional
from dy2st_runtime.errors import BackendError
from dy2st_runtime.executors import whole
from dy2st_runtime.executors.inductor import compile as inductor_compile
from dy2st_runtime.executors.inductor.compile import Compiled, compile_region
from dy2st_runtime.executors.inductor.regions import MAX_VARIANTS, Progress, Variant, first_line
from dy2st_runtime.ir.program import InputSlot, Program, StateSlot
from dy2st_runtime.passes.jump_threading import thread_jumps

CHOICES = ("whole", "regions")
"""What the environment variable ``DY2ST_INDUCTOR`` may say."""


class Whole:
    """A program that runs as one compiled function where it can.

    Args:
        program: any program.
        progress: told when it starts and ends to compile.

    Attributes:
        reason: why it runs region by region; ``None`` while it does not.
        entry: takes the values of the inputs, gives what the compiled function gives; ``None`` where it does not fit.
    """

    writes: tuple[int, ...] = ()
    read: Sequence[int] = ()
    unstable = False

    def __init__(self, program: Program, progress: Progress) -> None:
        self._name, self._progress = program.name, progress
        self.variants: list[Variant] = []
        self.reason: str | None = None
        self._functional: FunctionalProgram | None = None
        self._is_static = not any(isinstance(size, str) for slot in _slots(program) for size in slot.shape)
        self.tensors = [slot.dtype is not None for slot in _slots(program)]
        self.entry: Callable[..., Any] = self.select
        try:
            self._functional = _to_functional(_asked(program))
        except NotFunctionalError as error:
            self._refuse(str(error))

    def run(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the values of the outputs; ``None`` if the regions have to run."""
        if self._functional is None:
            return None
        result = self.entry(*values)
        return None if result is None else self._functional.results(values, result)

    def quick(self, values: Sequence[Any]) -> Quick | None:
        """Return what runs calls that are like this one in everything; ``None`` where sizes may differ."""
        if self._functional is None or not self._is_static:
            return None
        fitting = next((variant for variant in self.variants if variant.fits(*values)), None)
        return None if fitting is None else Quick(self._functional, fitting.compiled.forward, values)

    def _dynamic(self) -> list[frozenset[int]]:
        assert self._functional is not None, "it was compiled"
        slots = _slots(self._functional.program)
        return [frozenset(dim for dim, size in enumerate(slot.shape) if isinstance(size, str)) for slot in slots]

    def replay(self, *args: Any) -> Sequence[Any]:
        """Not asked for: there are no gradients."""
        raise AssertionError

    def select(self, *values: Any) -> Any:
        """Find the variant for the values, or make it."""
        if self._functional is None or not _fits(values):
            return None
        with inductor_compile.lock:
            variant = next((variant for variant in self.variants if variant.fits(*values)), None) or self._make(values)
            if variant is None:
                return None
            self.entry = variant.entry
        return variant.run(*values)

    def _make(self, values: Sequence[Any]) -> Variant | None:
        if self.reason is not None:
            return None
        if len(self.variants) >= MAX_VARIANTS:
            self.reason = f"its arguments came in more than {MAX_VARIANTS} kinds; the others go region by region"
            return None
        try:
            with self._progress:
                compiled = self._compile(values)
        except Exception as error:  # whatever fails, the regions do without
            self._refuse(first_line(error))
            return None
        self.variants.insert(0, Variant(self, compiled))
        return self.variants[0]

    def _compile(self, values: Sequence[Any]) -> Compiled:
        lower = whole.provided()
        assert self._functional is not None and lower is not None, "see _asked"
        with inductor_compile.lock, torch.inference_mode(False):
            program = self._functional.program
            graph = lower(program, [_example(value) for value in values])
            return compile_region(graph, values, self._dynamic(), [False] * len(values))

    def _refuse(self, reason: str) -> None:
        """Leave everything from now on to the regions."""
        self.reason = reason
        if not self.variants:
            self._functional, self.entry = None, _nothing

    def report(self) -> str:
        """Return which way the program goes."""
        if self.reason == STRAIGHT:
            return f"{self._name}: compiled whole: {STRAIGHT}"
        if self.reason is not None:
            return f"{self._name}: region by region: {self.reason}"
        return f"{self._name}: compiled whole, with its branches and loops, for calls without gradients" if self.variants else ""


def _to_functional(program: Program) -> FunctionalProgram:
    """Return the program for the compiler; without the questions that earlier branches have answered, where that helps."""
    try:
        return to_functional(thread_jumps(program))
    except NotFunctionalError:
        return to_functional(program)


def _slots(program: Program) -> list[InputSlot | StateSlot]:
    return [*program.inputs, *program.states]


class Quick:
    """Runs a whole program after one look at its arguments, which C++ takes at all of them together.

    Args:
        functional: the program.
        forward: compiled from it.
        values: of a call for which that was right.
    """

    def __init__(self, functional: FunctionalProgram, forward: Callable[[list[Any]], Sequence[Any]], values: Sequence[Any]) -> None:
        from torch._C._dynamo.guards import TensorGuards

        sizes: Any = [list(value.shape) for value in values]
        strides: Any = [list(value.stride()) for value in values]
        self._fits = TensorGuards(*values, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        self._results, self._forward = functional.results, forward
        self._grad = torch.is_grad_enabled()

    def run(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the values of the outputs; ``None`` if the call is another one."""
        if torch.is_grad_enabled() is not self._grad or torch._C._is_any_autocast_enabled() or not self._fits(*values):
            return None
        return self._results(values, self._forward(list(values)))


def _nothing(*values: Any) -> None:
    return None


def _asked(program: Program) -> Program:
    """Return the program, if it is worth a try.

    Raises:
        NotFunctionalError: it is not.
        BackendError: the environment asks for something that there is not.
    """
    choice = os.environ.get("DY2ST_INDUCTOR") or "whole"
    if choice not in CHOICES:
        known = ", ".join(map(repr, CHOICES))
        raise BackendError(f"DY2ST_INDUCTOR, an environment variable, says {choice!r}; choose one of {known}")
    if choice == "regions":
        raise NotFunctionalError("DY2ST_INDUCTOR says so")
    if whole.provided() is None:
        raise NotFunctionalError("what lowers whole programs comes with dy2st, which is not imported")
    return program


def _fits(values: Sequence[Any]) -> bool:
    """Tell whether compiled code may run at all."""
    if torch._C._is_any_autocast_enabled():
        return False
    gradients = torch.is_grad_enabled()
    return all(
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and value.numel() > 0
        and not (gradients and value.requires_grad)
        for value in values
    )


def _example(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value
