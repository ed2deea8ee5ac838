"""Networks without control flow, written out: LeNet, ResNet-18, MobileNetV2, and a small BERT and Llama."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import Case, workload


class LeNet(nn.Module):
    """Two convolutions and three linear layers, for 28x28 images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        """Return one block."""
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.around(x))


class ResNet18(nn.Module):
    """Eight residual blocks."""

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.blocks = nn.Sequential(*[Residual(*width) for width in widths])
        self.head = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))  # type: ignore[no-any-return]


def _conv(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, act: bool = True) -> nn.Sequential:
    layers = [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outside)]
    return nn.Sequential(*layers, *([nn.ReLU6(inplace=True)] if act else []))


class Inverted(nn.Module):
    """Wide inside, narrow outside, with a convolution by channel."""

    def __init__(self, inside: int, outside: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = inside * expand
        layers = [_conv(inside, wide, 1)] if expand > 1 else []
        self.layers = nn.Sequential(*layers, _conv(wide, wide, 3, stride, wide), _conv(wide, outside, 1, act=False))
        self.residual = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Return one block."""
        y = self.layers(x)
        if self.residual:
            y = x + y
        return y  # type: ignore[no-any-return]


class MobileNetV2(nn.Module):
    """Inverted residual blocks, full width."""

    def __init__(self, classes: int = 100) -> None:
        super().__init__()
        settings = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        layers: list[nn.Module] = [_conv(3, 32, 3, 2)]
        width = 32
        for expand, outside, count, stride in settings:
            for index in range(count):
                layers.append(Inverted(width, outside, stride if index == 0 else 1, expand))
                width = outside
        self.layers = nn.Sequential(*layers, _conv(width, 1280, 1))
        self.head = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.head(self.layers(x).mean((2, 3)))  # type: ignore[no-any-return]


class BertLayer(nn.Module):
    """Attention and a feed-forward part, each normalised afterwards."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        """By head."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return one layer."""
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))  # type: ignore[no-any-return]


class SmallBert(nn.Module):
    """Four layers of width 128."""

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 4, vocabulary: int = 1000) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([BertLayer(width, heads) for _ in range(layers)])
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of two classes."""
        mask = (tokens != 0)[:, None, None, :]
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(torch.tanh(self.pool(x[:, 0])))  # type: ignore[no-any-return]


class RMSNorm(nn.Module):
    """As Llama spells it out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaLayer(nn.Module):
    """Rotary grouped-query attention and a gated feed-forward part."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Turn pairs of features by their place."""
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return one layer."""
        batch, length, _ = x.shape
        y = self.norm1(x)
        q = self.rotate(self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2), cos, sin)
        k = self.rotate(self.key(y).view(batch, length, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.value(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))  # type: ignore[no-any-return]


class SmallLlama(nn.Module):
    """Four layers of width 128."""

    def __init__(self, width: int = 128, heads: int = 4, groups: int = 2, layers: int = 4, vocabulary: int = 1000) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([LlamaLayer(width, heads, groups) for _ in range(layers)])
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        half = torch.arange(0, width // heads, 2) / (width // heads)
        angles = torch.outer(torch.arange(128), 10000.0**-half).repeat(1, 2)
        self.cos, self.sin = nn.Buffer(angles.cos()), nn.Buffer(angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token."""
        x = self.words(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def _images(batch: int, channels: int, size: int) -> Tensor:
    return torch.randn(batch, channels, size, size)


def _tokens() -> Tensor:
    return torch.randint(1, 1000, (2, 64))


def _register(name: str, make: Callable[[], nn.Module], inputs: Callable[[], Tensor], tolerance: float = 1e-3) -> None:
    def case(train: bool) -> Case:
        torch.manual_seed(0)
        return Case(make().train(train), [(inputs(),)], train=train, tolerance=tolerance)

    workload(name)(lambda: case(False))
    workload(f"{name}-train")(lambda: case(True))


class Autocast(nn.Module):
    """A network under autocast to bfloat16, with a result in float32."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Return what it gives."""
        with torch.autocast("cpu", torch.bfloat16):
            y = self.inner(x)
        return y.float()  # type: ignore[no-any-return]


_register("lenet", LeNet, lambda: _images(16, 1, 28))
_register("resnet18", ResNet18, lambda: _images(4, 3, 64), 3e-2)
_register("mobilenet-v2", MobileNetV2, lambda: _images(4, 3, 64), 3e-2)
_register("bert", SmallBert, _tokens)
_register("llama", SmallLlama, _tokens)
_register("bert-bf16", lambda: Autocast(SmallBert()), _tokens, 5e-2)
