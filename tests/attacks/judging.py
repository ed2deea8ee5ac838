"""Loads and runs altered archives in child processes with limits, and says what became of each.

The process that judges imports torch once and computes nothing; every child is a fork of it that takes many mutants. A child that
dies or hangs is blamed on the mutant that it was at, and the next child goes on behind it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dy2st_runtime
from tests.attacks import references
from tests.attacks.mutants import Mutant, mutant

MEMORY = 2 << 30
"""Bytes that a child may have on top of what it starts with."""

SECONDS = 30
"""Processor time for one mutant; ten times as long on the clock."""

_START = 120
"""Time for a child to begin."""

_CHUNK = 250


class Kind(enum.Enum):
    """What became of a mutant."""

    SAME = "the same answer"
    REFUSED = "a clear error"
    OTHER = "another program under hashes that fit"
    DIFFERENT = "a different answer in silence"
    UNCLEAR = "an error that is none of ours"
    CRASH = "a crash"
    HANG = "a hang"


BAD = (Kind.DIFFERENT, Kind.UNCLEAR, Kind.CRASH, Kind.HANG)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of one mutant, and how."""

    number: int
    kind: Kind
    made: str
    detail: str = ""


def judge(given: Mutant, expected: Mapping[str, Any], path: Path) -> tuple[Kind, str]:
    """Load and run one mutant in this process."""
    path.write_bytes(given.data)
    try:
        found = references.answers(path)
    except dy2st_runtime.LoadError as error:
        return (Kind.REFUSED, "load") if str(error).startswith("cannot load ") else (Kind.UNCLEAR, repr(error))
    except Exception as error:
        if given.sealed and _while_running(error):
            return Kind.REFUSED, "run"
        return Kind.UNCLEAR, repr(error)
    if references.same(found, expected[given.reference]):
        return Kind.SAME, ""
    if not given.sealed and any(references.same(found, other) for other in expected.values()):
        return Kind.OTHER, "a whole archive under another name"
    return (Kind.OTHER, "") if given.sealed else (Kind.DIFFERENT, "")


def _while_running(error: BaseException) -> bool:
    """Whether an error comes from a call of the loaded model: it may be anything that an operator raises."""
    step, names = error.__traceback__, []
    while step is not None:
        names.append((step.tb_frame.f_code.co_name, step.tb_frame.f_code.co_filename))
        step = step.tb_next
    return not any(name == "load" and file.endswith("module.py") for name, file in names)


def run(numbers: Sequence[int], folder: Path) -> Iterator[Verdict]:
    """Judge the mutants with these numbers."""
    made = folder / "references"
    made.mkdir(exist_ok=True)
    if not (made / "weights").exists():
        in_child(lambda: references.write(made))
    originals = {name: (made / name).read_bytes() for name in references.NAMES}
    rest = list(numbers)
    while rest:
        done = 0
        for verdict in _child(rest[:_CHUNK], originals, made, folder / "mutant ä.dy2st"):
            done += 1
            yield verdict
        rest = rest[done:]


def _child(numbers: Sequence[int], originals: Mapping[str, bytes], made: Path, path: Path) -> Iterator[Verdict]:
    """Judge some mutants in one child; ends early, with a verdict, when the child does."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiver)
        leave_after(lambda: _work(numbers, originals, made, path, sender))
    os.close(sender)
    try:
        yield from _follow(numbers, receiver, child, originals)
    finally:
        os.close(receiver)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _follow(numbers: Sequence[int], receiver: int, child: int, originals: Mapping[str, bytes]) -> Iterator[Verdict]:
    lines = _lines(receiver, child)
    if next(lines) != "ready":
        raise RuntimeError("the child does not start")
    for number in numbers:
        line = next(lines)
        if line in ("", "hang"):
            kind = Kind.HANG if line else Kind.CRASH
            yield Verdict(number, kind, mutant(number, originals).kind, f"number {number}")
            return
        found = json.loads(line)
        yield Verdict(number, Kind[found["kind"]], found["made"], found["detail"])


def _speaks(receiver: int, child: int, seconds: float) -> bool:
    """Wait for a child that is at work; on a busy machine it may get little of the processor."""
    begin, used = time.monotonic(), _processor_time(child)
    while time.monotonic() - begin < 10 * seconds and _processor_time(child) - used < seconds:
        if select.select([receiver], [], [], min(seconds, 5))[0]:
            return True
    return False


def _processor_time(process: int) -> float:
    if sys.platform != "linux":
        return time.monotonic()
    with contextlib.suppress(FileNotFoundError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _lines(receiver: int, child: int) -> Iterator[str]:
    """What a child says; ``""`` when it is dead, ``"hang"`` when it says nothing for too long."""
    buffer, begun = b"", False
    while True:
        while b"\n" not in buffer:
            if not _speaks(receiver, child, SECONDS if begun else _START):
                yield "hang"
            data = os.read(receiver, 1 << 16)
            if not data:
                yield ""
            buffer += data
        line, _, buffer = buffer.partition(b"\n")
        begun = True
        yield line.decode()


def _work(numbers: Sequence[int], originals: Mapping[str, bytes], made: Path, path: Path, sender: int) -> None:
    limit_memory(MEMORY)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    expected = {name: references.answers(made / name) for name in references.NAMES}
    os.write(sender, b"ready\n")
    for number in numbers:
        given = mutant(number, originals)
        kind, detail = judge(given, expected, path)
        os.write(sender, json.dumps({"kind": kind.name, "made": given.kind, "detail": detail[:300]}).encode() + b"\n")


def limit_memory(more: int) -> None:
    """Allow this process some memory more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_child(task: Callable[[], Any]) -> int:
    """Do something in a child; its exit status."""
    child = os.fork()
    if not child:
        leave_after(task)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leave_after(task: Callable[[], Any]) -> None:
    """The end of a child: nothing of what its parent would do when it exits."""
    status = 1
    try:
        task()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def attack(count: int, first: int = 0) -> collections.Counter[Kind]:
    """Judge many mutants and print those that went wrong; how many there were of each kind."""
    start, total = time.monotonic(), collections.Counter[Kind]()
    ways: collections.Counter[tuple[str, Kind]] = collections.Counter()
    faulthandler.disable()
    with tempfile.TemporaryDirectory() as folder:
        for verdict in run(range(first, first + count), Path(folder)):
            total[verdict.kind] += 1
            ways[verdict.made, verdict.kind] += 1
            if verdict.kind in BAD:
                print(f"mutant {verdict.number} ({verdict.made}): {verdict.kind.value}: {verdict.detail}", flush=True)
    for kind in Kind:
        split = ", ".join(f"{number} {way}" for (way, found), number in ways.items() if found is kind)
        print(f"{total[kind]:7d}  {kind.value}" + (f"  ({split})" if split else ""))
    print(f"{count} mutants in {time.monotonic() - start:.1f} s")
    return total
