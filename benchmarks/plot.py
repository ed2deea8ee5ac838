"""Draws what was measured: ``python -m benchmarks.plot figures.json benchmarks.svg`` (needs the extra ``benchmarks``)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

COLOURS = {
    "eager": "#999999",
    "dy2st.python": "#c5cae9",
    "dy2st.native": "#3f51b5",
    "dy2st.inductor": "#7986cb",
    "dy2st.cpp": "#1a237e",
    "dy2st.onnxruntime": "#9fa8da",
    "torch.compile": "#ff9800",
    "torch.jit": "#8d6e63",
    "hop": "#bdbdbd",
}
"""Blue is this project; a peer that is not here gets a colour of matplotlib's."""


def draw(figures: dict[str, Any], path: Path, workloads: Sequence[str] = (), peers: Sequence[str] = ()) -> None:
    """Draw how many times faster than eager each peer is, one group of bars a workload, on a logarithmic axis.

    Args:
        figures: what ``python -m benchmarks --json`` wrote.
        path: the picture; its suffix says of which kind.
        workloads: which ones, in this order; all if there are none.
        peers: likewise.
    """
    matplotlib.rcParams["svg.hashsalt"] = "dy2st"  # the same figures give the same file
    rows = [row for row in figures["rows"] if row["peer"] != "eager" and row["ratio"] and not row["overhead"]]
    workloads = workloads or list(dict.fromkeys(row["workload"] for row in rows))
    peers = peers or list(dict.fromkeys(row["peer"] for row in rows))
    rows = [row for row in rows if row["workload"] in workloads and row["peer"] in peers]
    height = 0.8 / max(1, len(peers))
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.12 * len(workloads) * max(2, len(peers))), layout="constrained")
    for number, peer in enumerate(peers):
        own = [row for row in rows if row["peer"] == peer]
        places = [workloads.index(row["workload"]) - 0.4 + (number + 0.5) * height for row in own]
        axes.barh(places, [row["ratio"] - 1 for row in own], height, left=1, label=peer, color=COLOURS.get(peer))
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_yticks(range(len(workloads)), workloads)
    axes.invert_yaxis()
    axes.set_xlabel(f"times faster than eager ({figures['environment']['threads']} threads, CPU)")
    axes.margins(y=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=min(len(peers), 5), frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Read figures, write a picture.

    Args:
        arguments: of the command line.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description="Draw what python -m benchmarks --json wrote.")
    parser.add_argument("figures", type=Path)
    parser.add_argument("picture", type=Path, help="an .svg or .png file")
    parser.add_argument("--workloads", nargs="*", default=(), help="only these, in this order")
    parser.add_argument("--peers", nargs="*", default=(), help="only these, in this order")
    options = parser.parse_args(arguments)
    matplotlib.use("agg")
    draw(json.loads(options.figures.read_text(encoding="utf-8")), options.picture, options.workloads, options.peers)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
