"""``dy2st bench``."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import torch

from dy2st.cli.output import console, duration, table
from dy2st.cli.running import arguments, loaded
from dy2st_runtime.executors import available, choose


def bench(
    path: Path,
    method: str,
    given: Sequence[str],
    seconds: float,
    backends: Sequence[str],
    threads: int | None,
    namespaces: Collection[str],
) -> None:
    """Print how long an archive takes to load, to make ready and to run, by executor."""
    if threads is not None:
        torch.set_num_threads(threads)
    title = f"{path.name}, {torch.get_num_threads()} threads"
    result = table(title, "executor", ">load", ">first call", ">median", ">fastest", ">calls")
    for name in [choose(backend) for backend in backends] or available():
        start = time.perf_counter()
        model = loaded(path, namespaces, name, None).eval()
        load = time.perf_counter() - start
        args, kwargs = arguments(model, method, given)
        call = getattr(model, method)
        with torch.no_grad():
            first = time.perf_counter()
            call(*args, **kwargs)
            first = time.perf_counter() - first
            (times,) = in_turns([functools.partial(call, *args, **kwargs)], seconds, 3)
        result.add_row(name, *map(duration, (load, first, statistics.median(times), min(times))), str(len(times)))
    console().print(result)


def in_turns(calls: Sequence[Callable[[], object]], seconds: float, least: int) -> list[list[float]]:
    """Return how long each of some calls takes, in seconds, again and again.

    Args:
        calls: what to call, one after the other in each turn.
        seconds: how long to go on.
        least: how many turns there are in any case.
    """
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while len(times[0]) < least or time.perf_counter() < end:
        for call, mine in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            mine.append(time.perf_counter() - begin)
    return times
