"""Fake quantisers, observers, pruning, parametrisations and distillation: their statistics and masks are state of the program."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

import dy2st
from tests.trainers.models import Settling

UINT8 = {"observer": quantization.MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255}
INT8 = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}


class Quantized(nn.Module):
    """Observes or quantises everywhere, in a branch, and in a loop."""

    def __init__(self, make):
        super().__init__()
        self.first, self.cell, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.inputs, self.inside, self.weights = make(), make(), make()

    def forward(self, x):
        h = F.linear(self.inputs(x), self.weights(self.first.weight), self.first.bias)
        if h.abs().max() > 2:
            h = self.inside(h)
        steps = 0
        while h.norm() > 3 and steps < 4:
            h = self.inside(torch.tanh(self.cell(h)) * 0.7)
            steps += 1
        return self.head(h)


def learnable():
    result = _LearnableFakeQuantize(quantization.MovingAverageMinMaxObserver, 0, 255, scale=0.1, zero_point=0.0)
    result.toggle_qparam_learning()
    return result


PER_CHANNEL = quantization.FakeQuantize.with_args(
    observer=quantization.MovingAveragePerChannelMinMaxObserver, qscheme=torch.per_channel_symmetric, ch_axis=0, **INT8
)
QUANTISERS = {
    "fused": quantization.FusedMovingAvgObsFakeQuantize.with_args(**UINT8),
    "moving average": quantization.FakeQuantize.with_args(**UINT8),
    "minimum and maximum": quantization.FakeQuantize.with_args(
        observer=quantization.MinMaxObserver, qscheme=torch.per_tensor_symmetric, **INT8
    ),
    "learnable": learnable,
    "observer: minimum and maximum": quantization.MinMaxObserver,
    "observer: moving average": quantization.MovingAverageMinMaxObserver,
    "observer: histogram": quantization.HistogramObserver,
}


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


class Bounded(nn.Module):
    """Looks at the weight."""

    def forward(self, weight):
        return weight / weight.norm() if weight.norm() > 1 else weight


class Cached(nn.Module):
    """Uses its weights more than once: in a loop, and on one way only."""

    def __init__(self, parametrization):
        super().__init__()
        self.inner = Settling()
        parametrize.register_parametrization(self.inner.cell, "weight", parametrization)

    def forward(self, x):
        if x.sum() > 0:
            with parametrize.cached():
                return self.inner(x) + self.inner(x * 2)
        return self.inner(x)


class Distilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = Settling(), Settling().eval().requires_grad_(False)

    def forward(self, x):
        scores = self.student(x)
        with torch.no_grad():
            goal = self.teacher(x)
        apart = F.kl_div(F.log_softmax(scores / 2, -1), F.softmax(goal / 2, -1), reduction="batchmean")
        return scores * (1 + apart) if apart > 0.05 else scores + apart


def prepared_for_training():
    model = Settling().train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    return quantization.prepare_qat(model)


def prepared():
    model = Settling()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    return quantization.prepare(model.eval())


def pruned():
    model = Settling()
    prune.l1_unstructured(model.small, "weight", 0.3)
    prune.ln_structured(model.large, "weight", 0.25, 2, 0)
    prune.global_unstructured([(model.cell, "weight"), (model.head, "weight")], prune.L1Unstructured, amount=0.4)
    return model


def parametrized():
    model = Settling()
    parametrizations.orthogonal(model.small)
    parametrizations.spectral_norm(model.cell)
    parametrizations.weight_norm(model.large)
    return model


def bounded():
    model = Settling()
    parametrize.register_parametrization(model.small, "weight", Symmetric())
    parametrize.register_parametrization(model.cell, "weight", Bounded())
    return model


MODELS = {name: lambda make=make: Quantized(make) for name, make in QUANTISERS.items()} | {
    "prepare_qat": prepared_for_training,
    "prepare": prepared,
    "pruned": pruned,
    "parametrized": parametrized,
    "a parametrization that looks": bounded,
    "cached": lambda: Cached(Symmetric()),
    "cached, a parametrization that looks": lambda: Cached(Bounded()),
    "distilled": Distilled,
}


def batches(count=6):
    generator = torch.Generator().manual_seed(5)
    for number in range(count):
        x = torch.randn(8, 8, generator=generator) * (1 + number % 3)
        yield x, torch.randint(0, 3, (8,), generator=generator)


def train(model, seed=3):
    torch.manual_seed(seed)
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for x, y in batches():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    model.eval()
    losses.append(model(next(batches())[0]).detach())
    return losses


def same(make, first=lambda model: None):
    results = []
    for static in (False, True):
        torch.manual_seed(0)
        model = make()
        first(model)
        if static:
            model = dy2st.to_static(model)
        results.append((train(model), model.state_dict(), model))
    (losses, state, _), (static_losses, static_state, model) = results
    assert all(map(torch.equal, losses, static_losses))
    assert state.keys() == static_state.keys() and all(map(torch.equal, state.values(), static_state.values()))
    return model


@pytest.mark.filterwarnings("ignore:.*(torch.ao.quantization|reduce_range)")
@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_eager(name):
    model = same(MODELS[name])
    assert len(model.forward.program_cache) <= 3  # training, evaluation, and with the fake quantisers of a new state


@pytest.mark.parametrize("make", [lambda: Quantized(PER_CHANNEL), lambda: Quantized(quantization.PerChannelMinMaxObserver)])
def test_observers_of_channels_take_their_shape_before_they_are_static(make):
    with pytest.raises(dy2st.CaptureError, match="resize_ changes a shape in place"):
        dy2st.to_static(make())(torch.randn(8, 8))

    def calibrate(model):
        model(3 * torch.randn(8, 8))
        model.inside(torch.randn(8, 8))

    same(make, calibrate)


def test_an_observer_that_records_keeps_each_tensor():
    model = dy2st.to_static(Quantized(quantization.RecordingObserver))
    inputs = [x for x, _ in batches(3)]
    for x in inputs:
        model(x)
    assert len(model.inputs.tensor_val) == 3 and all(map(torch.equal, model.inputs.tensor_val, inputs))


class Counting(nn.Linear):
    """A layer of torch, with a weight that converted code gives, and that counts how often."""

    def __init__(self):
        super().__init__(8, 8)
        self.given = nn.Parameter(self._parameters.pop("weight").detach().clone())
        self.count = 0

    @property
    def weight(self):
        self.count += 1
        return self.given if self.given.sum() > 0 else -self.given

    @weight.setter
    def weight(self, value):
        self._parameters["weight"] = value


def test_a_property_that_a_layer_of_torch_reads_is_converted():
    torch.manual_seed(0)
    model, x = dy2st.to_static(nn.Sequential(Counting())), torch.randn(4, 8)
    for sign in (1, -1):
        with torch.no_grad():
            model[0].given.copy_(sign * torch.ones(8, 8))
        assert torch.equal(model(x), F.linear(x, torch.ones(8, 8), model[0].bias))
    assert model[0].count == 2
