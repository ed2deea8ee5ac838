"""What the patterns of a ``match`` statement may look at."""

from __future__ import annotations

from typing import Any

from dy2st.capture.session import Session
from dy2st.capture.values import SYMBOLIC_NUMBERS, Choice
from dy2st.errors import CaptureError
from dy2st_runtime.structure import children


def check_subject(session: Session, value: Any) -> None:
    """Refuse a subject of which a part is known only at run time; tensors may be matched by class and structure.

    Raises:
        CaptureError: a pattern would see the stand-in of a value.
    """
    if isinstance(value, (*SYMBOLIC_NUMBERS, Choice)) or session.runtime_list(value) is not None:
        raise CaptureError(
            "a match statement on a value that is known only at run time", session.here(), fix="write if and elif statements"
        )
    parts = children(value)
    for part in parts[0] if parts is not None else ():
        check_subject(session, part)
