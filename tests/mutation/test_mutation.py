"""Faults are put in as they are told, and the tool tells those that a test sees from those that none does."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.__main__ import ROOT, Outcome, all_faults, equivalent, sampled
from tests.mutation.faults import faults, faulty
from tests.mutation.tracing import Known, Run, instrumented

MODULE = """
KINDS = (int, float)

def keep(self, place, value):
    if value is self.before and place:
        self.guards.same(place, value)
    for other in value:
        self.note(other)
    with self.open():
        self.values[place] = join(value, self.before)
    return not value

def note(self):
    self.first = 1
    print(self)
"""
CHANGES = {
    "dropped item": ("+KINDS = (float,)", "+KINDS = (int,)"),
    "negated condition": ("+if not (value is self.before and place):", "+return value"),
    "skipped block": ("+pass",),
    "dropped operand": ("+if place:", "+if value is self.before:"),
    "is for ==": ("+if value == self.before and place:",),
    "skipped guard": ("+pass",),
    "first iteration only": ("+    break",),
    "dropped call": ("+pass",),
    "not entered": ("+if True:",),
    "dropped write": ("+pass",),
    "joined one way": ("+self.values[place] = value", "+self.values[place] = self.before"),
    "off by one": ("+self.first = 2",),
    "early return": ("+return",),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_each_kind_of_fault_makes_its_changes_in_valid_code(kind: str) -> None:
    found = [fault for fault in faults(ast.parse(MODULE), "module.py") if fault.kind == kind]
    for change in CHANGES[kind]:
        assert any(change in fault.change.splitlines() for fault in found), found
    for fault in found:
        text = ast.unparse(ast.fix_missing_locations(faulty(ast.parse(MODULE), fault.number)))
        assert text != ast.unparse(ast.parse(MODULE))
        compile(text, "module.py", "exec")


def test_a_statement_is_told_by_its_function() -> None:
    fault = next(fault for fault in faults(ast.parse(MODULE), "module.py") if fault.kind == "skipped guard")
    moved = next(fault for fault in faults(ast.parse("import sys\n" + MODULE), "module.py") if fault.kind == "skipped guard")
    assert (fault.line, moved.line) == (6, 7)
    assert fault.statement == moved.statement == "module.py:keep:2"
    assert fault.name == moved.name


def test_what_runs_is_noted() -> None:
    hits: set[str] = set()
    source = "def f(x):\n    if x:\n        return 1\n    return 2\n"
    space: dict[str, Any] = {"_statements_that_ran": hits}
    exec(compile(instrumented(ast.parse(source), "module.py"), "module.py", "exec"), space)
    assert space["f"](False) == 2
    assert hits == {"module.py:f:1", "module.py:f:3"}
    assert Known.of({"a": Run(1.0, hits), "b": Run(2.0, {"module.py:f:1"})}).statements["module.py:f:1"] == [0, 1]


def test_a_seed_gives_all_kinds() -> None:
    chosen = sampled("1", 30)
    assert chosen != sampled("2", 30)
    assert {*CHANGES} < {fault.kind for fault in chosen}


def test_known_equivalent_ones_are_there() -> None:
    """One whose code is gone has no place in the list."""
    names = {fault.name for fault in all_faults()}
    assert not {*equivalent()} - names


def test_a_verdict_says_what_found_the_fault() -> None:
    fault = faults(ast.parse(MODULE), "module.py")[0]
    found = ("", "tests/test_a.py::test_b", "random program state-1", "equivalent: never happens", "not told: it fails anyway")
    assert [Outcome(fault, each, 0).verdict for each in found] == [
        "survived",
        "found by tests",
        "found by fuzz",
        "equivalent",
        "not told",
    ]


JUDGING = """
from pathlib import Path
import hypothesis, onnx, torch
from tests.mutation import faults, importing
from tests.mutation.judging import Judge, Limits
from tests.mutation.tracing import Map

test, folder = "tests/programs/test_branches.py", Path({folder!r})
judge = Judge(Map(folder, Path.cwd()), [test], folder, Limits(60, 5, 0))
print(judge.trace(test, "-k", "test_if_without_else_changes_a_name"))
for file, change in (("branching/branch.py", "-session.places.put(place, results[key])"), ("library/attention.py", "")):
    every = faults.faults(importing.parsed(file), file)
    print(judge.found(next(fault for fault in every if fault.scope and change in fault.change)) or "survived")
"""
"""One fault in what the test needs, and one in what it does not run."""


@pytest.mark.slow
def test_a_fault_is_found_and_another_is_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JUDGING.format(folder=str(tmp_path))], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    traced, first, second = done.stdout.splitlines()
    assert traced == "1 tests"
    assert first.startswith("tests/programs/test_branches.py::test_if_without_else_changes_a_name")
    assert second == "survived"
