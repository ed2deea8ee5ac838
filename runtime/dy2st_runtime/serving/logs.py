"""Structured logs: one object of JSON a line, in which nothing of a request can end a line or begin another."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import sys
import threading
import traceback
from typing import Any, TextIO

_lock = threading.Lock()


def log(level: str, event: str, stream: TextIO | None = None, **fields: Any) -> None:
    """Write one line.

    Args:
        level: ``"info"``, ``"warning"`` or ``"error"``.
        event: what has happened, in few words.
        stream: where to; the error output if left out.
        **fields: more about it; what JSON does not have is told as text.

    Example:
        >>> log("info", "loaded", sys.stdout, model="net")
        {"time": "...", "level": "info", "event": "loaded", "pid": ..., "model": "net"}
    """
    time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    line = json.dumps({"time": time, "level": level, "event": event, "pid": os.getpid(), **fields}, default=str)
    with _lock, contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        print(line, file=stream or sys.stderr, flush=True)


_NOTHING = frozenset({"ASGI callable returned without completing response."})
"""What libraries log where a client has cut its connection."""


class _Forwarding(logging.Handler):
    """Writes what libraries log in the same way."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in _NOTHING:
            return
        fields: dict[str, Any] = {"message": record.getMessage()[:2000]}
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["trace"] = "".join(traceback.format_exception(record.exc_info[1]))[-4000:]
        log(record.levelname.lower(), record.name, **fields)


def forward(*names: str) -> None:
    """Write warnings and errors of libraries to the log, and nothing else of them.

    Args:
        *names: of their loggers.
    """
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_Forwarding()], False
        logger.setLevel(logging.WARNING)
