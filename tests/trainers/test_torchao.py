"""Models that torchao has quantised, and trains with fake quantisers, as programs: run, saved and exported."""

from __future__ import annotations

import copy
import importlib
import importlib.util

import pytest
import torch
from torch.nn import functional as F

import dy2st
import dy2st_runtime
from tests.trainers.models import Settling, made, same_state

torchao = pytest.importorskip("torchao")
pytestmark = pytest.mark.filterwarnings("ignore")

from torchao import quantization  # noqa: E402

INT4 = quantization.PerGroup(32)
CONFIGS = {
    "int8 weights": quantization.Int8WeightOnlyConfig(),
    "int4 weights": quantization.IntxWeightOnlyConfig(torch.int4, granularity=INT4),
    "int8 inputs": quantization.Int8DynamicActivationInt8WeightConfig(),
    "int8 inputs, int4 weights": quantization.Int8DynamicActivationIntxWeightConfig(torch.int4, INT4),
}


def inputs():
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    return [x * 0.1, x, x * 3]


def quantised(config, seed=0):
    torch.manual_seed(seed)
    model = Settling(64, 8).eval()
    quantization.quantize_(model, config)
    return model


@pytest.fixture(params=list(CONFIGS))
def models(request):
    eager = quantised(CONFIGS[request.param])
    return eager, dy2st.to_static(copy.deepcopy(eager)), CONFIGS[request.param]


def agree(eager, other):
    return all(torch.equal(eager(x), other(x)) for x in inputs())


def test_weights_are_those_that_are_there_now(models):
    eager, static, config = models
    assert agree(eager, static)
    others = quantised(config, seed=1)
    for model in (eager, static):
        model.large.weight = others.large.weight
        model.load_state_dict(others.state_dict() | {"small.weight": eager.small.weight}, strict=False)
    assert agree(eager, static)
    with torch.no_grad():
        for model in (eager, static):
            model.cell.weight.scale = model.cell.weight.scale * 2
    assert agree(eager, static)
    assert len(static.forward.program_cache) == 1


def test_the_program_has_the_parts_of_the_weights(models):
    _, static, _ = models
    names = [slot.name for slot in static.forward.program(inputs()[0]).states]
    assert "self.small.weight.qdata" in names and not any(name.startswith("constant") for name in names)


def test_a_quantised_model_is_saved(models, tmp_path):
    eager, static, _ = models
    dy2st.save(static, tmp_path / "q.dy2st", input_spec=[dy2st.InputSpec([4, 64])])
    dy2st.save(dy2st.to_static(Settling(64, 8)), tmp_path / "f.dy2st", input_spec=[dy2st.InputSpec([4, 64])])
    loaded = dy2st_runtime.load(tmp_path / "q.dy2st", namespaces=["torchao"])
    assert agree(eager, loaded)
    assert (tmp_path / "q.dy2st").stat().st_size < 0.7 * (tmp_path / "f.dy2st").stat().st_size
    loaded.save(tmp_path / "again.dy2st")
    assert agree(eager, dy2st_runtime.load(tmp_path / "again.dy2st", namespaces=["torchao"]))


@pytest.mark.parametrize("target", ["onnx", "pt2"])
def test_a_quantised_model_is_exported(models, target, tmp_path):
    if target == "onnx" and importlib.util.find_spec("onnxscript") is None:
        pytest.skip("onnxscript is not installed")
    eager, static, config = models
    rounds = isinstance(config, quantization.Int8DynamicActivationInt8WeightConfig) and target == "onnx"
    tolerance = {"atol": 1e-2} if rounds else {}  # an input between two whole numbers may become the other one
    path = tmp_path / f"model.{target}"
    dy2st.export(static, str(path), input_spec=[dy2st.InputSpec([4, 64])], inputs=[(x,) for x in inputs()], **tolerance)
    assert path.stat().st_size > 0
    if target == "onnx" and config is CONFIGS["int8 weights"]:
        parts = importlib.import_module("onnx").load(path).graph.initializer
        assert sorted(sorted(part.dims) for part in parts if part.data_type == 3) == [[8, 64], [64, 64], [64, 64], [64, 64]]
        assert not [part.name for part in parts if part.data_type == 1 and list(part.dims) == [64, 64]]


def train(model):
    torch.manual_seed(1)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for x in inputs() * 2:
        loss = F.cross_entropy(model(x), torch.tensor([0, 1, 2, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def prepared():
    from torchao.quantization.qat import QATConfig

    model = Settling(64, 8)
    config = quantization.Int8DynamicActivationIntxWeightConfig(torch.int4, INT4)
    quantization.quantize_(model, QATConfig(config, step="prepare"))
    return model


def test_training_with_fake_quantisers_is_that_of_eager():
    eager, static = made(prepared), dy2st.to_static(made(prepared))
    assert all(map(torch.equal, train(eager), train(static)))
    assert same_state(eager, static)
