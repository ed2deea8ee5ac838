"""Random numbers that libraries draw of Python's or NumPy's generators where nobody sees it: such calls are refused."""

from __future__ import annotations

import contextlib
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy

from dy2st import errors
from dy2st.capture.session.session import Session

_ON_THEIR_OWN = ("torch", "dy2st", "dy2st_runtime")
"""Packages whose functions draw of torch's generators, which is recorded."""


@contextlib.contextmanager
def refused(session: Session, function: Any) -> Iterator[None]:
    """Refuse a call of a library's function, written in Python, that draws: it would do so only once, at capture.

    Raises:
        CaptureError: it has drawn.
    """
    package = (getattr(function, "__module__", None) or "").partition(".")[0]
    if not isinstance(function, (types.FunctionType, types.MethodType)) or package in _ON_THEIR_OWN:
        yield
        return
    of_python, of_numpy = random.getstate(), numpy.random.get_state()
    yield
    if random.getstate() == of_python and _same(numpy.random.get_state(), of_numpy):
        return
    random.setstate(of_python)
    numpy.random.set_state(of_numpy)
    raise errors.CaptureError(
        f"{function.__qualname__}() draws random numbers of Python or NumPy, and would do so only once, at capture",
        session.here(),
        fix="use torch's random functions or torch.distributions, pass the numbers as an argument, "
        "or mark the function around it with @dy2st.not_to_static",
    )


def _same(state: Any, other: Any) -> bool:
    """Tell whether two states of NumPy's generator, of one kind, are equal."""
    return all(bool((a == b).all()) if isinstance(a, numpy.ndarray) else a == b for a, b in zip(state, other))
