"""Weights that hooks of torch compute before a layer runs: ``prune``, ``weight_norm``, ``spectral_norm``."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import dy2st

X = torch.arange(8.0).view(2, 4) - 3


def pruned(layer):
    return prune.l1_unstructured(layer, "weight", amount=0.5)


def normed(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(layer)


class Net(nn.Module):
    def __init__(self, hooked):
        super().__init__()
        torch.manual_seed(3)
        self.layer = hooked(nn.Linear(4, 4))

    def forward(self, x):
        y = self.layer(x)
        if y.sum() > 0:
            y = self.layer(y)
        return y


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("hooked", [pruned, normed, nn.utils.spectral_norm], ids=["prune", "weight_norm", "spectral_norm"])
def test_the_layer_has_the_weight_of_the_last_call(hooked, training):
    eager = Net(hooked).train(training)
    net = Net(hooked).train(training)
    static = dy2st.to_static(net)
    for x in (X, -X, X * 2):
        expected, found = eager(x), static(x)
        assert torch.equal(found, expected)
        assert torch.equal(net.layer.weight, eager.layer.weight)
        assert (net.layer.weight.grad_fn is None) is (eager.layer.weight.grad_fn is None)
        for one in (eager, net):
            for parameter in one.parameters():
                parameter.data.mul_(2)
