"""An LSTM written as a Python loop over time: one program for every sequence length.

    python examples/lstm_loop.py

The loop is `for t in range(x.shape[0])` with a length that is not known at capture, and a list that
grows inside it. The model learns to predict the next value of sine waves of random pitch; its last check
is `torch.nn.LSTM` itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dy2st

ANY_LENGTH = dy2st.InputSpec([None, None, 1], "float32", "x")


class LoopLSTM(nn.Module):
    """A one-layer LSTM and a linear head, over input of shape (time, batch, features)."""

    def __init__(self, features: int = 1, hidden: int = 24) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(features, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden)
        self.head = nn.Linear(hidden, features)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[1], self.hidden)
        c = x.new_zeros(x.shape[1], self.hidden)
        outputs = []
        for t in range(x.shape[0]):
            gates = self.from_input(x[t]) + self.from_state(h)
            i, f, g, o = gates.chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return self.head(torch.stack(outputs))


def waves(length: int, batch: int, generator: torch.Generator) -> Tensor:
    """Sine waves of random pitch and phase, of shape (length, batch, 1)."""
    pitch = 0.2 + 0.6 * torch.rand(batch, generator=generator)
    phase = 6.28 * torch.rand(batch, generator=generator)
    return torch.sin(torch.arange(length)[:, None] * pitch + phase)[:, :, None]


def train(model: nn.Module, steps: int) -> list[float]:
    """Train on a new length at each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        length = int(torch.randint(4, 24, (), generator=generator))
        series = waves(length + 1, 16, generator)
        loss = F.mse_loss(model(series[:-1]), series[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def library_lstm(model: LoopLSTM, x: Tensor) -> Tensor:
    """Return the same function by torch.nn.LSTM, with the same weights."""
    lstm = nn.LSTM(x.shape[2], model.hidden)
    weights = (model.from_input.weight, model.from_state.weight, model.from_input.bias, model.from_state.bias)
    for target, source in zip(lstm.parameters(), weights, strict=True):
        target.data.copy_(source)
    return model.head(lstm(x)[0])


def main(steps: int = 120) -> dict[str, object]:
    torch.manual_seed(0)
    eager = LoopLSTM()
    torch.manual_seed(0)
    static = dy2st.to_static(LoopLSTM(), input_spec=[ANY_LENGTH])

    eager_losses = train(eager, steps)
    static_losses = train(static, steps)
    assert static_losses == eager_losses, "the two trainings must agree bit for bit"
    training_programs = len(static.forward.program_cache)

    generator = torch.Generator().manual_seed(2)
    checked = {}
    with torch.no_grad():
        for length in (1, 2, 7, 50, 200):
            x = waves(length, 5, generator)
            assert torch.equal(static(x), eager(x))
            checked[length] = (static(x) - library_lstm(eager, x)).abs().max().item()

    print(f"loss {static_losses[0]:.4f} -> {static_losses[-1]:.4f}, the same as eager at all {steps} steps")
    for length, difference in checked.items():
        print(f"length {length:>3}: equal to eager, within {difference:.1e} of torch.nn.LSTM")
    print(f"programs: {training_programs} to train, {len(static.forward.program_cache)} with inference")
    return {
        "first_loss": static_losses[0],
        "last_loss": static_losses[-1],
        "identical_losses": static_losses == eager_losses,
        "lengths": checked,
        "training_programs": training_programs,
        "programs": len(static.forward.program_cache),
    }


if __name__ == "__main__":
    main()
