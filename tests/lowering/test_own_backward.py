"""Models with a backward of their own, where nobody asks for gradients: as exports, for inference, and without Python."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

import dy2st
from dy2st_runtime.executors.native import build


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round() if x.sum() > 0 else x.floor()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x if g.sum() > 0 else g


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x, x * alpha

    @staticmethod
    def backward(ctx, g, h):
        return -g * ctx.alpha, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = Round.apply(self.layer(x) * 3)
        while y.norm() > 2:
            y = Reverse.apply(y, 2)[0] / 2
        return Reverse.apply(y, 3)[1] if y.sum() > 0 else -y


X = torch.linspace(-1, 2, 12).reshape(4, 3)


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_exports_give_eagers_results(kind, tmp_path):
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
    report = dy2st.export(dy2st.to_static(Model()), tmp_path / f"model.{kind}", input_spec=[X])
    assert "largest difference 0" in str(report)


def test_a_model_for_inference_keeps_no_backward(tmp_path):
    model = Model()
    dy2st.save_inference_model(tmp_path / "model.dy2st", model, input_spec=[X])
    loaded = dy2st.load(tmp_path / "model.dy2st")
    text = str(loaded.program)
    assert "= backward with" not in text and "apply_" not in text
    for x in (X, -X):
        assert torch.equal(loaded(x), model(x))


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_a_saved_model_runs_without_python(tmp_path):
    model, path = Model(), tmp_path / "model.dy2st"
    dy2st.save(model, path, input_spec=[X])
    np.save(tmp_path / "x.npy", X.numpy())
    words = [build.build_runner(quiet=True), path, "--input", tmp_path / "x.npy", "--output", tmp_path / "out"]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "out").iterdir()
    assert torch.equal(torch.from_numpy(np.load(file)), model(X).detach())


def test_onnxruntime_runs_it():
    pytest.importorskip("onnxruntime")
    model = Model()
    static = dy2st.to_static(Model(), backend="onnxruntime")
    with torch.no_grad():
        for x in (X, -X):
            assert torch.equal(static(x), model(x))
