"""A failing program with state, made smaller: fewer calls, fewer changes between them, less text; and as a script that shows it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

from tests.fuzz import reduce
from tests.fuzz.stateful.oracle import judge
from tests.fuzz.stateful.program import Call, Program

_SCRIPT = '''\
# {reason}
# {variant}; run it with the tree under test first in PYTHONPATH
import os, sys
os.environ.setdefault("DY2ST_CHECK_LEAKS", "1")
sys.path.append({root!r})
from tests.fuzz.stateful.program import Call, Program
from tests.fuzz.stateful.oracle import judge

SOURCE = """\\
{source}"""
CALLS = (
{calls}
)
verdict = judge(Program(SOURCE, CALLS), {variant!r})
print("WRONG" if verdict.bad else "OK", verdict.kind.value, verdict.reason, verdict.detail, sep="\\n")
'''


def reduced(program: Program, variant: str, seconds: float = 90.0) -> Program:
    """The smallest program found in some seconds that fails like this one."""
    verdict = judge(program, variant)

    def fails(candidate: Program) -> bool:
        found = judge(candidate, variant)
        return (found.kind, found.reason) == (verdict.kind, verdict.reason)

    end = time.monotonic() + seconds
    before = None
    while before != program and time.monotonic() < end:
        before = program
        program = _fewer_calls(program, fails, end)
        program = reduce.reduced(program, fails, end - time.monotonic())
    return program


def _fewer_calls(program: Program, fails: Callable[[Program], bool], end: float) -> Program:
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for calls in _smaller(program.calls):
            candidate = dataclasses.replace(program, calls=calls)
            if fails(candidate):
                program, changed = candidate, True
                break
    return program


def _smaller(calls: tuple[Call, ...]) -> Iterator[tuple[Call, ...]]:
    """Calls with something left out, the most first."""
    for position in reversed(range(len(calls))):
        if len(calls) > 1:
            yield (*calls[:position], *calls[position + 1 :])
    for position, call in enumerate(calls):
        for part in range(len(call.before)):
            before = (*call.before[:part], *call.before[part + 1 :])
            yield (*calls[:position], dataclasses.replace(call, before=before), *calls[position + 1 :])
        for simpler in (
            dataclasses.replace(call, mode=""),
            dataclasses.replace(call, arguments=call.arguments.replace(", requires_grad=True", "")),
        ):
            if simpler != call:
                yield (*calls[:position], simpler, *calls[position + 1 :])


def script(program: Program, variant: str, reason: str, root: str) -> str:
    """A file that runs by itself and says whether the program still fails."""
    calls = "\n".join(f"    {call!r}," for call in program.calls)
    source = program.source.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return _SCRIPT.format(reason=reason, variant=variant, root=root, source=source, calls=calls)
