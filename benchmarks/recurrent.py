"""Workloads whose loop carries a hidden state or a cache: an LSTM over time, greedy decoding, early exit."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import Case, workload


class LoopLSTM(nn.Module):
    """An LSTM cell in a Python loop over time."""

    def __init__(self, features: int = 32, hidden: int = 64) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(features, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden)

    def cell(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return one step."""
        i, f, g, o = (self.from_input(x) + self.from_state(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Tensor) -> Tensor:
        """Return all hidden states."""
        h = torch.zeros(x.shape[1], self.hidden)
        c = torch.zeros(x.shape[1], self.hidden)
        outputs = []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], h, c)
            outputs.append(h)
        return torch.stack(outputs)


class LoopLSTMUpTo(LoopLSTM):
    """The same up to a length that a tensor decides."""

    def forward(self, x: Tensor, length: Tensor) -> Tensor:  # type: ignore[override]
        """Return the hidden states up to the length."""
        h = torch.zeros(x.shape[1], self.hidden)
        c = torch.zeros(x.shape[1], self.hidden)
        outputs = []
        for t in range(int(length)):
            h, c = self.cell(x[t], h, c)
            outputs.append(h)
        return torch.stack(outputs)


@workload("lstm-train")
def _lstm() -> Case:
    torch.manual_seed(0)
    return Case(LoopLSTM(), [(torch.randn(64, 16, 32),)], train=True)


@workload("lstm-data-train")
def _lstm_data() -> Case:
    torch.manual_seed(0)
    return Case(LoopLSTMUpTo(), [(torch.randn(64, 16, 32), torch.tensor(48))], train=True)


class DecoderBlock(nn.Module):
    """A transformer block that attends to what its cache holds and gives back the grown cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return one new token."""
        q, k, v = self.qkv(self.norm1(x)).view(1, 3, self.heads, -1).permute(1, 2, 0, 3).unbind(0)
        keys = torch.cat([keys, k], dim=1)
        values = torch.cat([values, v], dim=1)
        mixed = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(mixed.transpose(0, 1).reshape(1, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), keys, values


class Decoder(nn.Module):
    """A decoder that writes tokens until the end token or a limit."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, vocabulary: int = 64, limit: int = 64) -> None:
        super().__init__()
        self.heads, self.size, self.limit, self.end = heads, width // heads, limit, 0
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(limit, width)
        self.blocks = nn.ModuleList([DecoderBlock(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, token: Tensor) -> Tensor:
        """Return the tokens after the given one."""
        keys = []
        values = []
        for _ in self.blocks:
            keys.append(torch.zeros(self.heads, 0, self.size))
            values.append(torch.zeros(self.heads, 0, self.size))
        tokens = token
        for t in range(self.limit):
            x = self.embedding(token) + self.position.weight[t]
            for layer, block in enumerate(self.blocks):
                x, keys[layer], values[layer] = block(x, keys[layer], values[layer])
            token = self.head(self.norm(x)).argmax(dim=-1)
            tokens = torch.cat([tokens, token])
            if token == self.end:
                break
        return tokens


@workload("greedy-decode")
def _decode() -> Case:
    start = torch.tensor([1])
    for seed in range(1000):
        torch.manual_seed(seed)
        decoder = Decoder().eval()
        with torch.no_grad():
            length = len(decoder(start))
        if 40 <= length <= 56:  # it stops early, and not at once
            return Case(decoder, [(start,)])
    raise AssertionError("no seed gives weights whose text ends in time")


class EarlyExit(nn.Module):
    """A stack of layers that stops once it is sure."""

    def __init__(self, width: int = 64, depth: int = 12, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, threshold: Tensor) -> Tensor:
        """Scores of the classes."""
        scores = self.head(x)
        for layer in self.layers:
            if torch.softmax(scores, dim=-1).max() > threshold:
                return scores  # type: ignore[no-any-return]
            x = x + torch.relu(layer(x))
            scores = self.head(x)
        return scores  # type: ignore[no-any-return]


@workload("early-exit")
def _early_exit() -> Case:
    torch.manual_seed(0)
    model = EarlyExit().eval()
    inputs = [torch.randn(1, 64) for _ in range(4)]
    thresholds = [torch.tensor(value) for value in (0.3, 0.45, 0.6, 1.0)]
    return Case(model, list(zip(inputs, thresholds, strict=True)))
