"""The command: ``python -m benchmarks --workload tiny-loop --peer dy2st.native --peer torch.compile``."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Measure and print.

    Args:
        arguments: of the command line; see ``--help``.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Workloads x peers, measured in turns in one run.")
    parser.add_argument("--workload", action="append", metavar="W", help="a workload (repeatable); all when left out")
    parser.add_argument("--peer", action="append", metavar="P", help="a peer (repeatable); all when left out")
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch (2)")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer of a workload (2)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer (10)")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads and peers")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0 or options.threads < 1:
        parser.error("--rounds, --seconds and --threads are positive")
    with tempfile.TemporaryDirectory() as cache:  # so that a first call compiles
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
        return _run(parser, options)


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    # Imported here: torch reads where its caches are when it is imported.
    import torch

    from benchmarks import report
    from benchmarks.measure import measure
    from benchmarks.peers import PEERS
    from benchmarks.workloads import WORKLOADS

    if options.list:
        print("workloads:", *WORKLOADS)
        print("peers:", *PEERS)
        return 0
    for kind, given, known in (("workload", options.workload, WORKLOADS), ("peer", options.peer, PEERS)):
        unknown = [name for name in given or () if name not in known]
        if unknown:
            parser.error(f"there is no {kind} {unknown[0]!r}; choose of {', '.join(known)}")
    torch.set_num_threads(options.threads)
    print(*(f"{key} {value}" for key, value in report.environment(options.threads).items()), sep=", ", flush=True)
    rows = []
    for name in options.workload or WORKLOADS:
        for row in measure(name, WORKLOADS[name](), options.peer or list(PEERS), options.seconds, options.rounds):
            rows.append(row)
            print(report.line(row), flush=True)
        if options.json is not None:
            report.write_json(options.json, rows, options.threads)
    print()
    print(report.matrix(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
