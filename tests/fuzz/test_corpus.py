"""Programs with state that were wrong once: eager and static agree on all that can be reached, by identity too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.oracle import Kind
from tests.fuzz.stateful import corpus, oracle
from tests.fuzz.stateful.program import Program

PROGRAMS = {
    f"{path.stem}: {name}": program
    for path in sorted((Path(__file__).parent / "corpus").glob("*.txt"))
    for name, program in corpus.read(path).items()
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_static_and_eager_do_the_same(program: Program) -> None:
    for variant in ("native", "python"):
        verdict = oracle.judge(program, variant)
        assert verdict.kind is Kind.SAME, f"{variant}: {verdict.reason}\n{program.text()}\n{verdict.detail}"
