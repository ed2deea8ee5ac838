"""The arrays of NumPy that a capture has met: those in one memory are constants together, or inputs of the program together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dy2st.capture.values.abstract_arrays import memory_of
from dy2st.capture.values.signals import NeedsAbstract
from dy2st.errors import CaptureError

ACTS_FOR_USER = False


class _Met(NamedTuple):
    array: np.ndarray[Any, Any]
    name: str
    is_input: bool


class ArraysMet:
    """The arrays from outside that one capture has met."""

    def __init__(self) -> None:
        self._met: list[_Met] = []

    def meet(self, array: np.ndarray[Any, Any], name: str, is_input: bool) -> None:
        """Note an array.

        Args:
            array: the array.
            name: where it comes from.
            is_input: whether it is an input of the program, and not a constant of it.

        Raises:
            CaptureError: it cannot be an input, and has to be.
            NeedsAbstract: it has to be an input, or one that was met before: the other one in its memory is.
        """
        for other in self._met:
            if other.is_input is not is_input and np.may_share_memory(other.array, array):
                constant, its_name = (array, name) if other.is_input else (other.array, other.name)
                if memory_of(constant) is None:
                    raise CaptureError(
                        f"'{its_name}' is read, a read-only array, or one of {constant.dtype}, in memory that changes",
                        fix="keep a copy() of it, or an array that can be written",
                    )
                raise NeedsAbstract(its_name)
        self._met.append(_Met(array, name, is_input))
