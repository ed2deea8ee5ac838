"""Saves over an existing file that are killed at some moment: afterwards the file is the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from tests.attacks import judging, references

_SIZE = 1024
"""Weights of four megabytes: writing them takes a while."""


def attack(count: int, seed: int = 0) -> int:
    """Kill some saves; how many left a file that is neither the old nor the new one."""
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = [folder / "first", folder / "second"]
        begin = time.monotonic()
        judging.in_child(lambda: [_save(path, value) for value, path in enumerate(whole)])
        seconds = (time.monotonic() - begin) / 2
        old, new = (path.read_bytes() for path in whole)
        target, outcomes = folder / "target", {old: 0, new: 0}
        for _ in range(count):
            target.write_bytes(old)
            _kill_during_save(target, choose.uniform(0, 1.2 * seconds))
            found = target.read_bytes()
            if found not in outcomes:
                print(f"a killed save left {len(found)} bytes")
            outcomes[found] = outcomes.get(found, 0) + 1
            for left in folder.glob(".dy2st-*.tmp"):
                left.unlink()
        failed = count - outcomes[old] - outcomes[new]
        if judging.in_child(lambda: references.answers(target)):
            failed += 1
    print(f"{count} killed saves: {outcomes[old]} old files, {outcomes[new]} new ones, {failed} others")
    return failed


def _save(path: Path, value: float) -> None:
    references.save_weights(path, value, _SIZE)


def _kill_during_save(path: Path, after: float) -> None:
    """Kill a save some time after it began."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        judging.leave_after(lambda: (os.write(sender, b"!"), _save(path, 1)))
    os.read(receiver, 1)
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(receiver)
    os.close(sender)
