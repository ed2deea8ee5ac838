"""What a program leaves behind when it raises: what it has written outside until then.

Tensors are changed as the program goes; attributes, items, lists and variables are written at its end. Where the user's code
raises, an operation before that keeps what would have to be written, and whoever runs the program writes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dy2st.capture import results
from dy2st.capture.session import Session
from dy2st_runtime import control
from dy2st_runtime.program import Program

_local = threading.local()


class Leaving:
    """An operation that keeps the values that a program leaves in places outside, before it raises.

    Args:
        written: what it leaves, made of the values that the operation is given.
    """

    __name__ = "leave"

    def __init__(self, written: results.Written) -> None:
        self.written = written

    def __call__(self, *outputs: Any) -> None:
        _local.kept = self.written, outputs


def record(session: Session) -> None:
    """Record that the program leaves what has been written outside until now."""
    written, outputs = results.until_now(session)
    if written.effects:
        session.builder.call(control.call_, (Leaving(written), outputs, {}))


def may_leave(program: Program) -> bool:
    """Whether a program keeps something before it may raise."""
    return any(
        node.target is control.call_ and isinstance(node.args[0], Leaving)
        for block in program.blocks()
        for node in block.graph.find_nodes(op="call_function", target=control.call_)
    )


def begin() -> None:
    """A program starts to run."""
    _local.kept = None


def write(values: Sequence[Any]) -> None:
    """Write what the program left that has just raised, given the values of its sources."""
    kept, _local.kept = _local.kept, None
    if kept is not None:
        written, outputs = kept
        written.write(values, outputs, written.known(values))
