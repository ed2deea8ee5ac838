"""Where the time of programs goes, by line of the user's code."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import types
from typing import Any

from dy2st_runtime.errors import Dy2stError
from dy2st_runtime.executors import native
from dy2st_runtime.executors.native import build
from dy2st_runtime.executors.native.instructions import Instruction
from dy2st_runtime.ir.program import Location

_active = threading.Lock()


@dataclasses.dataclass
class Line:
    """What one line of the user's code did.

    Attributes:
        location: the line.
        operations: how many operations of it ran.
        seconds: how long they took, all together.
        entries: how often a loop in it began, and ``iterations`` how many iterations its loops made.
        then: how often a condition in it was true, and ``orelse`` how often false.
    """

    location: Location
    operations: int = 0
    seconds: float = 0.0
    entries: int = 0
    iterations: int = 0
    then: int = 0
    orelse: int = 0

    @property
    def trips(self) -> int:
        """Give ``iterations`` by its former name."""
        return self.iterations

    @property
    def control(self) -> str:
        """Its loops and branches, for people to read."""
        loops = f"{self.iterations} iterations in {self.entries} loops" if self.entries else ""
        branches = f"{self.then} true, {self.orelse} false" if self.then + self.orelse else ""
        return "; ".join(part for part in (loops, branches) if part)


class Profile:
    """A context manager that sees the programs which the native executor runs inside of it, in all threads.

    Attributes:
        lines: one entry for each line of the user's code, the slowest first; empty until the end.

    Example:
        >>> with Profile() as seen:
        ...     pass
        >>> seen.lines
        []
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Profile:
        if not _active.acquire(blocking=False):
            raise Dy2stError("a profile is being taken already: only one at a time can be")
        library = build.library()
        if library is not None:
            for running in native.running():
                running.machine.taken()
            library.count_runs(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        library = build.library()
        if library is not None:
            library.count_runs(False)
            self._collect()
        _active.release()

    def _collect(self) -> None:
        results: dict[Location, Line] = {}
        for running in native.running():
            counts, events = running.machine.taken()
            for instruction, (runs, skips, nanoseconds) in zip(running.instructions, counts):
                place = instruction.location
                if place is not None and runs:
                    _count(results.setdefault(place, Line(place)), instruction, runs, skips, nanoseconds)
            self._events += [_event(running.instructions[index], *rest) for index, *rest in events]
        self.lines = sorted(results.values(), key=lambda line: -line.seconds)

    def table(self, limit: int = 40) -> str:
        """Return the slowest lines, one a row.

        Args:
            limit: how many rows.
        """
        total = sum(line.seconds for line in self.lines) or 1.0
        rows = [("time", "share", "operations", "line", "control flow")]
        for line in self.lines[:limit]:
            place = f"{line.location.function or '<module>'} ({os.path.basename(line.location.file)}:{line.location.line})"
            share = f"{100 * line.seconds / total:.1f} %"
            rows.append((f"{1e3 * line.seconds:.3f} ms", share, str(line.operations), place, line.control))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = []
        for row in rows:
            cells = [
                cell.rjust(width) if column < 3 else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write every operation with its time to a file that ``chrome://tracing`` and Perfetto show.

        Args:
            path: the file to write.

        Raises:
            OSError: it cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": self._events, "displayTimeUnit": "ns"}, file)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Profile of {len(self.lines)} lines, {sum(line.operations for line in self.lines)} operations>"


def profile() -> Profile:
    """See where the time of programs goes.

    Returns:
        A context manager; its ``table()`` tells for each line of the user's code the time, the operations, the iterations of loops
        and the outcomes of conditions, and ``export_chrome_trace(path)`` writes a trace. Only what
        the native executor runs is in it.

    Example:
        >>> with profile() as seen:
        ...     pass
        >>> print(seen.table().split()[0])
        time
    """
    return Profile()


def _count(line: Line, instruction: Instruction, runs: int, skips: int, nanoseconds: int) -> None:
    line.seconds += nanoseconds / 1e9
    if instruction.kind != "unless":
        line.operations += runs if instruction.kind not in ("move", "jump", "return") else 0
    elif instruction.name == "loop":
        line.entries += skips
        line.iterations += runs - skips
    else:
        line.then += runs - skips
        line.orelse += skips


def _event(instruction: Instruction, start: int, nanoseconds: int, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": instruction.name or instruction.kind,
        "cat": instruction.label,
        "ts": start / 1e3,
        "dur": nanoseconds / 1e3,
        "pid": os.getpid(),
        "tid": thread,
        "args": {"line": str(instruction.location)},
    }
