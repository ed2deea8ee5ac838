"""Small models, made by a number: their ranks take different branches, different numbers of iterations and early exits."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

WIDTH = 8
KINDS = ("branch", "loop", "skip", "norm", "exit", "either")


class Layer(nn.Module):
    """One step: where a number is above a limit, it does something else."""

    def __init__(self, kind: str, limit: float) -> None:
        super().__init__()
        self.kind, self.limit = kind, limit
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        if self.kind == "branch":
            if seen > self.limit:
                return torch.relu(self.first(x))
            return torch.tanh(self.second(x))
        if self.kind == "loop":
            steps = 0
            while seen > self.limit and steps < 4:
                x = x + 0.3 * torch.tanh(self.first(x))
                seen = seen * 0.7 - 0.05
                steps += 1
            return self.second(x)
        if self.kind == "skip":
            return x if seen > self.limit else x + self.first(x)
        if self.kind == "all":
            return torch.relu(self.norm(self.first(x))) * seen + self.second(x)
        if self.kind == "either":
            layer = self.first if seen > self.limit else self.second
            return torch.tanh(layer(x))
        return torch.relu(self.norm(self.first(x)))


class Net(nn.Module):
    """A few of them.

    Args:
        number: of the model.
        by_data: whether what decides is in the data of a process, or the same in all processes.
        kinds: of the steps.
    """

    def __init__(self, number: int, by_data: bool = True, kinds: Iterable[str] = KINDS) -> None:
        super().__init__()
        choose = random.Random(number)
        torch.manual_seed(number)
        self.by_data = by_data
        chosen = [choose.choice(list(kinds)) for _ in range(choose.randint(2, 4))]
        self.layers = nn.ModuleList(Layer(kind, choose.uniform(-0.4, 0.4)) for kind in chosen)
        self.head = nn.Linear(WIDTH, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for layer in self.layers:
            seen = x.mean() * 3 if self.by_data else torch.sin(self.calls * 2) * 0.6
            x = layer(x, seen)
            if layer.kind == "exit" and seen > layer.limit:
                return self.head(x)
        return self.head(x * 2)


def batches(rank: int, count: int) -> list[torch.Tensor]:
    """Return what one process trains on."""
    generator = torch.Generator().manual_seed(17 + rank)
    return [torch.randn(6, WIDTH, generator=generator) + 0.3 * (rank - 0.5) for _ in range(count)]


def train(model: nn.Module, data: Iterable[torch.Tensor], every: int = 1, **settings: Any) -> list[float]:
    """Train a model by gradient descent and return the losses.

    Args:
        model: to be trained.
        data: a batch for each pass.
        every: how many passes there are to a step of the optimizer; those before the last of them are not synchronized.
        **settings: of the optimizer.
    """
    optimizer = torch.optim.SGD(model.parameters(), **{"lr": 0.05, "momentum": 0.9, **settings})
    losses = []
    for number, batch in enumerate(data):
        is_last = number % every == every - 1
        with torch.enable_grad() if is_last else model.no_sync():
            loss = model(batch).square().mean()
            loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def whole(value: Any) -> Any:
    """Return a tensor with the parts of all processes."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def differences(expected: nn.Module, found: nn.Module) -> float:
    """Return by how much two modules differ in a parameter or buffer at most."""
    pairs = zip((*expected.parameters(), *expected.buffers()), (*found.parameters(), *found.buffers()), strict=True)
    return max((whole(a.detach()) - whole(b.detach())).abs().max().item() for a, b in pairs if a.numel())


def compared(make: Callable[[], nn.Module], eager: Any, static: Any, rank: int, steps: int = 20, **settings: Any) -> str:
    """Train one model in eager and as a program, and return what is different: nothing.

    Args:
        make: makes the model.
        eager: what makes of it what is trained.
        static: the same for programs.
        rank: of this process.
        steps: of training.
        **settings: see :func:`train`.
    """
    model = make()
    expected, found = eager(copy.deepcopy(model)), static(model)
    data = batches(rank, steps)
    losses = [train(one, data, **settings) for one in (expected, found)]
    different = differences(expected, found)
    return "" if losses[0] == losses[1] and different == 0 else f"losses {losses}, weights differ by {different}"
