"""Run many random programs: ``python -m tests.fuzz --programs 20000 --seed 0 --jobs 2``.

Prints how many did the same as eager, were refused (by reason), gave a wrong answer, crashed, or ran out of time; saves those that
failed. ``--reduce`` makes the failures smaller first.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.fuzz import backends, batched
from tests.fuzz.carries import Carries
from tests.fuzz.choices import Seeded
from tests.fuzz.grammar import Grammar, Program, write
from tests.fuzz.metamorphic import NAMES, transformed
from tests.fuzz.oracle import Kind, Verdict, judge
from tests.fuzz.reduce import reduced
from tests.fuzz.stateful import aliasing, arrays, generate, keeping, oracle, orders, records, reduction, varying
from tests.fuzz.stateful.program import Program as Stateful
from tests.fuzz.wide import Wide

_CHUNK = 250
"""Programs for one process, which is replaced then: caches of torch grow."""

_ALIKE = 2
"""How many programs that fail alike are made smaller by one process."""

VARIANTS = ("plain", "saved", "batched", *NAMES)


def variant(program: Program, name: str) -> Verdict:
    """Judge a program, or what is made of it."""
    if name in NAMES:
        return judge(transformed(program, name))
    return batched.judge(program) if name == "batched" else judge(program, saved=name == "saved")


def run(seed: str, variants: tuple[str, ...], size: int, *, wide: bool = False) -> Iterator[tuple[str, Program, Verdict]]:
    """Judge one program and what is made of it, until the program itself fails."""
    program = Wide(Seeded(seed), size).program() if wide else write(Seeded(seed), size)
    for name in variants:
        verdict = variant(program, name)
        yield name, program, verdict
        if name == "plain" and (verdict.kind is not Kind.SAME):
            return


WRITERS = {
    "stateful": generate.write,
    "aliases": aliasing.write,
    "arrays": arrays.write,
    "orders": orders.write,
    "records": records.write,
    "varying": varying.write,
}
"""What writes programs with state, by the option that asks for them."""


def run_stateful(seed: str, variants: tuple[str, ...], kind: str = "stateful") -> Iterator[tuple[str, Stateful, Verdict]]:
    """Judge one program with state in several ways, until it fails in one, and one that is made to be saved."""
    program = WRITERS[kind](seed)
    if not oracle.valid(program):
        return
    for name in variants:
        verdict = oracle.judge(program, name)
        yield name, program, verdict
        if verdict.kind is not Kind.SAME:
            break
    if "saved" in variants and kind == "stateful":
        program = keeping.write(seed)
        yield "saved", program, oracle.judge(program, "saved")


def _work_stateful(options: argparse.Namespace) -> None:
    """Judge a range of programs with state; a line of JSON for each."""
    kind = next(name for name in reversed(WRITERS) if getattr(options, name))
    seen: collections.Counter[str] = collections.Counter()
    for number in range(options.first, options.last):
        print(json.dumps({"start": number}), flush=True)
        if options.backend:
            others: tuple[str, ...] = (options.backend,)
        elif options.all:
            others = oracle.VARIANTS
        else:
            others = ("native", *(name for name, every in (("python", 4), ("saved", 5)) if number % every == 0))
        for name, program, verdict in run_stateful(f"{options.seed}-{number}", others, kind):
            seen[verdict.reason] += 1
            if verdict.bad and options.reduce and seen[verdict.reason] <= _ALIKE:
                program = reduction.reduced(program, name)
            text = (
                reduction.script(program, name, f"{verdict.kind.value}: {verdict.reason}", str(Path.cwd())) if verdict.bad else None
            )
            entry = {
                "number": number, "variant": "plain" if name == others[0] else name, "kind": verdict.kind.name, "reason": verdict.reason, "detail": verdict.detail,
                "covered": (0, 0), "calls": verdict.calls, "program": None, "script": text,
            }  # fmt: skip
            print(json.dumps(entry), flush=True)


def _work(options: argparse.Namespace) -> None:
    """Judge a range of programs; a line of JSON for each."""
    torch.set_num_threads(1)
    with backends.uncompiled() if options.uncompiled else contextlib.nullcontext():
        if any(getattr(options, name) for name in WRITERS):
            return _work_stateful(options)
        if options.backend:
            return _work_on_backend(options)
    for number in range(options.first, options.last):
        which = VARIANTS if options.all else ("plain", VARIANTS[1 + number % (len(VARIANTS) - 1)])
        print(json.dumps({"start": number}), flush=True)
        for name, program, verdict in run(f"{options.seed}-{number}", which, options.size, wide=options.wide):
            if verdict.bad and options.reduce:
                program = _reduced(program, name, verdict)
            entry = {
                "number": number, "variant": name, "kind": verdict.kind.name, "reason": verdict.reason, "detail": verdict.detail,
                "covered": verdict.covered, "calls": verdict.calls, "program": dataclasses.asdict(program) if verdict.bad or options.keep in verdict.reason else None,
            }  # fmt: skip
            print(json.dumps(entry), flush=True)


def _work_on_backend(options: argparse.Namespace) -> None:
    """Judge a range of programs on a backend that rounds."""

    def judged(program: Program) -> Verdict:
        return backends.judge(program, options.backend, carries=options.carries)

    for number in range(options.first, options.last):
        print(json.dumps({"start": number}), flush=True)
        choices = Seeded(f"{options.seed}-{number}")
        grammar = Carries(choices, options.size) if options.carries else (Wide if options.wide else Grammar)(choices, options.size)
        program = grammar.program()
        verdict = judged(program)
        if verdict.bad and options.reduce:
            program = reduced(program, lambda candidate, found=verdict: judged(candidate).reason == found.reason)
        entry = {
            "number": number, "variant": "plain", "kind": verdict.kind.name, "reason": verdict.reason, "detail": verdict.detail,
            "covered": verdict.covered, "calls": verdict.calls, "program": dataclasses.asdict(program) if verdict.bad or options.keep in verdict.reason else None,
        }  # fmt: skip
        print(json.dumps(entry), flush=True)


def _reduced(program: Program, name: str, verdict: Verdict) -> Program:
    def fails(candidate: Program) -> bool:
        found = variant(candidate, name)
        return (found.kind, found.reason) == (verdict.kind, verdict.reason)

    return reduced(program, fails)


def _workers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The entries of all workers; one that dies is replaced by one that starts after the program it died of."""
    todo = [(first, min(first + _CHUNK, options.programs)) for first in range(options.first, options.programs, _CHUNK)]
    while todo:
        now, todo = todo[: options.jobs], todo[options.jobs :]
        started = [(_start(options, *part), part) for part in now]
        for process, (_, last) in started:
            assert process.stdout is not None
            reached = -1
            for line in process.stdout:
                entry = json.loads(line)
                reached = entry.get("start", reached)
                if "kind" in entry:
                    yield entry
            if process.wait() != 0:
                yield {"number": reached, "variant": "plain", "kind": "CRASH", "reason": f"the process died ({process.returncode})", "detail": "", "covered": (0, 0), "calls": 0, "program": None}  # fmt: skip
                todo.insert(0, (reached + 1, last))


def _start(options: argparse.Namespace, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fuzz", "--work", "--seed", options.seed, "--first", str(first), "--last", str(last)]
    command += [
        "--size",
        str(options.size),
        "--keep",
        options.keep,
        *(["--reduce"] if options.reduce else []),
        *(["--all"] if options.all else []),
        *(["--wide"] if options.wide else []),
        *(f"--{name}" for name in WRITERS if getattr(options, name)),
        *(["--carries"] if options.carries else []),
        *(["--uncompiled"] if options.uncompiled else []),
        *(["--backend", options.backend] if options.backend else []),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _report(entries: Iterator[dict[str, Any]], folder: Path) -> None:
    kinds: collections.Counter[str] = collections.Counter()
    variants: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    covered, lines, calls = 0, 0, 0
    for entry in entries:
        plain = entry["variant"] == "plain"
        (kinds if plain else variants)[Kind[entry["kind"]].value] += 1
        covered, lines, calls = covered + entry["covered"][0], lines + entry["covered"][1], calls + entry["calls"]
        if entry["kind"] == "REFUSED" or entry["kind"] == "SAME" and entry["reason"]:
            reasons[("" if plain else f"[{entry['variant']}] ") + entry["reason"]] += 1
        if entry["kind"] in ("WRONG", "CRASH", "TIME_OUT"):
            print(f"{entry['number']} {entry['variant']}: {Kind[entry['kind']].value}: {entry['reason']}", flush=True)
        if entry["program"] is not None:
            _keep(folder, entry)
        if entry.get("script"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{_slug(entry['reason'])}_{entry['number']}.py").write_text(entry["script"])
    total = sum(kinds.values())
    print(f"{total} programs, {calls} calls, {covered / max(lines, 1):.0%} of their lines run")
    for title, counted in (("programs", kinds), ("saved and transformed ones", variants)):
        print(f"{title}: " + ", ".join(f"{count} {kind}" for kind, count in counted.most_common()))
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")


def _slug(reason: str) -> str:
    return re.sub(r"\W+", "_", reason)[:60].strip("_").lower()


def _keep(folder: Path, entry: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    options = {name: value for name, value in entry["program"].items() if name != "source"}
    head = f"# {entry['variant']} {options}\n# {entry['kind']}: {entry['reason']}\n"
    text = head + entry["program"]["source"] + "\n" + "".join(f"# {line}\n" for line in entry["detail"].splitlines())
    (folder / f"{entry['kind'].lower()}_{entry['number']}_{entry['variant'].replace(' ', '_')}.py").write_text(text)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--size", type=int, default=14, help="about how many statements a program has")
    parser.add_argument("--first", type=int, default=0, help="start with this program")
    parser.add_argument("--all", action="store_true", help="every variant of every program, not one of them")
    parser.add_argument("--wide", action="store_true", help="programs with more of the language")
    parser.add_argument(
        "--stateful", action="store_true", help="programs with state that is shared, replaced, and changed between calls"
    )
    parser.add_argument("--carries", action="store_true", help="small programs whose loops carry, swap and overwrite tensors")
    parser.add_argument("--aliases", action="store_true", help="small ones with state, that rebind and write containers in loops")
    parser.add_argument("--arrays", action="store_true", help="small ones with arrays of NumPy as arguments and state")
    parser.add_argument("--orders", action="store_true", help="small ones with state, whose keys and attributes come and go")
    parser.add_argument("--varying", action="store_true", help="small ones whose arguments are others at each call")
    parser.add_argument("--records", action="store_true", help="small ones with state, whose lists of objects grow and shrink")
    parser.add_argument("--backend", choices=backends.NAMES, help="run them there, and compare up to rounding")
    parser.add_argument("--uncompiled", action="store_true", help="for inductor: PyTorch runs the graphs that it would compile")
    parser.add_argument("--reduce", action="store_true", help="make failing programs smaller")
    parser.add_argument("--keep", default="<nothing>", help="also save programs that are refused for a reason with these words")
    parser.add_argument("--folder", type=Path, default=Path("fuzz_failures"))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        _work(options)
    else:
        _report(_workers(options), options.folder)


if __name__ == "__main__":
    main()
