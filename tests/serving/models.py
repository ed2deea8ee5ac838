"""Models that the tests serve."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import nn

import dy2st
from dy2st import InputSpec


class Halve(nn.Module):
    """A loop whose trips the request decides."""

    def __init__(self, factor=2.0):
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))

    def forward(self, x, limit):
        while x.abs().max() > limit:
            x = x / self.factor
        return x

    def twice(self, x):
        return x * 2


@dataclasses.dataclass
class Box:
    left: torch.Tensor
    right: torch.Tensor


class Structured(nn.Module):
    """Arguments and results in each other."""

    def forward(self, pair, table, count=3):
        grown = []
        x = pair[0]
        while x.sum() < 10:
            x = x + 1
            grown.append(x)
        return {
            "sum": x + table["bias"],
            "pair": (pair[1], [pair[1] * 2]),
            "grown": grown,
            "number": count,
            "is_large": bool(x.sum() > 100),
            "text": f"{count} ü",
            "none": None,
            "z": torch.complex(pair[1], pair[1]),
        }


class Counter(nn.Module):
    """State: how often it was called, and a buffer that is written in place."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.total.add_(x.sum())
        i = torch.zeros(())
        while i < 50:
            i = i + 1
        return self.total.clone(), x * 0 + self.calls


class Spin(nn.Module):
    """Runs as long as the request says."""

    def forward(self, trips):
        i = torch.zeros((), dtype=torch.int64)
        while i < trips:
            i = i + 1
        return i


class Echo(nn.Module):
    """Gives back a tensor of each dtype."""

    def forward(self, *tensors):
        return {str(x.dtype).removeprefix("torch."): x for x in tensors}


class Picky(nn.Module):
    """Raises where it does not like its argument."""

    def forward(self, x):
        if x.sum() < 0:
            raise ValueError("negative\nsums are not taken")
        return x[x > 0]


DTYPES = [
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip


def save_all(folder: Path) -> None:
    """Write all of them, each under its name."""
    row, one = InputSpec([None, 3]), InputSpec([], "float32")
    dy2st.save(Halve().eval(), folder / "halve.dy2st", methods={"forward": [row, one], "twice": [row]})
    dy2st.save(
        Structured().eval(),
        folder / "structured.dy2st",
        input_spec=[[InputSpec([2]), InputSpec([2])], {"bias": InputSpec([2])}, int],
    )
    dy2st.save(Counter().eval(), folder / "counter.dy2st", input_spec=[InputSpec([2])])
    dy2st.save(Spin().eval(), folder / "spin.dy2st", input_spec=[InputSpec([], "int64")])
    dy2st.save(Echo().eval(), folder / "echo.dy2st", input_spec=[InputSpec([2], dtype) for dtype in DTYPES])
    dy2st.save(Picky().eval(), folder / "picky.dy2st", input_spec=[InputSpec([None])])
