"""Arrays, numbers and dtypes of NumPy in results: each call makes new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st_runtime.ir.structure import CollectionOf, Const, Structure

KINDS = (AbstractArray, np.ndarray, np.generic, np.dtype)
"""What is of NumPy."""
ARRAY = "ndarray[]"
"""The kind of collection that an array is which runs backwards in no dimension."""


class OfNumPy:
    """Describes what is of NumPy in the results of a capture.

    Args:
        session: the capture.
        describe: gives the structure of a tensor.
    """

    def __init__(self, session: Session, describe: Callable[[Any, str], Structure]) -> None:
        self._session, self._describe = session, describe
        self._known: list[np.ndarray[Any, Any]] = []
        """Arrays that were made when the program was."""

    def described(self, value: Any, what: str) -> Structure:
        """Return the structure of one; ``what`` the function does with it, for a message."""
        if isinstance(value, AbstractArray):
            kind = "numpy.generic" if value.is_scalar else f"ndarray[{' '.join(map(str, value.flips))}]"
            return CollectionOf(kind, (self._describe(value.items, what),))
        if isinstance(value, np.ndarray):
            return self._array(value, what)
        plain = value.dtype if isinstance(value, np.generic) else value
        if plain.kind not in "biufc":
            return Const(value)
        if isinstance(value, np.dtype):
            return CollectionOf("numpy.dtype", (Const(value.str),))
        return CollectionOf(f"numpy.generic[{value.dtype.str}]", (Const(value.tobytes().hex()),))

    def _array(self, array: np.ndarray[Any, Any], what: str) -> Structure:
        session = self._session
        if session.tracker.source_of(array) is not None:
            session.tracker.identity(array)
            return Const(array)
        viewed, _ = session.tracker.arrays.under(array) or (None, False)
        if viewed is not None:
            session.outside.check_changed(viewed)
        shares = any(np.may_share_memory(array, other) for other in self._known if other is not array) or viewed is not None
        if array.dtype.kind not in "biufc" or shares:
            which = "that shares its memory with another one" if shares else f"of {array.dtype}"
            raise errors.CaptureError(
                f"{session.name} {what} an array {which}, that it makes itself", session.here(), fix="give a copy(), or a tensor"
            )
        self._known.append(array)
        return CollectionOf(f"numpy.array[{array.dtype.str} {' '.join(map(str, array.shape))}]", (Const(array.tobytes().hex()),))
