"""Whether the tests and the fuzzers see a fault."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutation import importing
from tests.mutation.faults import Fault, faulty
from tests.mutation.forking import forked
from tests.mutation.tracing import Known, Map, Recorder, instrumented

FIRST = 6
"""How many tests are tried before the others."""

_FRESH = 40.0
"""Seconds that a process may take before and between the tests."""


class _Failed:
    """A plugin of pytest: remembers what failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or f"import of {report.nodeid}"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds.

    Attributes:
        trace: for the tests of a file, the first time.
        tests: for the tests of a fault, as long as they take without it.
        fuzz: for its random programs.
    """

    trace: float
    tests: float
    fuzz: float


class Judge:
    """Tries the tests that run a statement, the quick ones first, and then random programs.

    Args:
        known: which tests run which statements.
        files: the test files to choose from.
        folder: where to write what the processes print.
        limits: how long to run what.
    """

    def __init__(self, known: Map, files: Sequence[str], folder: Path, limits: Limits) -> None:
        self._known, self._files, self._folder, self._limits = known, files, folder, limits

    def trace(self, file: str, *options: str) -> str:
        """Run the tests of a file, and remember what they run."""

        def task() -> str:
            importing.install(instrumented)
            recorder = Recorder(self._limits.trace)
            pytest.main(["-qq", "-p", "no:cacheprovider", *options, file], plugins=[recorder])
            self._known[file] = Known.of(recorder.runs)
            return f"{len(recorder.runs)} tests"

        return forked(task, 3 * self._limits.trace + _FRESH, self._folder / "trace.log") or "time-out"

    def found(self, fault: Fault) -> str:
        """What sees a fault; empty when nothing does."""
        tests = list(self._chosen(fault.statement if fault.scope else f"{fault.file}:"))
        return self._by_tests(fault, tests[:FIRST]) or self._by_tests(fault, tests[FIRST:]) or self._by_fuzz(fault)

    def _chosen(self, statement: str) -> Iterator[tuple[float, str]]:
        """The tests that run a statement: of each file the quickest, then of each the next one, while there is time."""
        by_file = []
        for file in self._files:
            if known := self._known[file]:
                names = list(known.tests.items())
                reached = {at for at in _matching(known, statement)}
                by_file.append(sorted((names[at][1], names[at][0]) for at in reached))
        total = 0.0
        for row in itertools.zip_longest(*by_file):
            for seconds, name in sorted(each for each in row if each is not None):
                total += seconds
                if total > self._limits.tests:
                    return
                yield seconds, name

    def _by_tests(self, fault: Fault, tests: Sequence[tuple[float, str]]) -> str:
        def task() -> str:
            importing.install(_change(fault))
            failed = _Failed()
            status = pytest.main(["-x", "-qq", "-p", "no:cacheprovider", *(name for _, name in tests)], plugins=[failed])
            return (
                "-" if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else failed.name or "collecting the tests"
            )

        if not tests:
            return ""
        return self._answer(task, 3 * sum(seconds for seconds, _ in tests) + _FRESH)

    def _by_fuzz(self, fault: Fault) -> str:
        def task() -> str:
            importing.install(_change(fault))
            return next(_failing(self._limits.fuzz), "-")

        if self._limits.fuzz <= 0:
            return ""
        name = self._answer(task, 3 * self._limits.fuzz + _FRESH)
        if name and name != _TIME_OUT and (without := self._without_fault(name)):
            return f"not told: random program {name} {without} without the fault, too"
        return f"random program {name}" if name else ""

    def _without_fault(self, name: str) -> str:
        """What a random program does without a fault, when that is not what it does in eager."""
        return self._answer(lambda: "fails" if _is_bad(name) else "-", _FRESH)

    def _answer(self, task: Callable[[], str], seconds: float) -> str:
        answer = forked(task, seconds, self._folder / "last.log")
        return "" if answer == "-" else answer or _TIME_OUT


_TIME_OUT = "time-out"


def _matching(known: Known, statement: str) -> Iterator[int]:
    """The tests that run a statement, or one of a module."""
    if not statement.endswith(":"):
        yield from known.statements.get(statement, ())
        return
    for name, tests in known.statements.items():
        if name.startswith(statement):
            yield from tests


def _change(fault: Fault) -> Callable[[ast.Module, str], ast.Module]:
    return lambda tree, file: faulty(tree, fault.number) if file == fault.file else tree


def _failing(seconds: float) -> Iterator[str]:
    """The names of random programs that fail: two with state, then a stateless one, and so on."""
    end = time.monotonic() + seconds
    for number in itertools.count():
        for name in (f"state-{2 * number}", f"state-{2 * number + 1}", f"plain-{number}"):
            if time.monotonic() > end:
                return
            if _is_bad(name):
                yield name


def _is_bad(name: str) -> bool:
    from tests.fuzz.__main__ import run, run_stateful  # these import dy2st, which has the fault by now

    if name.startswith("state"):
        return any(verdict.bad for *_, verdict in run_stateful(name, ("native", "saved" if name.endswith("0") else "python")))
    return any(verdict.bad for *_, verdict in run(name, ("plain", "saved"), 14, wide=name.endswith(("0", "1", "2", "3", "4"))))
