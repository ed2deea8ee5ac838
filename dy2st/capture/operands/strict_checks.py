"""Checks in torch's code for abstract values that ask for more than the kernels do: nothing is assumed for them.

A size that only the program knows may be 1 where a kernel stretches its operand (``y[:] = p``, ``torch.addbmm(p, a, b)``), or 0
where a reduction has a value for nothing (``logsumexp``). The shape of the result is the same, and a kernel that does refuse the
sizes says so when the program runs.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from torch import _prims, _refs

_FRAMES = 8
"""How many calls are between such a check and the shape environment, at most."""


def _code(function: Any) -> types.CodeType | None:
    return getattr(function, "__code__", None)


_STRICTER = {_code(getattr(_prims, "_broadcast_in_dim_meta", None)), _code(getattr(_refs, "_reduction", None))} - {None}


def is_stricter_than_kernels() -> bool:
    """Tell whether what is asked now is such a check."""
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is not None and frame.f_code in _STRICTER:
            return True
    return False
