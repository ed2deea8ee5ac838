"""Each construct does what docs/syntax.md says of it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import dy2st
from tests.oracle import agree, observe, same_outcome
from tests.syntax.case import Case, Outcome
from tests.syntax.page import PAGE, chapters, page, raised

CASES = [pytest.param(case, id=f"{chapter.title}: {case.title}") for chapter in chapters() for case in chapter.cases]


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_the_outcome_the_page_says(case: Case) -> None:
    if case.outcome is Outcome.REFUSED:
        return _check_refusal(case)
    program = case.program() if inspect.isclass(case.program) else case.program
    one = case.outcome is not Outcome.PLAIN
    static = agree(program, case.calls, programs=1 if one else None, spec=case.spec)
    if case.outcome is Outcome.CAPTURED:
        assert _differ(program, case.calls), "the calls of a captured case must take different ways"
    outcomes = {site.outcome for site in _runner(static).report().sites}
    assert case.outcome is not Outcome.UNROLLED or "unrolled" in outcomes
    assert case.outcome is not Outcome.PLAIN or "captured" not in outcomes
    return None


def _check_refusal(case: Case) -> None:
    assert case.error is not None
    error = raised(case)
    assert isinstance(error, case.error), f"{error!r}"
    assert isinstance(error, dy2st.Dy2stError)
    assert case.says in str(error), str(error)


def _runner(static: Any) -> Any:
    return getattr(static, "forward", static)


def _differ(program: Any, calls: Any) -> bool:
    first, *others = (observe(program, call) for call in calls)
    return any(not same_outcome(first, other) for other in others)


def test_the_syntax_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.syntax.page"
