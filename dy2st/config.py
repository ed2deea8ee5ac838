"""Settings of the process, and the environment variables they start from."""

from __future__ import annotations

import os
import threading

MAX_PROGRAMS = int(os.environ.get("DY2ST_MAX_PROGRAMS", "64"))
"""How many programs one function keeps; the least recently used goes first."""

WARN_AFTER = 8
"""After how many programs for one signature a warning names the value that keeps changing."""

CHECK_LEAKS = os.environ.get("DY2ST_CHECK_LEAKS", "") not in ("", "0")
"""Whether each call is followed by a search for values of the capture in what the user can reach; see :mod:`dy2st.static.leaks`."""

SHOW_ALL_FRAMES = os.environ.get("DY2ST_TRACEBACK", "") == "full"
"""Whether tracebacks show frames of dy2st itself."""

UNROLL = 1000
"""Longer loops over a ``range`` of known length, or the rows of a tensor, are captured as loops, where their body allows it."""

UNROLLED_OPERATIONS = 50_000
"""So are those that would have more operations than this in all of their iterations, unless ``unroll`` says otherwise."""

_enabled = True
_lock = threading.Lock()


def set_enabled(value: bool) -> None:
    """Switch static execution on or off for the whole process."""
    global _enabled
    with _lock:
        _enabled = value


def is_enabled() -> bool:
    """Tell whether static functions run as programs."""
    return _enabled
