"""Whose fault an exception is that is raised during a capture: torch's tracing is not the user's code."""

from __future__ import annotations

import importlib

import pytest

from dy2st.capture.blame import _is_plain_torch

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
