"""Assertions whose test is known only at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.branch import capture_if
from dy2st.capture.exceptions import raised
from dy2st.capture.session import Session, need


def capture_assert(test: Any, message: Callable[[], Any] | None) -> None:
    """An ``assert`` whose test is known only at run time; its message is evaluated when it fails."""
    session: Session = need()
    session.site("assert", "captured", "the test depends on a tensor")

    def fail() -> None:
        raise raised(AssertionError(*([] if message is None else [message()])))

    capture_if(test, _go_on, fail, ())


def _go_on() -> None:
    """The branch of a check that holds."""
