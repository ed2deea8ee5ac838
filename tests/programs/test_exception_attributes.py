"""What an exception that a program raises holds: attributes, notes, causes and contexts, as in eager."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import pytest
import torch

import dy2st

CALLS = [torch.tensor(v) for v in ([1.0, 0.5, 1.0], [-1.0, -2.0, -3.0], [3.0, 4.0, 5.0], [1.0, -8.0, 7.0])]
OWN_NOTES = ("raised by the program", "raised while dy2st")


def told(error: BaseException | None, depth: int = 4) -> Any:
    """What can be seen of an exception, with those that it was raised from."""
    if error is None or not depth:
        return None
    notes = [note for note in getattr(error, "__notes__", []) if not note.startswith(OWN_NOTES)]
    attributes = {name: str(value) for name, value in vars(error).items() if name != "__notes__"}
    links = told(error.__cause__, depth - 1), told(error.__context__, depth - 1), error.__suppress_context__
    return type(error).__name__, str(error), str(error.args), notes, attributes, links


def outcome(function: Any, x: torch.Tensor) -> Any:
    try:
        return str(function(x.clone()))
    except Exception as error:
        assert error.__traceback__ is not None
        return told(error)


@pytest.fixture(params=["native", "python"])
def backend(request):
    return request.param


def check(function: Any, backend: str) -> None:
    static = dy2st.to_static(function, backend=backend)
    for x in CALLS:
        assert outcome(function, x) == outcome(static, x), x
    assert len(static.program_cache) == 1


class Own(Exception):
    def __init__(self, code, extra=None):
        super().__init__(code)
        self.code, self.extra = code, extra

    def __str__(self):
        return f"own {self.code} ({self.extra})"


def note_where_a_tensor_decides(x):
    error = ValueError("v")
    if x.sum() > 0:
        error.add_note("positive")
    raise error


def second_note_where_a_tensor_decides(x):
    error = ValueError("v")
    error.add_note("first")
    if x.sum() > 0:
        error.add_note("second")
    raise error


def notes_in_a_loop(x):
    error = ValueError("v")
    for index in range(3):
        if x[index] > 0:
            error.add_note(f"at {index}")
    raise error


def note_in_a_handler(x):
    try:
        if x.sum() > 0:
            raise ValueError("v")
    except ValueError as error:
        error.add_note(f"the sum is {x.sum()}")
        raise
    return x


def note_that_is_read(x):
    try:
        error = ValueError("v")
        if x.sum() > 0:
            error.add_note("n")
            raise error
    except ValueError as caught:
        return x, caught.__notes__
    return x, hasattr(error, "__notes__")


def note_of_another_type(x):
    if x.sum() > 0:
        ValueError("v").add_note(3)
    return x


def attribute_on_some_ways(x):
    error = ValueError("v")
    if x.sum() > 0:
        error.code = ["k", x.sum()]
    if x.max() > 3:
        error.other = {"a": 1}
    raise error


def attribute_of_several_kinds(x):
    error = Own(3)
    error.extra = ("k", 1) if x.sum() > 0 else None
    if x.max() < 4:
        raise error
    return x


def attribute_of_several_kinds_caught(x):
    try:
        error = Own(3, "k" if x.sum() > 0 else None)
        if x.max() > 4:
            raise error
    except Own as caught:
        return caught.extra, caught.code, x
    return x


def given_one_of_several(x):
    def fails(why):
        raise Own(1, why)

    fails("a" if x.sum() > 0 else ["b"])


NOTES = [
    note_where_a_tensor_decides, second_note_where_a_tensor_decides, notes_in_a_loop, note_in_a_handler, note_that_is_read,
    note_of_another_type,
]  # fmt: skip


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
@pytest.mark.parametrize("program", NOTES, ids=lambda program: program.__name__)
def test_exceptions_have_the_notes_of_eagers(program, backend):
    check(program, backend)


PROGRAMS = [
    attribute_on_some_ways, attribute_of_several_kinds, attribute_of_several_kinds_caught, given_one_of_several,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_exceptions_hold_what_eagers_hold(program, backend):
    check(program, backend)


def cause_on_some_ways(x):
    error = ValueError("v")
    if x.sum() > 0:
        error.__cause__ = KeyError("k")
    raise error


def suppressed_on_some_ways(x):
    error = ValueError("v")
    if x.sum() > 0:
        error.__suppress_context__ = True
    raise error


def class_on_some_ways(x):
    one = type("One", (), {"value": 1})()
    other = type("Other", (), {"value": 2})
    if x.sum() > 0:
        one.__class__ = other
    return one.value


def name_on_some_ways(x):
    def inner():
        return x

    if x.sum() > 0:
        inner.__name__ = "other"
    return inner.__name__


@pytest.mark.parametrize("program", [cause_on_some_ways, suppressed_on_some_ways, class_on_some_ways, name_on_some_ways])
def test_what_python_does_not_keep_is_refused(program):
    with pytest.raises(
        dy2st.CaptureError, match="is one of several values where a tensor decides, which Python does not keep there"
    ):
        dy2st.to_static(program)(CALLS[0])


GROUPS = """
def taken_out_of_a_group(x):
    try:
        if x.sum() > 0:
            raise ExceptionGroup("group", [ValueError("a"), KeyError("b")])
    except* ValueError as group:
        x = x + len(group.exceptions)
    return x


def taken_as_a_group(x):
    try:
        if x.sum() > 0:
            raise ValueError("a")
    except* ValueError:
        x = x * 2
    return x


def taken_by_one_of_two_clauses(x):
    try:
        if x.sum() > 0:
            raise ValueError("a")
    except* KeyError:
        x = x + 1
    except* ValueError:
        x = x * 2
    return x


def passed_by_groups(x):
    try:
        if x.sum() > 0:
            raise KeyError("a")
    except* ValueError:
        x = x * 2
    return x


def group_within_a_branch(x):
    if x.sum() > 0:
        try:
            raise ExceptionGroup("group", [ValueError("a"), KeyError("b")])
        except* ValueError as group:
            x = x + len(group.exceptions)
    return x
"""


@pytest.fixture
def groups(tmp_path):
    """Functions with ``except*``, which Python has from 3.11 on."""
    if sys.version_info < (3, 11):
        pytest.skip("needs Python 3.11")
    (tmp_path / "groups.py").write_text(GROUPS, encoding="utf-8")
    return runpy.run_path(str(tmp_path / "groups.py"))


@pytest.mark.parametrize("name", ["taken_out_of_a_group", "taken_as_a_group", "taken_by_one_of_two_clauses"])
def test_an_exception_that_ends_in_a_group_clause_is_refused(name, groups):
    with pytest.raises(dy2st.CaptureError, match="would have to be caught by an except clause outside"):
        dy2st.to_static(groups[name])(CALLS[0])


@pytest.mark.parametrize("name", ["passed_by_groups", "group_within_a_branch"])
def test_an_exception_passes_group_clauses(name, groups, backend):
    check(groups[name], backend)


def with_a_list(x):
    error = ValueError("v")
    error.info = [1, [2]]
    if x.sum() > 5:
        raise error
    error.info.append(3)
    if x.sum() > 0:
        raise error
    return x


def test_what_an_exception_holds_is_made_anew(backend):
    static = dy2st.to_static(with_a_list, backend=backend)
    for x in (*CALLS, *CALLS):
        found = []
        for function in (with_a_list, static):
            try:
                function(x)
            except ValueError as error:
                found.append(str(error.info))
                error.info[1].append(4)
        assert len(set(found)) <= 1 and len(found) != 1


def made_before_the_statement(x):
    error = Own(x.sum())
    try:
        if x.max() > 0:
            raise error
    except Own as caught:
        caught.extra = 7
        return error.extra, caught is error, caught.code
    return error.extra


def changed_on_the_way(x):
    error = Own(x.sum())
    try:
        if x.max() > 0:
            error.code = error.code * 2
            if x.max() > 2:
                raise error
            error.extra = "late"
    except Own as caught:
        caught.more = 7
        return error.more, caught is error, caught.code
    return error.extra, error.code


def made_in_the_statement(x):
    error = None
    try:
        error = Own(x.sum())
        error.extra = "q" if x.min() > 0 else "r"
        if x.max() > 2:
            raise error
        error.extra = "t"
    except Own as caught:
        caught.more = 7
        return caught.code, error.more, error.extra, error is caught
    return error.extra


def made_in_the_branch(x):
    try:
        if x.max() > 0:
            raise Own(x.sum())
    except Own as caught:
        caught.extra = 7
        return caught.code, caught.extra
    return x


SAME = [made_before_the_statement, changed_on_the_way, made_in_the_statement, made_in_the_branch]


@pytest.mark.parametrize("program", SAME, ids=lambda program: program.__name__)
def test_what_is_caught_is_the_object_that_was_raised(program, backend):
    check(program, backend)


def test_what_is_caught_is_no_state_of_a_saved_model(tmp_path):
    dy2st.save(made_before_the_statement, tmp_path / "model", [dy2st.InputSpec([3])])
    for x in CALLS:
        assert outcome(made_before_the_statement, x) == outcome(dy2st.load(tmp_path / "model"), x)


def test_an_exception_with_an_attribute_that_is_one_of_several_keeps_its_cause():
    class Rejected(ValueError):
        def __init__(self, reason: str) -> None:
            super().__init__("rejected")
            self.reason = reason

    def f(x):
        reason = "large" if x.max() > 2 else "small"
        if x.sum() > 0:
            raise Rejected(reason) from KeyError("inner")
        return x

    static = dy2st.to_static(f)
    assert all(outcome(static, x) == outcome(f, x) for x in CALLS)
