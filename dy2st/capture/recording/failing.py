"""Operations that fail by what their arguments hold when the program runs, where an ``except`` clause would catch that.

A program has no way into the clause then, so such a ``try`` statement is refused when it is captured: what the model's author has
foreseen must not end a call in production. A clause that names no more than ``Exception`` is most often there for something else,
and refuses only what is known for failing.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from dy2st.capture.recording.capturing import Capturing
from dy2st.errors import CaptureError
from dy2st_runtime.ir.operators import present

_aten = torch.ops.aten
_LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # an alias
_FINITE = "test what goes into it (torch.isfinite) with an if statement"
_LINALG: dict[Any, str] = {
    **dict.fromkeys(present(
        "linalg_eigh", "linalg_eig", "linalg_eigvalsh", "linalg_eigvals", "linalg_svd", "linalg_svdvals", "linalg_lstsq",
        "linalg_tensorinv", "linalg_tensorsolve", "linalg_pinv", "svd"), _FINITE),
}  # fmt: skip
_SUBSCRIPTS = frozenset(present("index", "index_put", "index_put_"))
_INDICES = frozenset(present(
    "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_select", "index_add", "index_add_", "index_copy",
    "index_copy_", "index_fill", "index_fill_", "take", "take_along_dim", "embedding", "nll_loss", "cross_entropy_loss", "one_hot",
))  # fmt: skip
_PARTIAL = (math.gamma, math.lgamma, math.fmod, math.pow, math.factorial, math.isqrt)
"""What is not defined for each number."""
_GROWING = (math.exp, getattr(math, "exp2", math.exp), math.expm1, math.sinh, math.cosh, math.pow, math.gamma)


def check(session: Capturing, func: Any, args: Any) -> None:
    """Refuse an operation of torch that may fail when the program runs, where the user's code would catch that.

    Raises:
        CaptureError: an ``except`` clause around it is for the error.
    """
    if not session.in_flight.pending:
        return
    packet = func.overloadpacket
    if packet in _LINALG:
        _refuse(session, _LinAlgError(), packet.__name__, _LINALG[packet])
    elif packet is _aten.multinomial:
        _refuse(session, RuntimeError(), "multinomial", "test the probabilities with an if statement")
    elif packet in _SUBSCRIPTS:
        _refuse_if_named(session, IndexError(), "a subscript", "test the index with an if statement")
    elif packet in _INDICES:
        for error in (IndexError(), RuntimeError()):
            _refuse_if_named(session, error, packet.__name__, "test the indices with an if statement")


def check_number(session: Capturing, target: Any, args: Any) -> None:
    """Do the same for a function of numbers."""
    if not session.in_flight.pending:
        return
    named = getattr(target, "__name__", "")
    if target in _PARTIAL:
        _refuse(session, ValueError(), f"math.{named}", "test what goes into it with an if statement")
    if target in _GROWING:
        _refuse_if_named(session, OverflowError(), f"math.{named}", "test what goes into it with an if statement")
    if target is operator.pow:
        for error in (ZeroDivisionError(), OverflowError()):
            _refuse_if_named(session, error, "a power", "test the base and the exponent with an if statement")
    if target in (operator.lshift, operator.rshift):
        _refuse_if_named(session, ValueError(), "a shift", "test by how much with an if statement")


def check_assumption(session: Capturing, text: str) -> None:
    """Do the same for sizes that must fit."""
    _refuse_if_named(session, RuntimeError(), f"an operation that relies on {text}", "test the sizes with an if statement")


def _refuse_if_named(session: Capturing, error: Exception, what: str, fix: str) -> None:
    if any(step.catches(error) and not step.catches(Exception()) for step in session.in_flight.pending):
        _refuse(session, error, what, fix)


def _refuse(session: Capturing, error: Exception, what: str, fix: str) -> None:
    if any(step.catches(error) for step in session.in_flight.pending):
        raise CaptureError(
            f"{what} may fail when the program runs, and no program enters the except clause around it, which is for such errors "
            f"({type(error).__name__.lstrip('_')})",
            session.here(),
            fix=fix,
        )
