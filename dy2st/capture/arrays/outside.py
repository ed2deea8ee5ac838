"""Arrays that were there before the call and that the program changes, or finds changed at each call: they lie in its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dy2st.capture.arrays.array import CapturedArray
from dy2st.capture.session.session import need
from dy2st.capture.values.abstract_arrays import memory_of


def of_outside(array: np.ndarray[Any, Any]) -> CapturedArray:
    """Return what stands for an array that was there before the capture: it lies in the memory of an input of the program."""
    session = need()
    source, tensor = session.tracker.source_of(array), memory_of(array)
    assert source is not None and tensor is not None
    session.tracker.guards.same_type(source, array)
    session.tracker.read(tensor, session.tracker.table.memory(source))
    return CapturedArray.of_list(session.outside.adopt(tensor), ())
