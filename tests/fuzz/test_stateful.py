"""Random programs with state do as static programs what they do in eager; what judges them sees each kind of difference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.fuzz.oracle import Kind, Verdict
from tests.fuzz.stateful import aliasing, arrays, generate, keeping, oracle, orders, records, varying
from tests.fuzz.stateful.picture import Numbers, Picture
from tests.fuzz.stateful.program import Call, Program
from tests.fuzz.stateful.reduction import reduced, script

SOURCE = """\
import torch


class Box:
    def __init__(self):
        self.items = []


st, acc = Box(), []


def program(x, n, acc):
    y = x + 1
    if x.sum() > 0:
        st.items = acc
    st.items.append(y)
    return st.items
"""
CALLS = tuple(Call(before, f"torch.tensor({x}), torch.tensor(0), acc") for before, x in [((), "[1.0]"), (("acc = []",), "[-1.0]")])
PROGRAM = Program(SOURCE, CALLS)
GREEN = (2, 3, 6, 11, 12, 13, 14, 20, 21, 24, 26, 27, 29, 30, 33, 36, 39, 41, 44, 46, 47, 48, 50, 51, 52)
"""Programs that do the same on both sides, or are refused."""


def test_the_seed_alone_decides_the_program():
    assert generate.write("a-1") == generate.write("a-1")
    assert generate.write("a-1") != generate.write("a-2")


def same_or_refused(program: Program, *variants: str) -> None:
    for variant in variants:
        verdict = oracle.judge(program, variant)
        assert not verdict.bad, f"{variant}: {verdict.reason}\n{program.text()}\n{verdict.detail}"


def test_most_programs_run_and_cover_every_theme():
    programs = [generate.write(f"valid-{number}") for number in range(60)]
    assert sum(oracle.valid(program) for program in programs) > 30
    for theme in ("nonlocal", "getattr(", "**", "try:", "nn.Module", "__slots__", "is not", "requires_grad"):
        assert any(theme in program.source for program in programs), theme


def test_programs_with_aliases_run_and_write_to_what_is_outside():
    programs = [aliasing.write(f"valid-{number}") for number in range(40)]
    assert sum(oracle.valid(program) for program in programs) > 30
    for text in ("far = st.h", "while ", " is ", ".append(", "Box(", ".clear()"):
        assert any(text in program.source for program in programs), text


@pytest.mark.parametrize("number", range(6))
def test_a_program_with_aliases_does_the_same_or_is_refused(number: int) -> None:
    same_or_refused(aliasing.write(f"ci-{number}"), "native", "python")


def test_programs_with_arrays_run_and_write_to_them():
    programs = [arrays.write(f"valid-{number}") for number in range(40)]
    assert sum(oracle.valid(program) for program in programs) > 30
    for text in ("out=", "torch.from_numpy(", "st.tens", " is ", "[::-1]", ".view()"):
        assert any(text in program.source for program in programs), text


@pytest.mark.parametrize("number", range(10))
def test_a_program_with_arrays_does_the_same_or_is_refused(number: int) -> None:
    same_or_refused(arrays.write(f"ci-{number}"), "native", "python" if number % 2 else "saved")


def test_programs_with_keys_run_and_take_them_out():
    programs = [orders.write(f"valid-{number}") for number in range(40)]
    assert sum(oracle.valid(program) for program in programs) > 30
    for text in (".pop(", "del ", "move_to_end", "list(vars(", "+= x", "|= ", "break"):
        assert any(text in program.source for program in programs), text


@pytest.mark.parametrize("number", range(6))
def test_a_program_with_keys_does_the_same_or_is_refused(number: int) -> None:
    same_or_refused(orders.write(f"ci-{number}"), "native", "python")


def test_programs_with_lists_of_objects_run_and_ask_which_is_which():
    programs = [records.write(f"valid-{number}") for number in range(40)]
    assert sum(oracle.valid(program) for program in programs) > 30
    for text in ("frozen=True", "__slots__", " is ", "pairs.append((", ".pop()", ".sort(", ".k += 1"):
        assert any(text in program.source for program in programs), text


@pytest.mark.parametrize("number", range(8))
def test_a_program_with_lists_of_objects_does_the_same_or_is_refused(number: int) -> None:
    same_or_refused(records.write(f"ci-{number}"), "native", "python")


def test_programs_with_arguments_that_vary_run():
    programs = [varying.write(f"valid-{number}") for number in range(60)]
    assert sum(oracle.valid(program) for program in programs) > 50
    for text in (".append(", " is ", "sorted(", ".log", "for t in ", "    return "):
        assert any(text in program.source for program in programs), text


@pytest.mark.parametrize("number", range(6))
def test_a_program_with_arguments_that_vary_does_the_same_or_is_refused(number: int) -> None:
    same_or_refused(varying.write(f"ci-{number}"), "native", "python")


class Other:
    """Takes the place of the static function of a program."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, program: Program, world: oracle.World, variant: str) -> object:
        exec(self.source, world.space)
        return world.space["program"]


DIFFERENCES = {
    ": identity": "return list(st.items)",
    "result: value": "return acc",
    "state: identity": "st.items = list(st.items)\n    return st.items",
    "state: attributes": "st.more = 1\n    return st.items",
    "ZeroDivisionError": "1 / 0",
}


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_the_judge_sees_and_names_each_difference(kind: str, monkeypatch: pytest.MonkeyPatch):
    other = "def program" + SOURCE.partition("def program")[2].replace("return st.items", DIFFERENCES[kind])
    monkeypatch.setattr(oracle, "_static", Other(other))
    program = dataclasses.replace(PROGRAM, calls=CALLS[1:]) if kind == "result: value" else PROGRAM
    verdict = oracle.judge(program)
    assert verdict.bad
    assert kind in verdict.reason


def test_the_same_is_no_difference(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oracle, "_static", Other(""))
    assert oracle.judge(PROGRAM) == Verdict(Kind.SAME, calls=2)


def test_a_picture_says_which_objects_are_one_and_which_share_memory():
    def lines(*values):
        picture = Picture(Numbers(), __name__)
        for value in values:
            picture.add("v", value)
        return picture.lines

    one, base = [], torch.ones(4)
    assert lines(one, one) != lines(one, [])
    assert lines(base, base[:2]) != lines(base, torch.ones(2))
    assert lines({"a": 1, "b": 2}) != lines({"b": 2, "a": 1})
    assert lines(0.0) != lines(-0.0)
    assert lines(True) != lines(1)
    assert lines(base.clone().requires_grad_()) != lines(base)
    array = np.ones(4)
    assert lines(array, array[:2]) != lines(array, np.ones(2))
    assert lines(array, torch.from_numpy(array[1:])) != lines(array, torch.ones(3, dtype=torch.float64))
    assert lines(array) != lines(np.zeros(4))


def test_a_failing_program_is_made_smaller(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oracle, "_static", Other("program = lambda *given: None"))
    smaller = reduced(PROGRAM, "native", seconds=5)
    assert len(smaller.calls) == 1
    assert "sum" not in smaller.source
    compile(script(smaller, "native", "reason", "."), "<script>", "exec")


@pytest.mark.parametrize("number", GREEN)
def test_no_random_program_with_state_differs_when_static(number: int):
    program = generate.write(f"ci-{number}")
    assert oracle.valid(program)
    verdict = oracle.judge(program, "python" if number % 4 == 0 else "native")
    assert not verdict.bad, f"{verdict.reason}\n{program.text()}\n{verdict.detail}"


@pytest.mark.parametrize("number", range(8))
def test_random_programs_that_are_saved(number: int):
    program = keeping.write(f"ci-{number}")
    verdict = oracle.judge(program, "saved")
    assert not verdict.bad, f"{verdict.reason}\n{program.text()}\n{verdict.detail}"


def test_most_programs_that_keep_one_structure_can_be_saved():
    kinds = [oracle.judge(keeping.write(f"keeping-{number}"), "saved").kind for number in range(12)]
    assert kinds.count(Kind.SAME) > 6


OWN_CLASSES = """\
class Bad(Exception):
    pass


def program(x):
    if x.sum() > 0:
        raise Bad("over")
    return Bad.missing
"""


def test_exceptions_of_classes_of_the_program_are_the_same_in_both_worlds():
    program = Program(OWN_CLASSES, (Call((), "torch.ones(2)"), Call((), "-torch.ones(2)")))
    assert oracle.judge(dataclasses.replace(program, source="import torch\n" + OWN_CLASSES)).kind is Kind.SAME


def test_names_of_modules_in_messages_are_the_same_in_both_worlds():
    source = "import torch\nclass Box:\n    pass\n\n\ndef program(x):\n    raise TypeError(str(Box))\n"
    assert oracle.judge(Program(source, (Call((), "torch.ones(2)"),))).kind is Kind.SAME
