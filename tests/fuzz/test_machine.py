"""The machine itself: it writes programs that Python runs, sees differences, and makes failing programs smaller."""

from __future__ import annotations

import dataclasses

from tests.fuzz.choices import Seeded
from tests.fuzz.grammar import Program, write
from tests.fuzz.metamorphic import NAMES, transformed
from tests.fuzz.oracle import Kind, calls_of, judge, load
from tests.fuzz.reduce import reduced
from tests.fuzz.wide import Wide

SAME = Program("def program(x, v, n):\n    if x > 1:\n        print('large')\n        return v\n    return x\n")
REFUSED = Program("def program(x, v, n):\n    y = 1\n    return 2 ** x.item().hex().count('0')\n")


def test_programs_are_python_and_run_most_of_their_lines():
    covered, lines = 0, 0
    for number in range(50):
        program = write(Seeded(f"machine-{number}"))
        calls, (some, every) = calls_of(program)
        assert len(calls) >= 3
        covered, lines = covered + some, lines + every
    assert covered > 0.5 * lines


def test_the_same_seed_writes_the_same_program():
    assert write(Seeded("a-1")) == write(Seeded("a-1"))


def test_programs_with_more_of_the_language_are_python():
    for number in range(100):
        program = Wide(Seeded(f"wide-{number}"), 6).program()
        compile(program.source, "<wide>", "exec")
    assert judge(program).kind in (Kind.SAME, Kind.REFUSED)


def test_a_correct_program_is_judged_the_same_also_when_saved():
    assert judge(SAME).kind is Kind.SAME
    assert judge(SAME, saved=True).kind is Kind.SAME


def test_what_is_no_program():
    assert judge(Program("def program(x:")).kind is Kind.INVALID
    assert judge(Program("y = 1\n")).kind is Kind.INVALID


def test_a_refused_program_is_judged_refused_with_its_error():
    verdict = judge(REFUSED)
    assert verdict.kind is Kind.REFUSED
    assert verdict.reason.split(":")[0].endswith("Error")


def test_transformed_programs_run_as_the_program_does():
    import torch

    for number in range(20):
        program = dataclasses.replace(write(Seeded(f"twins-{number}")), module=False)
        if "class Net" in program.source:
            continue
        arguments = torch.tensor(0.5, dtype=torch.float64), torch.ones(3, dtype=torch.float64), torch.tensor(1)
        expected = _outcome(program, arguments)
        for name in NAMES:
            assert _outcome(transformed(program, name), arguments) == expected, name


def _outcome(program, arguments):
    try:
        return repr(load(program.source).program(*(a.clone() for a in arguments)))
    except Exception as error:
        return type(error)


def test_a_failing_program_is_made_smaller():
    source = "def program(x, v, n):\n    y = x + 1\n    if n > 2:\n        for i in range(3):\n            v = v * 2 + y\n    return v, x\n"
    smaller = reduced(Program(source), lambda candidate: "v * 2" in candidate.source)
    assert len(smaller.source.splitlines()) == 2
