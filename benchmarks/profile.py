"""Where each nanosecond of the tiny loop goes: ``python -m benchmarks.profile`` (needs Linux's ``perf`` for the parts).

The loop runs with two lengths. The difference of their times gives the nanoseconds of a trip. Then ``perf`` takes
samples of a long run, and what they hit is counted by the part of the work that the function belongs to.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import dy2st
from benchmarks.loops import tiny_loop

_SHORT, _LONG = 100, 1100
_SAMPLED = 2000
_WARM_SECONDS = 0.5

PARTS: dict[str, str] = {
    "kernels of PyTorch": r"mkl_|vml|at::native::(?!empty)|vectorized|cpublas|Sleef|DEFAULT::|AVX2::|AVX512::",
    "kernels of the executor": r"dy2st::.*(directly|compute|loop<|pointwise|read)",
    "iteration set-up": r"TensorIterator|DimCounter|infer_size|compute_types",
    "allocation": r"malloc|free|memalign|alloc_cpu|empty|StorageImpl|TensorImpl|intrusive_ptr|operator new|operator delete|DataPtr|"
    r"CPUAllocator|SizesAndStrides|VariableVersion|memset|unlink_chunk|GetAllocator|tls_debug_info|SmallVector|StorageNbytes",
    "dispatch": r"Dispatcher|c10::impl|at::_ops|KernelFunction|wrapper_CPU|DispatchKey|RedispatchKernel|tls|at::(?!native)",
    "instructions": r"dy2st::|execute",
    "Python": r"Py|python|_Py|dict|gc_collect|unicode|visit_",
}
"""The parts of the work, and the functions that belong to them; the first that fits counts."""


def _arguments(trips: int) -> tuple[Any, ...]:
    torch.manual_seed(0)
    return torch.randn(8, 8), torch.randn(8, 8), torch.tensor(trips)


def nanoseconds(run: Callable[..., Any]) -> float:
    """Return how long an iteration of the tiny loop takes.

    Args:
        run: the loop, in any form.

    Returns:
        Nanoseconds, from the best of several measurements.
    """
    return (_best(run, _LONG) - _best(run, _SHORT)) / (_LONG - _SHORT)


def _best(run: Callable[..., Any], trips: int) -> float:
    given = _arguments(trips)
    run(*given)
    results = []
    for _ in range(30):
        start = time.perf_counter_ns()
        for _ in range(5):
            run(*given)
        results.append((time.perf_counter_ns() - start) / 5)
    return min(results)


def shares(report: str) -> dict[str, float]:
    """Return how the samples of ``perf report`` fall into the parts.

    Args:
        report: lines of a percentage, an object and a symbol, with ``|`` between them.

    Returns:
        A share for each part, and for ``"other"``.
    """
    result = dict.fromkeys([*PARTS, "other"], 0.0)
    for line in report.splitlines():
        parts = [part.strip() for part in line.split("|", 2)]
        if len(parts) < 3 or not parts[0].endswith("%"):
            continue
        text = " ".join(parts[1:])
        part = next((name for name, pattern in PARTS.items() if re.search(pattern, text)), "other")
        result[part] += float(parts[0][:-1]) / 100
    return result


def _sampled(backend: str, seconds: float) -> str:
    """Return what ``perf`` says about a process that does nothing but the loop."""
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        own = [sys.executable, "-m", "benchmarks.profile", "--backend", backend, "--run", str(seconds)]
        child = subprocess.Popen(own, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()  # it is warm
        subprocess.run(["perf", "record", "-q", "-o", data, "-p", str(child.pid)], check=False, timeout=seconds + 60)
        child.wait()
        report = ["perf", "report", "-i", data, "--stdio", "-q", "--no-children", "--sort", "dso,symbol", "-t", "|"]
        return subprocess.run(report, check=True, capture_output=True, text=True).stdout


def _run(function: Callable[..., Any], seconds: float) -> None:
    given = _arguments(_SAMPLED)
    end = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < end:
        function(*given)
    print("warm", flush=True)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        function(*given)
    os._exit(0)  # what Python does at its end is no part of it


def main(arguments: list[str] | None = None) -> int:
    """Measure and print.

    Args:
        arguments: of the command line; see ``--help``.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description="The parts of an iteration of the tiny loop.")
    parser.add_argument("--backend", default="native", help="a backend of dy2st, or eager (native)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long perf takes samples (5)")
    parser.add_argument("--run", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    function = tiny_loop if options.backend == "eager" else dy2st.to_static(tiny_loop, backend=options.backend)
    with torch.no_grad():
        if options.run is not None:
            _run(function, options.run)
        trip = nanoseconds(function)
    print(f"{options.backend}: {trip:.0f} ns an iteration")
    if shutil.which("perf") is None:
        print("perf is not installed: no parts")
        return 0
    report = _sampled(options.backend, options.seconds)
    for part, share in sorted(shares(report).items(), key=lambda item: -item[1]):
        print(f"  {part:<24} {share * trip:6.0f} ns {share:6.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
