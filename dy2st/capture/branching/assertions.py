"""Assertions whose test is known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from dy2st.capture.branching.branch import capture_if
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, need
from dy2st.capture.texts import wording
from dy2st_runtime.primitives import control


def capture_assert(test: Any, message: Callable[[], Any] | None) -> None:
    """Capture an ``assert`` whose test is known only at run time; its message is evaluated when it fails."""
    session: Session = need()
    session.site("assert", "captured", "the test depends on a tensor")

    def fail() -> None:
        raise raised(AssertionError(*([] if message is None else [message()])))

    capture_if(test, _go_on, fail, ())


def check(
    session: Session, condition: Any, exception: type[Exception], *arguments: Any, about: Mapping[str, Any] | None = None
) -> None:
    """Record a check that Python makes on its own, and raises an exception where it fails: a name that is bound, an item found.

    Args:
        condition: whether it holds, known only at run time.
        exception, arguments: what is raised if not; a text is put together where it is needed.
        about: what the exception has besides, for those who catch it.
    """
    known = session.shapes.known(condition) if isinstance(condition, (bool, torch.SymBool)) else None
    if known is True:
        return
    if (
        session.in_flight.pending or session.in_flight.has_written()
    ):  # others see the exception pass, or see what was done before it

        def fail() -> None:
            error = exception(*arguments)
            for name, value in (about or {}).items():
                setattr(error, name, value)
            raise raised(error)

        capture_if(condition, _go_on, fail, ())
    else:
        session.builder.call(control.assert_, (condition, exception, *(wording.node_value(session, value) for value in arguments)))
    if isinstance(condition, torch.SymBool):
        session.shapes.learn_checked(condition.node.expr)


def _go_on() -> None:
    """Take the branch of a check that holds."""
