"""A model with control flow on tensors, and its data, for trainers of other packages."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Settling(nn.Module):
    """Takes one of two layers, and repeats another until the norm is small."""

    def __init__(self, size=8, classes=3):
        super().__init__()
        self.small, self.large = nn.Linear(size, size), nn.Linear(size, size)
        self.cell, self.head = nn.Linear(size, size), nn.Linear(size, classes)

    def settled(self, x):
        h = self.small(x) if x.abs().max() < 2.5 else self.large(x).relu()
        steps = 0
        while h.norm() > 3 and steps < 4:
            h = torch.tanh(self.cell(h)) * 0.8
            steps += 1
        return h

    def forward(self, x):
        return self.head(self.settled(x))


class Experts(Settling):
    """Drops out on one way only, besides."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.1)

    def forward(self, x):
        h = self.settled(x)
        if h.mean() > 0:
            h = self.drop(h)
        return self.head(self.norm(h))


class WithLoss(nn.Module):
    """The same as Hugging Face's trainer wants it: with the loss among its results."""

    def __init__(self):
        super().__init__()
        self.model = Experts()

    def forward(self, x, labels=None):
        scores = self.model(x)
        return {"loss": F.cross_entropy(scores, labels), "scores": scores}


def data(count=64):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(count, 8, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def loader(shuffle=True):
    return DataLoader(TensorDataset(*data()), batch_size=8, shuffle=shuffle)


def made(make):
    """A model with the weights that all have."""
    torch.manual_seed(0)
    return make()


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(map(torch.equal, one.values(), other.values()))


def programs(static):
    return len(static.program_cache)
