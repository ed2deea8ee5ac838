"""Random programs do as static programs what they do in eager; so do transformed ones, and what is saved and loaded of them."""

from __future__ import annotations

import collections

import pytest

from tests.fuzz.__main__ import VARIANTS, run
from tests.fuzz.oracle import Kind

_PARTS = 10
_EACH = 10


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_random_program_differs_from_eager_when_static(part: int):
    kinds = judged("ci", range(part * _EACH, (part + 1) * _EACH))
    assert kinds[Kind.REFUSED] <= 0.3 * sum(kinds.values()), kinds


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_none_of_many_random_programs_differs_when_static(part: int):
    judged("slow", range(part * 1000, (part + 1) * 1000))


def judged(seed: str, numbers: range) -> collections.Counter[Kind]:
    """How many programs did what; each, and one thing that is made of it.

    Raises:
        AssertionError: one of them gives a wrong answer or crashes.
    """
    kinds: collections.Counter[Kind] = collections.Counter()
    for number in numbers:
        for name, program, verdict in run(f"{seed}-{number}", ("plain", VARIANTS[1 + number % (len(VARIANTS) - 1)]), 12):
            assert not verdict.bad, f"{seed}-{number} ({name}): {verdict.reason}\n{program.source}\n{verdict.detail}"
            kinds[verdict.kind] += 1
    return kinds
