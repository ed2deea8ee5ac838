"""``dy2st quantize`` and ``dy2st prune``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("typer")
pytest.importorskip("rich")

import numpy

import dy2st
from tests.cli.test_commands import X, bad, good


class Net(nn.Module):
    """A layer in a branch and in a loop."""

    def __init__(self):
        super().__init__()
        self.first, self.cell = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        if x.sum() > 0:
            x = self.first(x)
        while x.norm() > 4:
            x = torch.tanh(self.cell(x)) * 0.8
        return x


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("saved") / "net.dy2st"
    dy2st.save(Net(), path, [dy2st.InputSpec([None, 64])], example_inputs=(torch.ones(2, 64),))
    return path


@pytest.mark.parametrize(
    ("command", "most"),
    [
        (["quantize"], 0.5),
        (["quantize", "--to", "int4"], 0.45),
        (["prune"], 1.01),
        (["prune", "--sparsity", "0.9", "--compact"], 0.6),
        (["prune", "--structured", "2:4", "--compact"], 0.85),
    ],
)
def test_a_smaller_archive_and_a_table(archive, tmp_path, command, most):
    output = tmp_path / "small.dy2st"
    text = good(*command, archive, "-o", output, "--seconds", 0)
    for part in ("size", "time of forward", "difference of forward", "2 weights are stored otherwise: first.weight, cell.weight"):
        assert part in text
    assert output.stat().st_size < most * archive.stat().st_size
    assert ": whole (" in good("check", output) and ("weight_int8" in good("show", output)) == (command == ["quantize"])
    assert good("run", output) != ""


def test_examples_come_from_files(archive, tmp_path):
    numpy.savez(tmp_path / "a.npz", x=torch.randn(3, 64).numpy())
    numpy.save(tmp_path / "b.npy", torch.randn(1, 64).numpy())
    text = good("quantize", archive, "-o", tmp_path / "small", "-e", tmp_path / "a.npz", "-e", tmp_path / "b.npy", "--seconds", 0)
    assert "difference of a.npz" in text and "difference of b.npy" in text and "%" in text


class Counting(nn.Module):
    """What it gives depends on how often it has been called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64, bias=False)
        self.register_buffer("calls", torch.zeros(()))
        with torch.no_grad():
            self.layer.weight[::2] = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


def test_no_example_sees_what_the_one_before_has_written(tmp_path):
    dy2st.save(Counting(), tmp_path / "m", [dy2st.InputSpec([None, 64])])
    numpy.save(tmp_path / "a.npy", torch.randn(1, 64).numpy())
    numpy.save(tmp_path / "b.npy", torch.randn(2, 64).numpy())
    text = good(
        "prune", tmp_path / "m", "-o", tmp_path / "zeros", "-e", tmp_path / "a.npy", "-e", tmp_path / "b.npy", "--seconds", 0
    )
    assert text.count("at most 0") == 2 and "0 %" in text


def test_without_examples_nothing_is_run(tmp_path):
    dy2st.save(nn.Linear(64, 64), tmp_path / "m", [dy2st.InputSpec([None, 64])])
    text = good("prune", tmp_path / "m", "-o", tmp_path / "small", "--seconds", 0)
    assert "not run: the archive has no examples" in text and "difference" not in text


def test_bad_input_is_refused_and_nothing_is_written(archive, tmp_path):
    output = tmp_path / "small.dy2st"

    def refused(*arguments):
        text = bad(*arguments, "-o", output, "--seconds", 0)
        assert not output.exists() and not list(tmp_path.glob(".dy2st-*"))
        return text

    assert "between 0 and 1, not 1.5" in refused("prune", archive, "--sparsity", 1.5)
    assert "between 0 and 1, not 0" in refused("prune", archive, "--sparsity", 0)
    assert "not nan" in refused("prune", archive, "--sparsity", "nan")
    assert "the sparsity is 0.5, not 0.7" in refused("prune", archive, "--structured", "2:4", "--sparsity", 0.7)
    assert "int3" in refused("quantize", archive, "--to", "int3")
    numpy.save(tmp_path / "x.npy", X.numpy())
    assert "error: " in refused("quantize", archive, "-e", tmp_path / "x.npy")
    assert "No such file" in refused("quantize", archive, "-e", tmp_path / "missing.npy")
    assert "No such file" in refused("quantize", tmp_path / "missing")
    (tmp_path / "text").write_text("text")
    assert "is not a dy2st archive" in refused("prune", tmp_path / "text")
    dy2st.save(nn.Linear(4, 4), tmp_path / "tiny", [dy2st.InputSpec([None, 4])])
    assert "no weights of at least 1024 numbers" in refused("quantize", tmp_path / "tiny")
    before = archive.read_bytes()
    assert "is the original" in bad("quantize", archive, "-o", archive)
    assert archive.read_bytes() == before
