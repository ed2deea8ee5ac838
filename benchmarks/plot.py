"""Draws what was measured: ``python -m benchmarks.plot figures.json benchmarks.svg`` (needs the extra ``benchmarks``)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw how many times faster than eager each peer is, one group of bars a workload, on a logarithmic axis.

    Args:
        figures: what ``python -m benchmarks --json`` wrote.
        path: the picture; its suffix says of which kind.
    """
    matplotlib.rcParams["svg.hashsalt"] = "dy2st"  # the same figures give the same file
    rows = [row for row in figures["rows"] if row["peer"] != "eager" and row["ratio"] and not row["overhead"]]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    height = 0.8 / max(1, len(peers))
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.16 * len(workloads) * max(2, len(peers))), layout="constrained")
    for number, peer in enumerate(peers):
        own = [row for row in rows if row["peer"] == peer]
        places = [workloads.index(row["workload"]) - 0.4 + (number + 0.5) * height for row in own]
        axes.barh(places, [row["ratio"] - 1 for row in own], height, left=1, label=peer)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_yticks(range(len(workloads)), workloads)
    axes.invert_yaxis()
    axes.set_xlabel(f"times faster than eager ({figures['environment']['threads']} threads, CPU)")
    axes.legend(loc="lower right")
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
    options = parser.parse_args(arguments)
    matplotlib.use("agg")
    draw(json.loads(options.figures.read_text(encoding="utf-8")), options.picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
