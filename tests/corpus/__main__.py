"""Run published code as programs: ``python -m tests.corpus [--only NAME] [--json FILE]``.

Needs the extra ``corpus``. Prints for each entry whether the program does what eager does; the exit status is 1 when one is wrong or
ends in an internal error.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from tests.corpus import judging, registry


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("--only", action="append", help="entries whose names begin so, or the package")
    parser.add_argument("--json", type=Path, help="a file for the verdicts, with tracebacks")
    parser.add_argument("--limit", type=float, default=240, help="seconds for each entry")
    options = parser.parse_args()
    entries = registry.load()
    torch.set_num_threads(1)
    names = [
        e.name for e in entries.values() if not options.only or any(e.name.startswith(n) or e.module == n for n in options.only)
    ]
    verdicts = []
    for name in names:
        verdicts.append(judging.judge(name, options.limit))
        print(judging.row(verdicts[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(verdicts, indent=1))
    print(judging.totals(verdicts))
    return int(any(v["verdict"] in (judging.WRONG, judging.INTERNAL) for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
