"""Attack archives: ``python -m tests.attacks --mutants 100000 --first 0 --kills 200``.

Every mutant has a number and is made again from it. Prints what became of them; the exit status is 1 when one gave a different
answer in silence, an unclear error, a crash or a hang, or when a killed save left a file that is neither the old one nor the new one.
"""

from __future__ import annotations

import argparse
import sys

import torch

from dy2st_runtime.executors.native import build
from tests.attacks import judging, killing, references


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000, help="how many altered archives to load and run")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--kills", type=int, default=0, help="how many saves to kill")
    parser.add_argument("--backend", default=references.BACKEND, help="the executor that runs the archives")
    options = parser.parse_args()
    references.BACKEND = options.backend
    torch.set_num_threads(1)
    if options.backend == "native":
        build.build()
    failed = 0
    if options.mutants:
        found = judging.attack(options.mutants, options.first)
        failed += sum(found[kind] for kind in judging.BAD)
    if options.kills:
        failed += killing.attack(options.kills)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
