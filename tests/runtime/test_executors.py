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
        return executors.BACKENDS["python"].runner(program)

    monkeypatch.setitem(executors.BACKENDS, "counted", executors.Backend(counted))
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
        executors.BACKENDS,
        "seen",
        executors.Backend(lambda program: lambda values: ran.append(1) or executors.runner(program)(values)),
    )
    loaded = dy2st.load(tmp_path / "model.dy2st", backend="seen")
    x = torch.randn(3, 2)
    assert torch.equal(loaded(x), model(x)) and ran == [1]
    with pytest.raises(dy2st.BackendError):
        dy2st.load(tmp_path / "model.dy2st", backend="xla")


def write_within(depth, y, limit):
    if depth == 0:
        y.add_(1)
    elif y.sum() > limit:
        write_within(depth - 1, y, limit)


def print_within(depth, y, limit):
    if depth == 0:
        print("within")
    elif y.sum() > limit:
        print_within(depth - 1, y, limit)


def raise_within(depth, y, limit):
    if depth == 0:
        raise ValueError("within")
    if y.sum() > limit:
        raise_within(depth - 1, y, limit)


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("depth", [11, 12])
@pytest.mark.parametrize("function", [write_within, print_within, raise_within])
def test_blocks_without_results_do_what_they_do_at_any_depth(function, depth, backend, capsys):
    static = dy2st.to_static(function, backend=backend)
    for limit in (-1, 100, 2):
        done = []
        for call in (function, static):
            y, error = torch.ones(3), None
            try:
                with torch.no_grad():
                    call(depth, y, torch.tensor(limit))
            except ValueError as raised:
                error = str(raised)
            done.append((y.tolist(), error, capsys.readouterr().out))
        assert done[0] == done[1]
    assert len(static.program_cache) == 1
