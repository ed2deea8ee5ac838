"""Operations that fail by what their arguments hold when the program runs, where an ``except`` clause would catch that.

A program has no way into the clause then, so such a ``try`` statement is refused when it is captured: what the model's author has
foreseen must not end a call in production. A clause that names no more than ``Exception`` is most often there for something else,
and refuses only what is known for failing.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from dy2st.capture.recording.capturing import Capturing
from dy2st.errors import CaptureError

_PARTIAL = (math.gamma, math.lgamma, math.fmod, math.pow, math.factorial, math.isqrt, math.comb, math.perm)
"""What is not defined for each number."""
_GROWING = (math.exp, getattr(math, "exp2", math.exp), math.expm1, math.sinh, math.cosh, math.pow, math.gamma, math.ldexp)


def check_number(session: Capturing, target: Any, args: Any) -> None:
    """Refuse a function of numbers that may fail when the program runs, where the user's code would catch that.

    Raises:
        CaptureError: an ``except`` clause around it is for the error.
    """
    named = getattr(target, "__name__", "")
    if target in _PARTIAL:
        refuse(session, ValueError(), f"math.{named}", "test what goes into it with an if statement")
    if target in _GROWING:
        refuse_if_named(session, OverflowError(), f"math.{named}", "test what goes into it with an if statement")
    if target is operator.pow:
        for error in (ZeroDivisionError(), OverflowError()):
            refuse_if_named(session, error, "a power", "test the base and the exponent with an if statement")
    if target is pow:  # with a modulus
        refuse_if_named(session, ValueError(), "a power with a modulus", "test the modulus with an if statement")
    if target in (operator.lshift, operator.rshift):
        refuse_if_named(session, ValueError(), "a shift", "test by how much with an if statement")


def check_assumption(session: Capturing, text: str) -> None:
    """Do the same for sizes that must fit."""
    refuse_if_named(session, RuntimeError(), f"an operation that relies on {text}", "test the sizes with an if statement")


def refuse_if_named(session: Capturing, error: Exception, what: str, fix: str) -> None:
    if any(step.catches(error) and not step.catches(Exception()) for step in session.in_flight.pending):
        refuse(session, error, what, fix)


def refuse(session: Capturing, error: Exception, what: str, fix: str) -> None:
    """Refuse what a clause around it is for."""
    if any(step.catches(error) for step in session.in_flight.pending):
        raise CaptureError(
            f"{what} may fail when the program runs, and no program enters the except clause around it, which is for such errors "
            f"({type(error).__name__.lstrip('_')})",
            session.here(),
            fix=fix,
        )
