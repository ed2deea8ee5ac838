"""Arguments of NumPy's functions as the text of a call and its operands."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.kinds import number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.arrays import calls

_DTYPES = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}


class Encoder:
    """Takes the arguments of one call.

    Attributes:
        operands: the tensors of the program among them, in order.
        numbers: for each that holds a number of Python, that number; ``None`` for the others.
    """

    def __init__(self, session: Session, function: str) -> None:
        self._session, self._function = session, function
        self.operands: list[torch.Tensor] = []
        self.numbers: list[Any] = []

    def encode(self, value: Any) -> Any:
        """Return an argument as the text has it."""
        if isinstance(value, AbstractArray):
            return self._operand(value.items, "scalar" if value.is_scalar else "array", value.flips)
        if isinstance(value, torch.Tensor):
            return self._operand(self._session.outside.adopted(value), "tensor")
        if isinstance(value, SYMBOLIC_NUMBERS):
            tensor = torch.scalar_tensor(cast(Any, value), dtype=_DTYPES[number_kind(value)], device="cpu")
            return self._operand(tensor, "number", number=value)
        if type(value) is list and self._session.lists.of(value) is None:
            return [self.encode(item) for item in value]
        if type(value) is tuple:
            return {"tuple": [self.encode(item) for item in value]}
        if type(value) is slice:
            return {"slice": [self.encode(part) for part in (value.start, value.stop, value.step)]}
        if isinstance(value, np.ndarray) and type(value) is np.ndarray:
            return self._operand(self._constant(value), "array")
        try:
            return calls.encoded(value)
        except TypeError:
            raise self.refused(f"a {type(value).__qualname__}") from None

    def _operand(self, tensor: torch.Tensor, role: str, flips: tuple[int, ...] = (), number: Any = None) -> Any:
        self.operands.append(tensor)
        self.numbers.append(number)
        return calls.operand(len(self.operands) - 1, role, flips)

    def _constant(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        try:
            return cast(torch.Tensor, self._session.outside.adopted(torch.from_numpy(array.copy())))
        except TypeError:
            raise self.refused(f"an array of {array.dtype}") from None

    def refused(self, what: str) -> errors.CaptureError:
        """Return the error for an argument that no program can hand over."""
        return errors.CaptureError(
            f"numpy.{self._function}() gets {what} next to values known only at run time",
            self._session.here(),
            fix="use numbers, tuples, lists and arrays of numbers, or the function of torch",
        )
