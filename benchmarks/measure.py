"""Measuring: peers take turns, so that what slows the machine down slows all of them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from benchmarks.case import Case, answer_of, check, step_of, training_step
from benchmarks.peers import PEERS, Refused

_WARM_CALLS = 3
"""Before anything is timed: TorchScript specialises in its second and third call, torch.compile may compile again."""


@dataclasses.dataclass
class Row:
    """What one peer did with one workload.

    Attributes:
        first: seconds from the plain function to the end of the first step.
        samples: seconds for a step, one number a round; empty when there is a reason why not.
        eager: eager's samples of the same rounds.
        failure: why it was not timed.
        overhead: whether the time above eager's is what matters.
    """

    workload: str
    peer: str
    first: float = 0.0
    samples: list[float] = dataclasses.field(default_factory=list)
    eager: list[float] = dataclasses.field(default_factory=list)
    failure: str | None = None
    overhead: bool = False

    @property
    def median(self) -> float:
        """Seconds for a step."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, as a share of the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / 2 / self.median

    @property
    def ratio(self) -> float | None:
        """How many times faster than eager: the median over the rounds."""
        pairs = list(zip(self.eager, self.samples))
        return statistics.median(before / now for before, now in pairs) if pairs else None

    @property
    def best_ratio(self) -> float | None:
        """The same of the fastest round of each; where it is far from the median, the machine was busy with something else."""
        return min(self.eager) / min(self.samples) if self.eager and self.samples else None


def measure(name: str, case: Case, peers: Sequence[str], seconds: float, rounds: int) -> list[Row]:
    """Measure a workload.

    Args:
        name: of the workload.
        case: what it is.
        peers: names of :data:`~benchmarks.peers.PEERS`; eager runs in any case.
        seconds: for each peer, spread over the rounds.
        rounds: how often each peer has its turn.

    Returns:
        A row for each peer, eager first.
    """
    names = ["eager", *(peer for peer in peers if peer != "eager")]
    rows, steps = [], {}
    torch._dynamo.reset()
    expected: list[Any] = []
    with torch.set_grad_enabled(case.train):
        for peer in names:
            row = Row(name, peer, overhead=case.overhead)
            rows.append(row)
            try:
                step, answer, row.first = _prepare(case, peer)
            except Exception as error:
                row.failure = _reason(error)
                continue
            if peer == "eager":
                expected = answer
            wrong = check(case, expected, answer)
            if wrong is not None:
                row.failure = f"wrong answer: {wrong}"
                continue
            steps[peer] = step
        _time(steps, {row.peer: row for row in rows}, seconds / rounds, rounds)
    for row in rows:
        row.eager = rows[0].samples if row.samples else []
    return rows


def _prepare(case: Case, peer: str) -> tuple[Callable[[], Any], list[Any], float]:
    """Return a peer's step, ready to be timed; what its first one gave, and how long that took."""
    function = copy.deepcopy(case.function)
    if case.optimizer is not None:
        case = dataclasses.replace(case, calls=copy.deepcopy(case.calls))  # a step changes them
    start = time.perf_counter()
    value = PEERS[peer](case, training_step if case.optimizer is not None else function)
    step = step_of(case, value) if case.optimizer is None else step_of(case, function, value)
    result = step()
    first = time.perf_counter() - start
    answer = answer_of(case, function if case.optimizer is not None else value, result)
    for _ in range(_WARM_CALLS):
        step()
    return step, answer, first


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip().strip(":~^-.")]
    text = lines[0] if lines else type(error).__name__
    return f"refused: {text if isinstance(error, Refused) else f'{type(error).__name__}: {text}'}"


def _time(steps: dict[str, Callable[[], Any]], rows: dict[str, Row], seconds: float, rounds: int) -> None:
    counts = {peer: max(1, int(seconds / _once(step))) for peer, step in steps.items()}
    order = list(steps)
    with _quiet():
        for turn in range(rounds):
            shift = turn % len(order) if order else 0
            for peer in order[shift:] + order[:shift]:
                step, count = steps[peer], counts[peer]
                start = time.perf_counter()
                for _ in range(count):
                    step()
                rows[peer].samples.append((time.perf_counter() - start) / count)


def _once(step: Callable[[], Any]) -> float:
    """Return the seconds of a step once it runs again: what another peer has prepared since may have made it compile anew."""
    step()
    start = time.perf_counter()
    step()
    return max(time.perf_counter() - start, 1e-7)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
