"""The parts of a module by name, where a tensor decides whether they are asked for."""

from __future__ import annotations

import torch

from tests.oracle import agree

CALLS = [(torch.tensor([1.0, 2.0]),), (torch.tensor([-1.0, -2.0]),), (torch.tensor([3.0, -1.0]),)]


class Tree(torch.nn.Module):
    """A module with parts in parts, one of them twice."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 2)
        self.rest = torch.nn.Sequential(self.first, torch.nn.ReLU(), torch.nn.Linear(2, 2))


class ByName(Tree):
    def forward(self, x):
        if x.sum() > 0:
            for name, part in self.named_modules():
                x = x + len(name) + isinstance(part, torch.nn.Linear)
            for name, _ in self.named_children():
                x = x * len(name)
        return self.rest(x)


class ThroughGenerators(Tree):
    def named(self):
        for name, part in self.named_modules(remove_duplicate=False):
            if part is not self:
                yield name, part

    def linear(self):
        for _, part in self.named():
            if isinstance(part, torch.nn.Linear):
                yield part

    def forward(self, x):
        while x.sum() > 0:
            for part in list(self.linear()):
                x = part(x).abs() - 1
            x = x - 1
        return x, len([*self.linear()])


def test_by_name():
    agree(ByName(), CALLS)


def test_through_generators():
    agree(ThroughGenerators(), CALLS)
