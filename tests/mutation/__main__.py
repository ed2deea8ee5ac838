"""Put faults into the capture, one at a time, and see whether the tests find them: ``python -m tests.mutation --seed 0 --faults 200``.

Traces first which tests run which statements (kept in the folder until the tests change). A fault is tried on the tests that run
its statement, quick ones first, then on random programs, stateful and not. Prints which faults survive, with their lines, and counts
them by kind. Those that change nothing are named in ``equivalent.txt``, with the reason. The same command tries those again that
survived, and takes the others from the folder. No file is changed: a process imports one module with the fault.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import itertools
import json
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.mutation import forking, importing
from tests.mutation.faults import Fault, faults
from tests.mutation.judging import Judge, Limits
from tests.mutation.tracing import Map

ROOT = Path(__file__).parents[2]
TESTS = tuple(f"tests/{room}/test_*.py" for room in ("api", "static", "saving", "programs", "fuzz", "errors", "syntax"))
SLOW = (
    "test_threads",
    "test_backends",
    "test_machine",
    "test_rewrite",
    "test_fuzz",
    "test_stateful",
)
"""Test files that take long for what they see of the capture."""


def equivalent() -> dict[str, str]:
    """The names of faults that change nothing, with the reason."""
    lines = (Path(__file__).parent / "equivalent.txt").read_text().splitlines()
    named: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith(" "):
            named[name] = line.strip()
        elif line and not line.startswith("#"):
            name = line
    return named


@functools.cache
def all_faults() -> tuple[Fault, ...]:
    """All faults that can be put into the modules, read once."""
    return tuple(fault for file in importing.sources() for fault in faults(importing.parsed(file), file))


def sampled(seed: str, number: int) -> list[Fault]:
    """Faults of all kinds, as many of each as there are."""
    by_kind: dict[str, list[Fault]] = {}
    for fault in all_faults():
        by_kind.setdefault(fault.kind, []).append(fault)
    for kind in sorted(by_kind):
        random.Random(f"{seed} {kind}").shuffle(by_kind[kind])
    rounds = itertools.zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [fault for row in rounds for fault in row if fault is not None][:number]


@dataclasses.dataclass
class Outcome:
    """What became of a fault: what found it (nothing, when empty), and how long that took."""

    fault: Fault
    found: str
    seconds: float

    @property
    def verdict(self) -> str:
        """A word for it."""
        if self.found.startswith(("equivalent", "not told")) or not self.found:
            return self.found.partition(":")[0] or "survived"
        return "found by fuzz" if self.found.startswith("random program") else "found by tests"


def judged(judge: Judge, todo: Sequence[Fault], kept: Path) -> Iterator[Outcome]:
    """Try faults, and keep what became of each in a file, from which the next run takes what it has."""
    before = {name: found for name, found in (json.loads(line) for line in kept.read_text().splitlines())} if kept.exists() else {}
    harmless = equivalent()
    for fault in todo:
        start = time.monotonic()
        if fault.name in harmless:
            yield Outcome(fault, f"equivalent: {harmless[fault.name]}", 0)
            continue
        found = before[fault.name] if before.get(fault.name) else judge.found(fault)
        with kept.open("a") as stream:
            print(json.dumps([fault.name, found]), file=stream)
        yield Outcome(fault, found, time.monotonic() - start)


def report(outcomes: Iterable[Outcome]) -> None:
    """Print what became of faults, and count them by kind."""
    counts: dict[str, collections.Counter[str]] = {}
    for outcome in outcomes:
        fault = outcome.fault
        counts.setdefault(fault.kind, collections.Counter())[outcome.verdict] += 1
        print(
            f"{outcome.verdict} ({outcome.seconds:.0f} s): {fault.kind}, dy2st/capture/{fault.file}:{fault.line} {outcome.found}",
            flush=True,
        )
        if outcome.verdict == "survived":
            print(f"  {fault.name}\n" + "\n".join(f"    {line}" for line in fault.change.splitlines()), flush=True)
    total: collections.Counter[str] = collections.Counter()
    for kind, counted in sorted(counts.items()):
        total += counted
        print(f"{kind}: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counted.items())))
    print("all: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(total.items())))
    meant = sum(total.values()) - total["equivalent"]
    print(f"{meant - total['survived']} of {meant} that change something are found")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--trace", type=float, default=120, help="seconds for the tests of a file, the first time")
    parser.add_argument("--tests", type=float, default=60, help="seconds of tests for a fault, as long as they take without one")
    parser.add_argument("--fuzz", type=float, default=120, help="seconds of random programs for a fault")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "dy2st_mutation")
    options = parser.parse_args()
    forking.prepare()
    known = Map(options.folder / "map", ROOT)
    files = [str(path.relative_to(ROOT)) for pattern in TESTS for path in sorted(ROOT.glob(pattern)) if path.stem not in SLOW]
    judge = Judge(known, files, options.folder, Limits(options.trace, options.tests, options.fuzz))
    for file in files:
        if known[file] is None:
            print(f"{file}: {judge.trace(file)}", flush=True)
    report(judged(judge, sampled(options.seed, options.faults), options.folder / f"outcomes-{options.seed}.jsonl"))


if __name__ == "__main__":
    main()
