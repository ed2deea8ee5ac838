"""A few of what the sweeps over operators and Python's own types go through."""

from __future__ import annotations

import collections

import pytest

from tests.fuzz import builtins, operators


@pytest.mark.parametrize("kind", ["int", "list", "dict", "set", "frozenset", "deque", "counter", "optional", "chosen"])
def test_some_expressions_of_a_kind(kind):
    found = collections.Counter[str]()
    for _, statement in builtins.programs([kind], 1, 60):
        if found["same"] == 3:
            break
        try:
            module = builtins.module_of(kind, statement)
        except SyntaxError:
            continue
        verdict, detail = builtins.judge(module.function, "python")
        assert verdict != "WRONG", (statement, detail)
        found[verdict] += 1
    assert found["same"] == 3


def test_some_operators():
    pytest.importorskip("expecttest")
    verdicts = [
        (name, form, *operators.judge(case, form, "python"))
        for info in operators.operators(["amax", "kthvalue", "addbmm", "logsumexp"])
        for name, case in operators.cases(info)
        for form in operators.FORMS
    ]
    assert any(one[2] == "same" for one in verdicts)
    assert [one for one in verdicts if one[2] == "WRONG"] == []
