"""The example models through the export targets."""

import pytest
import torch

import dy2st
from tests.examples.test_examples import load


def model(name):
    module = load(name)
    torch.manual_seed(0)
    if name == "lstm_loop":
        return module.LoopLSTM(), [module.ANY_LENGTH], None
    if name == "adaptive_ode":
        times = [torch.linspace(0, 2, count, dtype=torch.float64) for count in (2, 5, 9)]
        return module.NeuralODE(), module.ANY_TIMES, [(torch.randn(2, dtype=torch.float64), each) for each in times]
    if name == "quickstart":
        return module.DigitNet(), [module.ANY_BATCH], [(torch.rand(count, 1, 8, 8),) for count in (3, 1, 2, 64)]
    if name == "export_targets":
        return module.Reader(), [module.ANY_LENGTH], None
    return module.Decoder(), [module.ANY_PROMPT], None


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("lstm_loop", "pt2"),
        ("adaptive_ode", "pt2"),
        ("quickstart", "pt2"),
        pytest.param("greedy_decode", "pt2", marks=pytest.mark.slow),
        ("lstm_loop", "onnx"),
        pytest.param("adaptive_ode", "onnx", marks=pytest.mark.slow),
        pytest.param("quickstart", "onnx", marks=pytest.mark.slow),
        pytest.param("greedy_decode", "onnx", marks=pytest.mark.slow),
    ],
)
def test_each_example_exports_and_agrees_with_eager(name, format, tmp_path):
    if format == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    layer, specification, inputs = model(name)
    report = dy2st.export(layer, tmp_path / f"model.{format}", input_spec=specification, inputs=inputs)
    assert report.verified >= 3
    assert report.compared_with == "eager"
    assert report.largest_difference < 1e-3
