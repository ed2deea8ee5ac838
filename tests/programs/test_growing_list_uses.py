"""Every way to use a list whose length a tensor decides gives eager's answer, or is refused with the user's line."""

import importlib.util

import pytest
import torch

import dy2st
from tests.oracle import same

CAPTURED = [
    "len(xs) == 2", "bool(xs)", "xs or 3", "[xs, xs]", "{'k': xs}", "str(xs)", "f'{xs}'", "xs.copy()", "xs[1:]", "xs[0:2]", "sum(xs)",
    "any(xs)", "xs is xs", "type(xs) is list", "isinstance(xs, list)", "[x * 2 for x in xs]", "xs + xs", "xs < [t[0]]", "[t[0]] >= xs", "truth(xs)", "not xs",
    "1 if xs else 2", "xs == []", "xs != [t[0]]", "xs == xs[:]", "max(xs)", "min(xs, default=t[0])", "sorted(xs)", "sorted(xs, reverse=True)",
    "list(map(count, xs))", "list(filter(lambda v: v > 1, xs))", "xs.index(t[0])", "xs.count(t[2])", "xs * 2", "2 * xs", "xs + [t[0]]",
    "list(zip(xs, xs))", "t[0] in xs", "3 not in xs", "list(enumerate(xs))", "[v for v in xs for w in xs if v < w]", "sum(v * 2 for v in xs)",
    "any(v > 2 for v in xs)", "all(v > 1 for v in xs)", "list(reversed(xs))", "[*xs, t]", "(t, *xs)", "count(*xs)", "tuple(xs)",
    "next(iter(xs), 3)",
]  # fmt: skip
REFUSED = [
    "dict(a=xs)['a']", "set(xs)", "{v for v in xs}", "{v: v for v in xs}", "torch.block_diag(*xs)",
]  # fmt: skip
MODULE = """
import torch

def count(*given):
    return len(given)

def truth(given):
    if given:
        return 1
    return 2

def use(t):
    xs = []
    for x in t:
        if x > 0:
            xs.append(x)
    return {expression}
"""
INPUTS = [torch.tensor(values) for values in ([1.0, -1.0, 2.0], [-1.0, -1.0, -2.0], [1.0, 3.0, 2.0])]


def _use(expression, tmp_path):
    file = tmp_path / "uses.py"
    file.write_text(MODULE.format(expression=expression))
    spec = importlib.util.spec_from_file_location("uses", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.use


def same_outcome(eager, static, where):
    try:
        expected = eager()
    except Exception as error:
        with pytest.raises(type(error)) as caught:
            static()
        assert str(caught.value).splitlines()[0] == str(error)
    else:
        same(expected, static(), where)


@pytest.mark.parametrize("expression", CAPTURED)
def test_a_use_that_is_captured_has_eagers_outcome_in_one_program(expression, tmp_path):
    use = _use(expression, tmp_path)
    static = dy2st.to_static(use)
    for t in INPUTS:
        same_outcome(lambda: use(t), lambda: static(t), expression)
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("expression", REFUSED)
def test_a_use_that_is_refused_names_the_users_file(expression, tmp_path):
    static = dy2st.to_static(_use(expression, tmp_path))
    with pytest.raises(dy2st.CaptureError) as caught:
        static(INPUTS[0])
    assert "uses.py" in str(caught.value)
