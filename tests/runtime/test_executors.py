"""Which executor runs a program."""

from __future__ import annotations

import pytest
import torch

import dy2st
from dy2st_runtime import executors


def double(x):
    return x * 2


def test_unknown_names_list_those_there_are(monkeypatch):
    with pytest.raises(dy2st.BackendError, match="no backend 'xla'; choose one of 'python'"):
        executors.choose("xla")
    monkeypatch.setenv("DY2ST_BACKEND", "fast")
    with pytest.raises(ValueError, match="no backend 'fast' .*DY2ST_BACKEND"):
        dy2st.to_static(double)(torch.ones(2))
    assert torch.equal(dy2st.to_static(double, backend="python")(torch.ones(2)), torch.full((2,), 2.0))


def test_a_runner_is_made_once_and_goes_with_its_program(monkeypatch):
    made = []

    def counted(program):
        made.append(program.name)
        return executors.BACKENDS["python"](program)

    monkeypatch.setitem(executors.BACKENDS, "counted", counted)
    static = dy2st.to_static(double, backend="counted")
    for value in (1.0, 2.0):
        assert torch.equal(static(torch.full((3,), value)), torch.full((3,), 2 * value))
    assert made == ["double"]
    static(torch.ones(4))
    assert len(made) == 2


def test_loaded_models_take_a_backend(tmp_path, monkeypatch):
    model = dy2st.to_static(torch.nn.Linear(2, 2), input_spec=[dy2st.InputSpec([None, 2])])
    dy2st.save(model, tmp_path / "model.dy2st")
    ran = []
    monkeypatch.setitem(
        executors.BACKENDS, "seen", lambda program: lambda values: ran.append(1) or executors.runner(program)(values)
    )
    loaded = dy2st.load(tmp_path / "model.dy2st", backend="seen")
    x = torch.randn(3, 2)
    assert torch.equal(loaded(x), model(x)) and ran == [1]
    with pytest.raises(dy2st.BackendError):
        dy2st.load(tmp_path / "model.dy2st", backend="xla")
