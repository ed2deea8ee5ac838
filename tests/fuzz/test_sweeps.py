"""A few of what the sweeps over operators and Python's own types go through."""

from __future__ import annotations

import pytest

from tests.fuzz import builtins, operators


@pytest.mark.parametrize("kind", ["int", "list", "dict", "set", "frozenset", "deque", "counter", "optional", "chosen"])
def test_some_expressions_of_a_kind(kind):
    verdicts = []
    for number, (_, statement) in enumerate(builtins.programs([kind], 1, 6)):
        try:
            module = builtins._module(f"sweep_{kind}_{number}", builtins.OBJECTS[kind], statement)
        except SyntaxError:
            continue
        verdicts.append(builtins.judge(module.function, "python"))
    assert [detail for verdict, detail in verdicts if verdict == "WRONG"] == []


def test_some_operators():
    pytest.importorskip("expecttest")
    verdicts = [
        (name, form, *operators.judge(case, form, "python"))
        for info in operators.operators(["amax", "kthvalue", "addbmm", "logsumexp"])
        for name, case in operators.cases(info)
        for form in operators.FORMS
    ]
    assert verdicts
    assert [one for one in verdicts if one[2] == "WRONG"] == []
