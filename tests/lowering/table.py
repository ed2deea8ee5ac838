"""The tables of docs/export.md: ``python -m tests.lowering.table --compile``.

Exports the example models through every export target and prints what became of each, then the size of each file and the time to load it,
beside ``torch.jit.save``.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import dy2st
from tests.lowering.test_export_examples import model

EXAMPLES = ("quickstart", "lstm_loop", "adaptive_ode", "greedy_decode", "export_targets")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lowering.table", description=__doc__)
    parser.add_argument("--compile", action="store_true", help="AOTInductor packages too; each takes a minute")
    parser.add_argument("names", nargs="*", default=EXAMPLES)
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    targets = ["pt2", "onnx", *(["aoti"] if options.compile else [])]
    found, sizes = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for example in options.names:
            found.append(
                [
                    f"`{example}`",
                    *(_exported(example, export_target, folder / f"{example}.{export_target}") for export_target in targets),
                ]
            )
            print(*found[-1], sep=" | ", flush=True)
            sizes.append([f"`{example}`", *_measured(example, folder / example)])
            print(*sizes[-1], sep=" | ", flush=True)
    for head, rows in ((["Model", *targets], found), (["Model", ".dy2st", "torch.jit.save", ".pt2", "ONNX"], sizes)):
        print("", "| " + " | ".join(head) + " |", "|---" * len(head) + "|", sep="\n")
        for row in rows:
            print("| " + " | ".join(row) + " |")


def _exported(example: str, export_target: str, path: Path) -> str:
    layer, specification, inputs = model(example)
    try:
        report = dy2st.export(layer, path, export_target, input_spec=specification, inputs=inputs)
    except dy2st.ExportError as error:
        return f"refused: {str(error)[:200]}"
    return f"verified, {report.largest_difference:.1e}, {report.size / 1024:.0f} KiB"


def _measured(example: str, path: Path) -> list[str]:
    layer, specification, _ = model(example)
    layer.eval()
    archive, script, program, onnx = (path.with_suffix(suffix) for suffix in (".dy2st", ".pt", ".pt2", ".onnx"))
    dy2st.save(layer, archive, specification)
    row = [_cell(archive, lambda: dy2st.load(archive))]
    try:
        torch.jit.script(layer).save(script)
        row.append(_cell(script, lambda: torch.jit.load(script)))
    except Exception:
        row.append("refused by `torch.jit.script`")
    for target in (program, onnx):
        dy2st.export(archive, target, verify=False)
    row.append(_cell(program, lambda: torch.export.load(program).module()))
    session = onnxruntime.SessionOptions()
    session.log_severity_level = 4
    row.append(_cell(onnx, lambda: onnxruntime.InferenceSession(str(onnx), session)))
    return row


def _cell(path: Path, load: Callable[[], Any]) -> str:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        load()
        times.append(time.perf_counter() - start)
    return f"{path.stat().st_size / 1024:.0f} KiB, {1e3 * min(times):.0f} ms"


if __name__ == "__main__":
    main()
