"""Random programs must do the same before and after the rewrite: value, exception, line, order of effects."""

from __future__ import annotations

import warnings

import pytest

from tests.constructs.plain_python import Log, converted, load, outcome
from tests.constructs.program_generator import ProgramGenerator

ARGUMENTS = [(0, 0, [1, 2, 3]), (1, 2, [3, 0]), (3, -1, [0]), (2, 1, [2, 2, 5])]
PER_TEST = 25


def check(seed: int) -> None:
    text = ProgramGenerator(seed).program()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            module = load(text)
        except SyntaxError:
            return  # the generator may write `nonlocal` after a use
        program = module["program"]
        rewritten = converted(program)
    for first, second, items in ARGUMENTS:
        module.pop("g_x", None)
        expected = outcome(program, first, second, list(items), Log()), module.pop("g_x", None)
        actual = outcome(rewritten, first, second, list(items), Log()), module.pop("g_x", None)
        assert actual == expected, f"seed {seed}, arguments {(first, second, items)}:\n{text}"


@pytest.mark.parametrize("start", range(0, 300, PER_TEST))
def test_random_programs_do_the_same_after_the_rewrite(start: int) -> None:
    for seed in range(start, start + PER_TEST):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(300, 6000, PER_TEST))
def test_many_random_programs_do_the_same_after_the_rewrite(start: int) -> None:
    for seed in range(start, start + PER_TEST):
        check(seed)
