"""The compiled backend: straight parts of a program through AOTAutograd and Inductor, the native executor between them.

A program without control flow is one region, compiled whole. One with control flow goes whole in calls without gradients, where it
is a computation of tensors and nothing else (:mod:`.inductor_whole`). Otherwise every block is split into regions
(:mod:`dy2st_runtime.passes.regions`), so a loop stays a loop: what is compiled is its body, once, for any number of iterations.
Regions compile at their first run. What Inductor cannot take runs operation by operation, with a warning that names the line.

Compiled code rounds as it likes: several operations in one kernel give results that differ from eager's in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.analyses.fusable import Kind, kind_of, writes
from dy2st_runtime.analyses.gradient_flow import GradientFlow
from dy2st_runtime.analyses.repetition import PIECE
from dy2st_runtime.call.tracebacks import tell
from dy2st_runtime.executors import native, python
from dy2st_runtime.executors.inductor.compile import Compiled
from dy2st_runtime.executors.inductor.regions import Progress, Region
from dy2st_runtime.executors.inductor.whole_program import Quick, Whole
from dy2st_runtime.executors.native import build
from dy2st_runtime.executors.plain_values import PLAIN
from dy2st_runtime.ir.program import Location, Program
from dy2st_runtime.passes.counted_loops import write_out_iterations
from dy2st_runtime.passes.regions import SLOW_ON_CPU, split_regions
from dy2st_runtime.passes.regions.outlining import Part

Runs = Callable[[Sequence[Any]], tuple[Any, ...]]

UNROLL_FACTOR = 8
"""How many iterations of a counted loop are compiled together, at most: what a call of a region costs, they share."""


def runner(program: Program) -> Runs:
    """Return what runs a program with Inductor; see :data:`dy2st_runtime.executors.BACKENDS`."""
    return InductorRunner(program)


class InductorRunner:
    """Runs one program.

    Attributes:
        wholes: for each kind of tensors that came in, the program as one compiled function, where it can be one.
        compiled: the same with its regions.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.compiled: dict[Any, _Split] = {}
        self.wholes: dict[Any, Whole] = {}
        self._progress = Progress(program.name)
        self._quick: Quick | None = None

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        observed = _is_observed()
        if self._quick is not None and not observed and (quickly := self._quick.run(values)) is not None:
            return quickly
        key = _kinds(values)
        if key is None or observed:
            return python.run(self._program, values)
        whole = self.wholes.get(key) or self.wholes.setdefault(key, Whole(self._program, self._progress))
        result = whole.run(values)
        if result is not None:
            self._quick = self._quick or whole.quick(values)
            return result
        split = self.compiled.get(key) or self.compiled.setdefault(key, _Split(self._program, self._progress, _apart(values)))
        return split.run(values)

    def report(self) -> str:
        """Return which way the program goes, and why."""
        return "\n".join(dict.fromkeys(line for whole in self.wholes.values() if (line := whole.report())))

    @property
    def regions(self) -> list[Region]:
        """All regions of the program, for each kind of tensors."""
        return [region for split in self.compiled.values() for region in split.regions]

    @property
    def uncompiled(self) -> list[tuple[Location | None, str]]:
        """Where regions start that Inductor did not take, and the reason."""
        return [(region.location, region.failure) for region in self.regions if region.failure is not None]


class _Split:
    """A program with regions, for one kind of tensors.

    Args:
        program: any program.
        progress: told when a region compiles.
        apart: the operators that stay outside of regions.
    """

    def __init__(self, program: Program, progress: Progress, apart: frozenset[str]) -> None:
        self.regions: list[Region] = []
        program = write_out_iterations(program, UNROLL_FACTOR, PIECE)  # a copy: notes are made on its nodes
        self._flow = GradientFlow(program)
        self._unstable = any(writes(node) and kind_of(node) is not Kind.STATISTICS for node in program.nodes())
        self._progress = progress
        self._name = program.name
        self._pools: dict[str, list[Compiled]] = {}
        self.program = split_regions(program, self._region, apart=apart)
        library = build.library()
        lines = {region.uncompiled.file: region.uncompiled.lines for region in self.regions}
        self.run: Runs = self._run_in_python if library is None else native.runner_in(library, self.program, lines)

    def _region(self, part: Part) -> Region:
        forecast = [any(map(self._flow.may, values)) for values in zip(*part.places)]
        pool = self._pools.setdefault(part.text, [])
        region = Region(part, self._name, forecast, self._unstable, self._progress, pool)
        self.regions.append(region)
        return region

    def _run_in_python(self, values: Sequence[Any]) -> tuple[Any, ...]:
        grad_enabled = torch.is_grad_enabled()
        open_autocasts: list[Any] = []
        try:
            return python.prepared(self.program).function(open_autocasts, *values)
        except BaseException as error:
            torch._C._set_grad_enabled(grad_enabled)
            for mode in reversed(open_autocasts):
                torch.amp.autocast_mode._exit_autocast(mode)
            tell(error, self._line_of, self._run_in_python.__code__)
            raise

    def _line_of(self, step: Any) -> Any:
        result = python.prepared(self.program).line_of(step)
        return result or next((line for region in self.regions if (line := region.uncompiled.line_of(step))), None)


def _kinds(values: Sequence[Any]) -> Any:
    """Return what compiled code takes for granted about tensors, besides sizes; ``None`` when one of them is no plain tensor."""
    results = []
    for value in values:
        if type(value) in PLAIN:
            results.append((value.dtype, torch._C._dispatch_keys(value).raw_repr(), value.get_device()))
        elif isinstance(value, torch.Tensor):
            return None
    return tuple(results)


def _apart(values: Sequence[Any]) -> frozenset[str]:
    on_cpu = all(value.is_cpu for value in values if isinstance(value, torch.Tensor))
    return SLOW_ON_CPU if on_cpu else frozenset()


def _is_observed() -> bool:
    """Tell whether somebody wants to see every operation: a dispatch mode, a transform of ``torch.func``."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None
