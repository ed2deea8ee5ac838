"""The modes that record operations, for each thread that captures.

torch keeps its stacks of modes by thread, but for one: the modes of the PreDispatch key, where captures record, are in one object
for the whole process. While there are captures, each thread that captures has an object of its own.

Two tables of operators that torch fills as it goes take it for granted that one thread does so: the set of those it knows is gone
through while another thread adds to it, and what an operator does for a key is looked up twice at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch._ops

from dy2st.capture.recording.patches import Patch

_local = threading.local()
_ops: Any = torch._ops
_original = _ops.mode_stack_state_for_pre_dispatch
_known_operators = _ops.get_cached_ops
_look_up = _ops.OpOverload._get_dispatch


def _of_thread() -> Any:
    return getattr(_local, "state", None) or _original()


def _copy_of_known() -> Any:
    return [*_known_operators()]


def _looked_up(operator: Any, key: Any) -> Any:
    try:
        return _look_up(operator, key)
    except AssertionError:
        if key not in operator._dispatch_cache:
            raise
        return operator._dispatch_cache[key]  # another thread was faster


def _install() -> None:
    _ops.mode_stack_state_for_pre_dispatch = _of_thread
    _ops.get_cached_ops = _copy_of_known
    _ops.OpOverload._get_dispatch = _looked_up


def _remove() -> None:
    _ops.mode_stack_state_for_pre_dispatch = _original
    _ops.get_cached_ops = _known_operators
    _ops.OpOverload._get_dispatch = _look_up


_PATCH = Patch(_install, _remove)


@contextlib.contextmanager
def own_mode_stack() -> Iterator[None]:
    """Open a scope in which this thread has modes of its own at the PreDispatch key."""
    outer = getattr(_local, "state", None)
    with _PATCH.applied():
        _local.state = outer or _ops._ModeStackStateForPreDispatch()
        try:
            yield
        finally:
            _local.state = outer
