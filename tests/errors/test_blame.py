"""Whose fault an exception is that is raised during a capture: torch's tracing is not the user's code."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import sys
from typing import Any

import pytest
import torch

import dy2st
import dy2st.capture
import dy2st.constructs
from dy2st.capture.diagnostics.attribution import _innermost_is_users, _is_plain_torch
from dy2st.capture.values.provenance import Provenance
from dy2st.capture.values.roles import Role
from dy2st_runtime.ir.program import Location

TRACING = (
    "_decomp", "_dispatch", "_dynamo", "_export", "_functorch", "_guards", "_higher_order_ops", "_inductor", "_library",
    "_meta_registrations", "_ops", "_prims", "_prims_common", "_refs", "_subclasses", "export", "fx", "overrides", "utils._pytree",
    "utils._python_dispatch",
)  # fmt: skip
PLAIN = ("_tensor", "autograd", "distributions", "functional", "nn.functional", "nn.modules.linear", "optim", "utils.data")


@pytest.mark.parametrize("name", TRACING)
def test_code_that_traces_is_no_code_that_eager_runs(name: str) -> None:
    assert not _is_plain_torch(str(importlib.import_module(f"torch.{name}").__file__))


@pytest.mark.parametrize("name", PLAIN)
def test_code_that_eager_runs_is_told(name: str) -> None:
    assert _is_plain_torch(str(importlib.import_module(f"torch.{name}").__file__))


def test_other_code_is_no_code_of_torch() -> None:
    assert not _is_plain_torch(__file__)


def _raised_in(module: str) -> Exception:
    """What code of a module raises."""
    found = sys.modules[module]
    try:
        exec(compile("[][0]", str(found.__file__), "exec"), vars(found))
    except IndexError as error:
        return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)
    raise AssertionError


@pytest.mark.parametrize(
    "module", ["dy2st.capture.attributes.access", "dy2st.capture.library.items", "dy2st.constructs.subscripts"]
)
def test_what_acts_for_the_user_raises_what_the_users_code_does(module: str) -> None:
    assert _innermost_is_users(_raised_in(module))


@pytest.mark.parametrize(
    "module",
    ["dy2st.capture.session.session", "dy2st.capture.writes.undo_log", "dy2st.static.programs", "dy2st_runtime.ir.program"],
)
def test_what_keeps_the_books_raises_errors_of_ours(module: str) -> None:
    assert not _innermost_is_users(_raised_in(module))


def test_a_mark_decides_and_not_the_name_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["dy2st.capture.attributes.access"]
    monkeypatch.setattr(module, Role.ACTS.value, False, raising=False)
    assert not _innermost_is_users(_raised_in(module.__name__))


@pytest.mark.parametrize("package", [dy2st.capture, dy2st.constructs])
def test_packages_whose_code_acts_for_the_user_say_so(package: object) -> None:
    assert vars(package)[Role.ACTS.value] is True
    marks = {
        module.name: getattr(importlib.import_module(module.name), Role.ACTS.value, None)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    }  # type: ignore[attr-defined]
    assert set(marks.values()) <= {None, False}


def test_a_line_is_that_of_a_value_and_not_of_another_one_in_its_place() -> None:
    known, line = Provenance(), Location("model.py", 1)
    value = torch.ones(1)
    known.note(value, line)
    known.note(value, Location("model.py", 2))
    assert known.of(value) is line
    (entry,) = known._known.values()
    del value
    later = torch.ones(1)
    known._known = {id(later): entry}  # it stands where the first has been
    assert known.of(later) is None


def _function_in(module: str, text: str) -> Any:
    """A function of a module, as if it stood there."""
    found = sys.modules[module]
    made: dict[str, Any] = {}
    exec(compile(text, str(found.__file__), "exec"), vars(found), made)
    return next(iter(made.values()))


@pytest.mark.parametrize("name", ["StandIn", "missing"])
def test_a_name_that_the_capture_misses_is_a_defect_of_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = "dy2st.capture.library.copies"
    broken = _function_in(module, f'def copied(self, part): raise NameError("name {name!r} is not defined")')
    monkeypatch.setattr(sys.modules[module]._Deep, "copied", broken)

    @dy2st.to_static
    def f(x: Any) -> Any:
        try:
            return copy.deepcopy(x)
        except NameError:
            return x

    with pytest.raises(NameError) as caught:
        f(torch.ones(1))
    assert not isinstance(caught.value, dy2st.Dy2stError)
    assert any(note.startswith("raised by copied (") and "a mistake of dy2st" in note for note in caught.value.__notes__)


def test_an_unbound_name_of_the_users_is_no_defect() -> None:
    total = None

    def f(x: Any) -> Any:
        def inner(value: Any) -> None:
            nonlocal total
            total = value

        if total is None:  # noqa: F823
            total = 1
        inner(x)
        return total

    with pytest.raises(UnboundLocalError, match="'total'") as caught:
        dy2st.to_static(f)(torch.ones(1))
    assert not any("a mistake of dy2st" in note for note in caught.value.__notes__)
