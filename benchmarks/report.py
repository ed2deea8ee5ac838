"""What was measured, as text and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Row


def seconds_text(seconds: float) -> str:
    """Return three digits with a unit."""
    unit, scale = ("s ", 1.0) if seconds >= 1 else ("ms", 1e-3) if seconds >= 1e-3 else ("µs", 1e-6)
    return f"{seconds / scale:.3g} {unit}"


def line(row: Row) -> str:
    """Return one row of the table in full."""
    start = f"{row.workload:<18} {row.peer:<15}"
    if row.failure is not None:
        return f"{start} {row.failure[:90]}"
    time, first = seconds_text(row.median), seconds_text(row.first)
    text = f"{start} {time:>9} ± {row.spread:5.1%}   {row.ratio or 0:6.2f} x (best {row.best_ratio or 0:.2f})   first {first:>9}"
    if row.overhead and row.peer != "eager":
        text += f"   above eager {1e6 * above_eager(row):+.1f} µs"
    return text


def above_eager(row: Row) -> float:
    """Seconds for a step above eager's."""
    eager = sorted(row.eager)
    return row.median - eager[len(eager) // 2]


def matrix(rows: Sequence[Row]) -> str:
    """Workloads x peers: how many times faster than eager each is."""
    peers = list(dict.fromkeys(row.peer for row in rows if row.peer != "eager"))
    results = {(row.workload, row.peer): row for row in rows}
    lines = ["".join([f"{'times eager':<18}", f"{'eager':>10}", *(f"{peer:>15}" for peer in peers)])]
    for workload in dict.fromkeys(row.workload for row in rows):
        eager = results[workload, "eager"]
        cells = [f"{workload:<18}", f"{seconds_text(eager.median) if eager.samples else 'failed':>10}"]
        cells += [f"{_cell(results.get((workload, peer))):>15}" for peer in peers]
        lines.append("".join(cells))
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.failure is not None:
        return "wrong" if row.failure.startswith("wrong") else "-" if "by hand" in row.failure else "refused"
    return f"{1e6 * above_eager(row):+.1f} µs" if row.overhead else f"{row.ratio:.2f}"


def environment(threads: int) -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "machine": _processor(),
        "threads": threads,
    }


def _processor() -> str:
    try:
        results = [text for text in Path("/proc/cpuinfo").read_text().splitlines() if text.startswith("model name")]
    except OSError:
        results = []
    return results[0].partition(":")[2].strip() if results else platform.processor()


def write_json(path: Path, rows: Sequence[Row], threads: int) -> None:
    """Write everything, for a plot or a later comparison."""
    content = {
        "environment": environment(threads),
        "rows": [
            {
                "workload": row.workload,
                "peer": row.peer,
                "first": row.first,
                "median": row.median if row.samples else None,
                "spread": row.spread if row.samples else None,
                "ratio": row.ratio,
                "best_ratio": row.best_ratio,
                "samples": row.samples,
                "failure": row.failure,
                "overhead": row.overhead,
            }
            for row in rows
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
