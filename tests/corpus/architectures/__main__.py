"""Run all architectures of ``transformers`` as programs: ``python -m tests.corpus.architectures [--only NAME] [--part 1/4]``.

Each is made from a small random configuration, in eval mode, and called with two sizes, twice each; results, gradients and state are
compared with eager bit for bit. ``--wrapped`` puts the model into a module; ``--training`` puts that into training mode, with dropout.
The exit status is 1 when one is wrong or ends in an internal error.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch

import dy2st
from tests.corpus import judging
from tests.corpus.architectures import building, catalogue
from tests.corpus.registry import Entry

NOT_BUILT = "not built"
_MEMORY = 8 << 30
_COMMON = ("llama", "bert", "vit", "t5")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.architectures", description=__doc__)
    parser.add_argument("--only", action="append", help="names of architectures")
    parser.add_argument("--part", default="1/1", help="which of so many parts")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--wrapped", dest="kind", action="store_const", const="wrapped", default="direct", help="inside of a module")
    kinds.add_argument("--training", dest="kind", action="store_const", const="training", help="inside of a module that trains")
    parser.add_argument("--sizes", type=int, default=2, help="of how many sizes the arguments are")
    parser.add_argument("--images", action="store_true", help="images among the words, for models that find positions around them")
    parser.add_argument("--json", type=Path, help="a file for the verdicts, with tracebacks")
    parser.add_argument("--limit", type=float, default=60, help="seconds for each")
    options = parser.parse_args()
    torch.set_num_threads(1)
    part, parts = map(int, options.part.split("/"))
    _prepare()
    names = options.only or catalogue.names()[part - 1 :: parts]
    verdicts = []
    for name in names:
        verdicts.append(judging.in_a_process(name, lambda: _judged(name, options), options.limit))
        print(judging.row(verdicts[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(verdicts, indent=1))
    print(judging.totals(verdicts))
    return int(any(v["verdict"] in (judging.WRONG, judging.INTERNAL) for v in verdicts))


def _prepare() -> None:
    """Import and convert what many models call, once for all processes."""
    for name in _COMMON:
        subject = building.built(name, "direct", sizes=1)
        with torch.no_grad():
            dy2st.to_static(subject.function)(**subject.calls[0])


def _judged(name: str, options: argparse.Namespace) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    warnings.simplefilter("ignore")
    try:
        subject = building.built(name, options.kind, options.sizes, images=options.images)
    except building.AbsentError as error:
        return {"name": name, "verdict": judging.ABSENT, "message": str(error)}
    except Exception as error:
        trace = "" if isinstance(error, building.NotBuiltError) else traceback.format_exc()
        return {"name": name, "verdict": NOT_BUILT, "message": f"{type(error).__name__}: {error}", "traceback": trace}
    return judging.child(Entry(name, "transformers", lambda: copy.deepcopy(subject), saves=False))


if __name__ == "__main__":
    sys.exit(main())
