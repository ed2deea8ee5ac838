"""Methods that are training steps, for the tests of saved ones."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import dy2st


class Net(nn.Module):
    """A loop and a branch that tensors decide, statistics, random numbers."""

    def __init__(self):
        super().__init__()
        self.cell, self.norm, self.head = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x):
        x = torch.tanh(self.cell(self.norm(x)))
        count = 0
        while x.norm() > 0.5 and count < 5:
            x, count = torch.tanh(self.cell(x)) * 0.7, count + 1
        y = self.head(F.dropout(x, 0.3))
        return y * 2 if y.mean() > 0 else y - 1


class Plain(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


class Trainer(nn.Module):
    def __init__(self, net, optimizer, **options):
        super().__init__()
        self.net = net()
        self.optimizer = getattr(torch.optim, optimizer)(self.net.parameters(), lr=0.05, **options)

    @dy2st.to_static
    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss


class Scheduled(Trainer):
    """Numbers of a scheduler, autocast, attributes that the step leaves."""

    def __init__(self, net, optimizer, **options):
        super().__init__(net, optimizer, **options)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 10)
        self.best, self.history = float("inf"), [torch.zeros(()), torch.zeros(())]

    @dy2st.to_static
    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        if loss.item() < self.best:
            self.best = loss.item()
        self.history[0] = self.history[1]
        self.history[1] = loss.detach()
        return {"loss": loss, "rate": self.scheduler.get_last_lr()[0]}


class Accumulating(Trainer):
    """Steps of the optimizer after each second batch, whose gradients stay on the weights from call to call."""

    def __init__(self, net, optimizer, **options):
        super().__init__(net, optimizer, **options)
        self.count = 0

    @dy2st.to_static
    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y) / 2
        loss.backward()
        self.count += 1
        if self.count % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss


class Adding(Trainer):
    """Adds to the gradients that the weights had when they were saved."""

    @dy2st.to_static
    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


class ByHand(Trainer):
    """Gradients without ``.grad``, in a loop."""

    @dy2st.to_static
    def step(self, x, y):
        parameters = list(self.net.parameters())
        for _ in range(2):
            loss = F.mse_loss(self.net(x), y)
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients):
                    parameter -= 0.1 * gradient
        return loss
