"""Processes that start where this one stands, with torch imported, and without dy2st."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

_LIST = "import sys, dy2st, tests.fuzz.__main__; print(*sys.modules)"


def prepare() -> None:
    """Import what dy2st and the tests import from elsewhere."""
    listed = subprocess.run([sys.executable, "-c", _LIST], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for name in listed:
        if name.partition(".")[0] not in ("dy2st", "tests", "__main__"):
            with contextlib.suppress(Exception):  # some are made by others
                importlib.import_module(name)


def forked(task: Callable[[], str], seconds: float, log: Path) -> str | None:
    """What a task says that runs in another process.

    Args:
        task: what it does; the process does nothing after it.
        seconds: how long it may take.
        log: where to write what it prints.

    Returns:
        The answer, or ``None`` after a time-out.
    """
    receiver, sender = os.pipe()
    process = os.fork()
    if process == 0:
        _work(task, sender, log)
    os.close(sender)
    try:
        return _answer(receiver, process, seconds)
    finally:
        os.close(receiver)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _answer(receiver: int, process: int, seconds: float) -> str | None:
    with open(os.dup(receiver), closefd=True) as stream:
        if not select.select([receiver], [], [], seconds)[0]:
            return None
        return stream.readline().strip() or "the process died"


def _work(task: Callable[[], str], sender: int, log: Path) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        with open(log, "w") as stream, open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        answer = task()
        os.write(sender, f"{answer}\n".encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)
