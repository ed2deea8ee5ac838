"""Exceptions that the user's code raises inside captured blocks: raised when the program gets there."""

from __future__ import annotations

from typing import Any

from dy2st.capture import text
from dy2st.capture.session import Unreachable, current
from dy2st_runtime import control


def raised(error: Any) -> Any:
    """What a ``raise`` statement raises during capture.

    Outside of captured blocks, the exception itself. Inside, or when its message is known only at run time, an operation that
    raises it is recorded, and the rest of the block is unreachable.
    """
    session = current()
    if session is None:
        return error
    kind = error if isinstance(error, type) else type(error)
    arguments = () if isinstance(error, type) else error.args
    if session.at_root and not any(text.has_runtime_parts(session, a) for a in arguments):
        return error
    session.emit_checks()
    session.builder.call(control.raise_, (kind, *(text.value(session, a) for a in arguments)))
    return Unreachable()
