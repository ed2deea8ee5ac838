"""What became of each control-flow statement."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from dy2st.capture.outputs.captured import Captured
from dy2st.capture.session.regions import Site
from dy2st.static.fallback import EagerCalls
from dy2st_runtime.executors.native import left_to_python
from dy2st_runtime.ir.program import Location
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.islands import Island


@dataclasses.dataclass(frozen=True)
class IslandCalls:
    """A function that a program calls as Python.

    Attributes:
        name: of the function.
        place: where the user's code calls it, as ``file:line``.
        reason: why it is not a part of the program.
        calls: how often programs have called it there.
    """

    name: str
    place: str
    reason: str
    calls: int


@dataclasses.dataclass(frozen=True)
class Report:
    """The control-flow sites of a static function.

    Attributes:
        name: the function.
        programs: how many programs it has.
        sites: one for each statement and outcome.
        in_python: operators that the native executor calls by way of Python, each with its line.
        eager: with ``full_graph=False``, the calls that ran as the function is written, by reason.
        uncompiled: what a compiling backend runs operation by operation: the line where it starts, and the reason.
        runs: what the executors say about the programs: which parts they took, and why not others.
        islands: the functions that the programs call as Python, by the line that calls them.
    """

    name: str
    programs: int
    sites: tuple[Site, ...]
    eager: tuple[EagerCalls, ...] = ()
    in_python: tuple[tuple[str, Location | None], ...] = ()
    uncompiled: tuple[tuple[Location | None, str], ...] = ()
    runs: tuple[str, ...] = ()
    islands: tuple[IslandCalls, ...] = ()

    @classmethod
    def of(cls, name: str, programs: Sequence[Captured], eager: tuple[EagerCalls, ...] = ()) -> Report:
        """Return the report on some programs."""
        sites = dict.fromkeys(site for captured in programs for site in captured.sites)
        operators = dict.fromkeys(match for captured in programs for match in left_to_python(captured.program))
        runners = [runner for captured in programs for runner in captured.program.block.runners.values()]
        uncompiled = dict.fromkeys(part for runner in runners for part in getattr(runner, "uncompiled", ()))
        runs = [line for runner in runners if hasattr(runner, "report") for line in runner.report().splitlines()]
        return cls(name, len(programs), tuple(sites), eager, tuple(operators), tuple(uncompiled), tuple(runs), _islands(programs))

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.programs} programs, {len(self.sites)} control-flow sites"]
        for site in self.sites:
            where = f"{os.path.basename(site.location.file)}:{site.location.line}"
            lines.append(f"  {where:<24} {site.construct:<8} {site.outcome:<13} {site.reason}")
        for operator, location in self.in_python:
            where = "" if location is None else f"{os.path.basename(location.file)}:{location.line}"
            lines.append(f"  {where:<24} {operator}: has no native form, Python calls it")
        for island in self.islands:
            lines.append(f"  {island.place:<24} {island.name} runs as Python, called {island.calls} times: {island.reason}")
        for refused in self.eager:
            lines.append("\n    ".join(f"  {refused.calls} calls ran as written: {refused.reason}".split("\n")))
        for location, reason in self.uncompiled:
            where = "" if location is None else f"{os.path.basename(location.file)}:{location.line}"
            lines.append(f"  {where:<24} a part from here on runs uncompiled: {reason}")
        return "\n".join([*lines, *(f"  {line}" for line in self.runs)])


def _islands(programs: Sequence[Captured]) -> tuple[IslandCalls, ...]:
    counts: dict[tuple[str, str, str], int] = {}
    for captured in programs:
        for node in captured.program.nodes():
            if node.target is control.call_ and isinstance(island := node.args[0], Island):
                key = (island.__qualname__, island.place, island.reason)
                counts[key] = counts.get(key, 0) + island.calls
    return tuple(IslandCalls(*key, calls) for key, calls in counts.items())
