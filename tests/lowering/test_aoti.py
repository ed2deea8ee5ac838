"""Programs as AOTInductor packages; compiling one takes ten seconds or more."""

import shutil

import pytest
import torch

import dy2st
from dy2st import ExportError
from tests.lowering.programs import FUNCTIONS, made

compiled = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "Counter"])
def test_every_program(name, tmp_path):
    layer, specification = made(name)
    report = dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)
    assert report.format == "aoti"
    assert report.verified >= 4
    assert report.largest_difference < 1e-5
    assert torch._inductor.aoti_load_package(str(tmp_path / "model.pt2")) is not None


def test_state_is_refused(tmp_path):
    layer, specification = made("Counter")
    with pytest.raises(ExportError, match=r"an AOTInductor package keeps nothing|no C\+\+ compiler"):
        dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    layer, specification = made("two_ways")
    with pytest.raises(ExportError, match=r"there is no C\+\+ compiler"):
        dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)
