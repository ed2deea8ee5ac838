"""Whose fault an exception is that is raised during a capture: torch's tracing is not the user's code."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import pytest

import dy2st.capture
import dy2st.constructs
from dy2st.capture.diagnostics.attribution import _innermost_is_users, _is_plain_torch
from dy2st.capture.values.roles import Role

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
