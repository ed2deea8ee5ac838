"""The native executor and ``dy2st-run`` have lowerings of their own, in Python and in C++: both give the same instructions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import dy2st
from dy2st.static import programs
from dy2st_runtime.executors.native import build
from tests.fuzz.stateful import corpus, oracle
from tests.lowering.programs import FUNCTIONS, made
from tests.programs import test_training_steps as training_steps
from tests.runtime import lowerings
from tests.runtime.build import every_constant, mode_program, net_program

pytestmark = pytest.mark.skipif(build.library() is None, reason="there is no compiler")

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
SOURCES = sorted([*(ROOT / "tests" / "programs").glob("test_*.py"), ROOT / "tests" / "examples", CORPUS.parent / "test_machine.py"])


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program that is captured from now on, as an archive describes it."""
    kept: list[str] = []

    def keep(program):
        line = lowerings.described(program)
        if line is not None:
            kept.append(line)
        return program

    apply = programs.apply_passes
    monkeypatch.setattr(programs, "apply_passes", lambda program, passes: keep(apply(program, passes)))
    return kept


def check(lines: Sequence[str], least: int) -> None:
    """No program differs, and so many are there that C++ alone can run."""
    different = list(lowerings.differences(lines))
    assert not different, f"{len(different)} of {len(lines)} programs differ\n{different[0]}"
    assert sum(not lowerings.is_refused(listing) for listing in lowerings.in_cpp(lines)) >= least


@pytest.mark.slow
def test_programs_that_were_wrong_once(lines: list[str]) -> None:
    for path in sorted(CORPUS.glob("*.txt")):
        for program in corpus.read(path).values():
            oracle.judge(program, "native")
    check(lines, 150)


def test_programs_that_are_exported(lines: list[str]) -> None:
    for name in FUNCTIONS:
        function, specification = made(name)
        static = dy2st.to_static(function, input_spec=specification)
        getattr(static, "forward", static).captured()
    check(lines, len(FUNCTIONS) - 2)


def test_training_steps(lines: list[str]) -> None:
    names = ["SGD momentum", "AdamW", "Adam foreach", "RMSprop centered"]
    for name in names:
        options = {"foreach": True} if "foreach" in name else training_steps.OPTIMIZERS[name]
        static = dy2st.to_static(training_steps.step)
        objects = training_steps.maker(training_steps.Both, name, **options)()
        for batch in training_steps.batches(2):
            static(*objects, *batch)
    check(lines, len(names))  # a first step makes the state by a function of Python


def test_programs_written_by_hand() -> None:
    written = [net_program(False), net_program(True), every_constant(), mode_program()]
    described = [lowerings.described(program) for program in written]
    check([line for line in described if line is not None], 2)


def test_a_difference_is_seen() -> None:
    line = lowerings.described(net_program(False))
    assert line is not None and "aten.abs" in line
    assert lowerings.in_python(line) != lowerings.in_cpp([line.replace("aten.abs", "aten.neg")])[0]


def kept_by(files: Sequence[Path], folder: Path) -> list[str]:
    """The programs that the tests of some files capture."""
    kept = folder / "programs.jsonl"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "DY2ST_KEEP_PROGRAMS": str(kept)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return kept.read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_programs_of_the_other_tests(part: int, tmp_path: Path) -> None:
    files = SOURCES.copy()
    random.Random(0).shuffle(files)
    check(kept_by(files[part::8], tmp_path), 100)
