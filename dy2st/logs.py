"""What dy2st does, stage by stage, on the loggers of Python's `logging`.

| Logger | INFO | DEBUG |
|---|---|---|
| `dy2st.transform` | each function that is converted | |
| `dy2st.capture` | each program that is captured, with its time; what cannot be | its control-flow statements, and the program |
| `dy2st.cache` | each miss, and which value or argument is new | each hit |
| `dy2st.exec` | | each run of a program, with its time |
| `dy2st.code` | the transformed code (:func:`set_code_level`) | |

`DY2ST_LOGS=capture,cache` in the environment shows stages (`all` for every one) with all their messages on stderr; so does
:func:`set_verbosity`. An application that configures `logging` itself sets levels of these loggers like any others.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence

STAGES = ("transform", "capture", "cache", "exec")
ALL_PHASES = 100

transform, capture, cache, execution = (logging.getLogger(f"dy2st.{stage}") for stage in STAGES)
code = logging.getLogger("dy2st.code")
_root = logging.getLogger("dy2st")
_code_level: int | None = None


class _Stream(logging.Handler):
    """Writes to what a stream of `sys` is at the moment."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.stream_name = name
        self.setFormatter(logging.Formatter("[%(name)s] %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        print(self.format(record), file=getattr(sys, self.stream_name))


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Say how much to tell about what dy2st does; takes precedence over ``DY2ST_LOGS``.

    Args:
        level: 0 for nothing, 1 for what is converted, captured and looked up in vain, 2 or more for everything: programs, the
            control-flow statements in them, hits of the cache, and each run.
        also_to_stdout: whether to write to ``sys.stdout`` too, and not to ``sys.stderr`` alone.

    Example:
        >>> set_verbosity(1, also_to_stdout=True)
        >>> dy2st.to_static(lambda x: x * 2)(torch.ones(1))
        [dy2st.transform] converted <lambda> ...
        [dy2st.cache] <lambda>: miss, no program for ...
        [dy2st.capture] captured <lambda> ...
        tensor([2.])
        >>> set_verbosity(0)
    """
    _check("set_verbosity", level)
    wanted = logging.NOTSET if level == 0 else logging.INFO if level == 1 else logging.DEBUG
    _show(STAGES, wanted, also_to_stdout)


def set_code_level(level: int = ALL_PHASES, also_to_stdout: bool = False) -> None:
    """Show the transformed code of each function when it is captured.

    Args:
        level: after which phase of the rewrite, counted from 1: 4 is the last that rewrites statements. From 5 on, and by
            default, it is the code after all phases that people care to read, which ``.code`` gives; 0 for no code.
        also_to_stdout: whether to write to ``sys.stdout`` too, and not to ``sys.stderr`` alone.

    Example:
        >>> set_code_level(also_to_stdout=True)
        >>> @dy2st.to_static
        ... def positive(x):
        ...     return x if x.sum() > 0 else -x
        >>> positive(torch.ones(1))
        [dy2st.code] ...
        def positive(x):
            return _dy2st.if_exp(x.sum() > 0, lambda : x, lambda : -x)
        tensor([1.])
        >>> set_code_level(0)
    """
    global _code_level
    _check("set_code_level", level)
    _code_level = level or None
    _show(("code",), logging.INFO if level else logging.NOTSET, also_to_stdout)


def code_level() -> int | None:
    """Return the phase after which code is shown; ``None`` if it is not."""
    return _code_level


def _check(name: str, level: int) -> None:
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise ValueError(f"{name} takes a number from 0, not {level!r}")


def _show(stages: Sequence[str], level: int, also_to_stdout: bool) -> None:
    for stage in stages:
        logging.getLogger(f"dy2st.{stage}").setLevel(level)
    for handler in [handler for handler in _root.handlers if isinstance(handler, _Stream)]:
        _root.removeHandler(handler)
    shown = [logger for logger in (transform, capture, cache, execution, code) if logger.level]
    if shown:
        for name in ("stderr", "stdout")[: 1 + also_to_stdout]:
            _root.addHandler(_Stream(name))
    _root.propagate = not shown  # the handlers of the application would show everything twice


def read_environment(value: str) -> None:
    """Show the stages that ``DY2ST_LOGS`` names."""
    named = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in named if name not in (*STAGES, "all")]
    if unknown:
        warnings.warn(f"DY2ST_LOGS names {', '.join(unknown)}; the stages are {', '.join(STAGES)}, and all", stacklevel=2)
    stages = STAGES if "all" in named else [name for name in named if name in STAGES]
    if stages:
        _show(stages, logging.DEBUG, also_to_stdout=False)


read_environment(os.environ.get("DY2ST_LOGS", ""))
