"""The modes that record operations, for each thread that captures.

torch keeps its stacks of modes by thread, but for one: the modes of the PreDispatch key, where captures record, are in one object
for the whole process. While there are captures, each thread that captures has an object of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch._ops

from dy2st.capture.patches import Patch

_local = threading.local()
_ops: Any = torch._ops
_original = _ops.mode_stack_state_for_pre_dispatch


def _of_thread() -> Any:
    return getattr(_local, "state", None) or _original()


def _install() -> None:
    _ops.mode_stack_state_for_pre_dispatch = _of_thread


def _remove() -> None:
    _ops.mode_stack_state_for_pre_dispatch = _original


_PATCH = Patch(_install, _remove)


@contextlib.contextmanager
def own_mode_stack() -> Iterator[None]:
    """A scope in which this thread has modes of its own at the PreDispatch key."""
    outer = getattr(_local, "state", None)
    with _PATCH.applied():
        _local.state = outer or _ops._ModeStackStateForPreDispatch()
        try:
            yield
        finally:
            _local.state = outer
