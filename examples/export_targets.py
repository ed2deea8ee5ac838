"""One model with natural control flow, exported to the formats of other tools.

    python examples/export_targets.py            # .pt2, and ONNX where it is installed
    python examples/export_targets.py --compile  # and an AOTInductor package, which takes a C++ compiler and half a minute

A recurrent network reads a sequence of any length, stops early once it is sure, and refines its answer. Each file is
run and compared with the model before it gets its name; what is left out is in the report.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import dy2st

ANY_LENGTH = dy2st.InputSpec([None, 4], "float32", "sequence")


class Reader(nn.Module):
    """Reads until it is sure; what it thought on the way is a list that grows."""

    def __init__(self, features: int = 4, hidden: int = 8) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = nn.GRUCell(features, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, sequence: Tensor) -> tuple[Tensor, Tensor, int]:
        h = sequence.new_zeros(1, self.hidden)
        scores = [self.score(h)[0]]
        read = 0
        for item in sequence:
            h = self.cell(item[None], h)
            scores.append(self.score(h)[0])
            read += 1
            if scores[-1].abs() > 0.5:
                break
        answer = scores[-1]
        while answer.abs() > 0.2:
            answer = answer * 0.9 if answer > 0 else answer * 0.8
        return answer, torch.stack(scores), read


def main(compile: bool = False) -> dict[str, dy2st.ExportReport]:
    logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)  # it tells of symbols without a use
    torch.manual_seed(0)
    model = Reader()
    targets = {"pt2": "reader.pt2"}
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime")):
        targets["onnx"] = "reader.onnx"
    if compile:
        targets["aoti"] = "reader-aoti.pt2"
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        for format, name in targets.items():
            reports[format] = dy2st.export(model, Path(folder) / name, format, input_spec=[ANY_LENGTH])
            print(reports[format])
        sequence = torch.randn(20, 4)
        answer, scores, read = torch.export.load(Path(folder) / "reader.pt2").module()(sequence)
        expected = model(sequence)
        assert torch.allclose(answer, expected[0])
        assert torch.allclose(scores, expected[1])
        assert read.item() == expected[2]
    print(f"the reloaded .pt2 read {read.item()} of 20 items, as the model does")
    return reports


if __name__ == "__main__":
    main("--compile" in sys.argv[1:])
