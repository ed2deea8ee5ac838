"""What a server counts, in the text format of Prometheus; the workers of a server add up what each has counted."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import glob
import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of times, in seconds."""

Labels = tuple[tuple[str, str], ...]

_HELP = {
    "dy2st_requests_total": ("counter", "Requests for inference, by their outcome."),
    "dy2st_request_seconds": ("histogram", "Time from the request to the response."),
    "dy2st_queue_seconds": ("histogram", "Time that calls wait for a thread."),
    "dy2st_compute_seconds": ("histogram", "Time that calls run."),
    "dy2st_model_loads_total": ("counter", "Times that a model was loaded, failed to load, or was unloaded."),
    "dy2st_waiting": ("gauge", "Calls that wait."),
    "dy2st_running": ("gauge", "Calls that run."),
    "dy2st_models_ready": ("gauge", "Versions of models that are loaded."),
    "dy2st_resident_bytes": ("gauge", "Memory of the process, shared pages included."),
    "dy2st_start_seconds": ("gauge", "When the process began, in seconds since 1970."),
}


@dataclasses.dataclass
class Histogram:
    """How many times were up to each bound, and their sum."""

    counts: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one time."""
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def quantile(self, part: float) -> float | None:
        """Return about the time that a part of all stays under; ``None`` where there are none.

        Example:
            >>> histogram = Histogram()
            >>> histogram.observe(0.0008)
            >>> histogram.quantile(0.5)
            0.00075
        """
        number, below = sum(self.counts) * part, 0
        for bound, lower, count in zip(BOUNDS, (0.0, *BOUNDS), self.counts):
            if count and below + count >= number:
                return lower + (bound - lower) * (number - below) / count
            below += count
        return BOUNDS[-1] if below < sum(self.counts) else None

    def add(self, other: Histogram) -> None:
        """Add what another one has counted."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts)]
        self.total += other.total


class Metrics:
    """Counters and times by name and labels; used by one thread.

    Args:
        folder: where the workers of a server leave what they have counted; ``None`` for a server of one.
        slot: the number of this worker, which goes on where one before it has ended.
    """

    def __init__(self, folder: str | None = None, slot: int = 0) -> None:
        self._folder, self._slot = folder, slot
        self.counters: dict[tuple[str, Labels], float] = {}
        self.histograms: dict[tuple[str, Labels], Histogram] = {}
        self.gauges: dict[tuple[str, Labels], float] = {}
        self._began = time.time()
        if folder is not None:
            self._add(_read(self._path(slot)), gauges=False)

    def count(self, name: str, **labels: str) -> None:
        """Add one to a counter."""
        key = name, tuple(labels.items())
        self.counters[key] = self.counters.get(key, 0) + 1

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count a time."""
        key = name, tuple(labels.items())
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = Histogram()
        found.observe(seconds)

    def set_gauges(self, values: Iterable[tuple[str, Mapping[str, str], float]]) -> None:
        """Say how much there is now, in the place of all that was said before."""
        self.gauges = {(name, tuple(labels.items())): value for name, labels, value in values}
        self.gauges["dy2st_resident_bytes", ()] = _resident()
        self.gauges["dy2st_start_seconds", ()] = self._began

    def leave(self) -> None:
        """Leave what was counted for the other workers."""
        if self._folder is None:
            return
        table = {
            "counters": [[name, labels, value] for (name, labels), value in self.counters.items()],
            "gauges": [[name, labels, value] for (name, labels), value in self.gauges.items()],
            "histograms": [[name, labels, item.counts, item.total] for (name, labels), item in self.histograms.items()],
        }
        path = self._path(self._slot)
        with contextlib.suppress(OSError):
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(table, file)
            os.replace(f"{path}.new", path)

    def together(self) -> Metrics:
        """Return the sum over all workers."""
        if self._folder is None:
            return self
        self.leave()
        result = Metrics()
        for path in sorted(glob.glob(os.path.join(glob.escape(self._folder), "metrics-*.json"))):
            result._add(_read(path), gauges=True)
        result.gauges["dy2st_start_seconds", ()] = self._began
        return result

    def text(self) -> str:
        """Return all in the text format of Prometheus."""
        lines = []
        for name, (kind, meaning) in _HELP.items():
            found = self._lines(name)
            if found:
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *found]
        return "\n".join(lines) + "\n"

    def _lines(self, name: str) -> list[str]:
        lines = []
        for (own, labels), value in (*self.counters.items(), *self.gauges.items()):
            if own == name:
                lines.append(f"{name}{_text(labels)} {value:.15g}")
        for (own, labels), item in self.histograms.items():
            below = 0
            for bound, count in zip((*BOUNDS, None), item.counts) if own == name else ():
                below += count
                lines.append(f"{name}_bucket{_text((*labels, ('le', '+Inf' if bound is None else f'{bound:g}')))} {below}")
            lines += [f"{name}_sum{_text(labels)} {item.total:.9g}", f"{name}_count{_text(labels)} {below}"] if own == name else []
        return lines

    def _path(self, slot: int) -> str:
        return os.path.join(self._folder or "", f"metrics-{slot}.json")

    def _add(self, table: dict[str, Any], gauges: bool) -> None:
        for kind, own in (("counters", self.counters), ("gauges", self.gauges)):
            for name, labels, value in table.get(kind, ()) if gauges or kind == "counters" else ():
                key = name, tuple(map(tuple, labels))
                own[key] = own.get(key, 0) + value
        for name, labels, counts, total in table.get("histograms", ()):
            self.histograms.setdefault((name, tuple(map(tuple, labels))), Histogram()).add(Histogram(counts, total))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            table: dict[str, Any] = json.load(file)
            return table
    except (OSError, ValueError):
        return {}


def _text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _resident() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return 0.0
