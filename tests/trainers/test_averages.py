"""Averaged weights, and metrics of torchmetrics, with static models."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.optim import swa_utils

import dy2st
from tests.trainers.models import Experts, data, loader, made, programs, same_state


def train(model, **average):
    averaged = swa_utils.AveragedModel(model, **average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        for x, y in loader():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        averaged.update_parameters(model)
        scheduler.step()
    swa_utils.update_bn(loader(), averaged)
    averaged.eval()
    return losses, averaged


@pytest.mark.parametrize(
    "average", [{}, {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9), "use_buffers": True}], ids=["swa", "ema"]
)
def test_averages_are_those_of_eager(average):
    expected, eager = train(made(Experts), **average)
    losses, static = train(dy2st.to_static(made(Experts)), **average)
    assert all(map(torch.equal, expected, losses))
    assert same_state(eager, static)
    x = data()[0]
    assert torch.equal(eager(x), static(x))
    assert isinstance(static.module.forward, dy2st.StaticFunction) and programs(static.module.forward) > 0


METRICS = {
    "accuracy": lambda t: t.Accuracy(task="multiclass", num_classes=3),
    "f1": lambda t: t.F1Score(task="multiclass", num_classes=3, average="macro"),
    "mean": lambda t: t.MeanMetric(),
    "collection": lambda t: t.MetricCollection(
        [t.Accuracy(task="multiclass", num_classes=3), t.Recall(task="multiclass", num_classes=3)]
    ),
}


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_a_static_model(name, static):
    torchmetrics = pytest.importorskip("torchmetrics")
    results = []
    for make_static in (False, True):
        model, metric = made(Experts).eval(), METRICS[name](torchmetrics)

        def step(x, y):
            scores = model(x)
            return metric(F.cross_entropy(scores, y)) if name == "mean" else metric(scores, y)

        if make_static and static:
            step = dy2st.to_static(step)  # the metric is a part of the program
        elif make_static:
            model = dy2st.to_static(model)
        each = [step(x, y) for x, y in loader(shuffle=False)]
        results.append((each, metric.compute()))
    assert repr(results[0]) == repr(results[1])
