"""Notes of exceptions: a list that Python keeps in an attribute."""

from __future__ import annotations

from typing import Any

from dy2st.capture.attributes import assignment, attributes
from dy2st.capture.branching.branch import capture_if
from dy2st.capture.library.registry import handles
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.values.texts import Text


def _add_note(session: Session, error: BaseException, note: Any) -> None:
    if not isinstance(note, (str, Text)):
        raise raised(TypeError(f"note must be a str, not '{type(note).__name__}'"))

    def begin() -> None:
        assignment.set_attr(error, "__notes__", [note])

    def go_on() -> None:
        session.call(list.append, attributes.attr(error, "__notes__"), note)

    has_notes = attributes.has_attr(error, "__notes__")
    if isinstance(has_notes, bool):
        (go_on if has_notes else begin)()
    else:
        capture_if(has_notes, go_on, begin, ())


if hasattr(BaseException, "add_note"):  # from Python 3.11 on
    handles(BaseException.add_note)(_add_note)
