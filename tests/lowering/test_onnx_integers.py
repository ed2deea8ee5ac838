"""Quantised weights stay integers in ONNX, in branches and loops too."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn

import dy2st
from dy2st.compressing.quantizing import quantized
from dy2st_runtime.archive import archive
from dy2st_runtime.module import LoadedModule

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.small, self.cell = nn.Embedding(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
        self.mixing = nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x, tokens):
        x = x + self.words(tokens)
        x = self.small(x) if x.sum() > 0 else x @ self.mixing
        while x.norm() > 4:
            x = torch.tanh(self.cell(x)) * 0.8
        return x


def operations(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from operations(attribute.g)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_archive_of_int8_weights(tmp_path, dtype):
    torch.manual_seed(0)
    specs = [dy2st.InputSpec([4, 64], str(dtype).removeprefix("torch.")), dy2st.InputSpec([4], "int64")]
    examples = (torch.randn(4, 64, dtype=dtype), torch.arange(4))
    dy2st.save(Net().to(dtype).eval(), tmp_path / "m", specs, example_inputs=examples)
    model, names, _ = quantized(archive.read_model(tmp_path / "m"), "int8")
    assert len(names) == 4
    loaded = LoadedModule(model.methods, model.state, examples=model.examples).eval()
    path = str(tmp_path / "m.onnx")
    inputs = [(sign * examples[0] * scale, examples[1]) for sign in (1, -1) for scale in (0.01, 1)]
    dy2st.export(loaded, path, inputs=inputs, **({} if dtype is torch.float32 else {"atol": 1e-2}))
    graph = onnx.load(path).graph
    kinds = collections.Counter(tuple(part.dims) for part in graph.initializer if part.data_type == onnx.TensorProto.INT8)
    assert kinds == {(64, 64): 4}
    assert not [part.name for part in graph.initializer if part.data_type != onnx.TensorProto.INT8 and tuple(part.dims) == (64, 64)]
    used = [node for node in operations(graph) if node.op_type == "DequantizeLinear"]
    assert len(used) >= 3 and any(attribute.name == "axis" for node in used for attribute in node.attribute)
