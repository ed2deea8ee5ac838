"""The arrays of NumPy that a capture has met: those in one memory are constants together, or inputs of the program together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from dy2st.capture.environment.sources import Source
from dy2st.capture.values.abstract_arrays import memory_of
from dy2st.capture.values.signals import NeedsAbstract
from dy2st.errors import CaptureError

ACTS_FOR_USER = False


class _Met(NamedTuple):
    array: np.ndarray[Any, Any]
    source: Source
    is_input: bool
    can_be: bool


class ArraysMet:
    """The arrays from outside that one capture has met."""

    def __init__(self) -> None:
        self._met: list[_Met] = []
        self._shared: list[tuple[np.ndarray[Any, Any], int]] = []
        """Known arrays with the memory of the abstract tensors that stand for copies of theirs."""

    def meet(
        self,
        array: np.ndarray[Any, Any],
        source: Source,
        is_input: bool,
        is_placed: bool = True,
        tensors: Iterable[torch.Tensor] = (),
    ) -> None:
        """Note an array.

        Args:
            array: the array.
            source: where it comes from.
            is_input: whether it is an input of the program, and not a constant of it.
            is_placed: whether it is held where something can stand for it.
            tensors: those that were met before.

        Raises:
            CaptureError: it cannot be an input, and has to be.
            NeedsAbstract: it has to be an input, or one that was met before: the other one in its memory is.
        """
        met = _Met(array, source, is_input, is_placed and memory_of(array) is not None)
        for other in self._met:
            if other.is_input is not is_input and np.may_share_memory(other.array, array):
                constant = met if other.is_input else other
                if not constant.can_be:
                    name = constant.source.name
                    raise CaptureError(
                        f"'{name}' is read, an array in memory that changes, that is read-only or out of reach in a tuple",
                        fix="keep a copy() of it, or an array that can be written in an attribute, variable, list or dict",
                    )
                raise NeedsAbstract(constant.source.name)
        self._met.append(met)
        for tensor in tensors:
            self.meet_tensor(tensor)

    def apart(self) -> Iterator[tuple[Source, list[Source]]]:
        """Yield where arrays come from that are constants, with the inputs in whose memory they must not come to lie."""
        inputs = {met.source.index: met.source for met in self._met if met.is_input}
        for met in self._met if inputs else ():
            if not met.is_input:
                yield met.source, [*inputs.values()]

    def under(self, value: Any) -> tuple[np.ndarray[Any, Any], bool] | None:
        """Return the array in whose memory an array or tensor lies that the code has made, and whether it can be an input.

        ``None`` where it lies in no array that was met as a constant.
        """
        lies_in = np.may_share_memory if isinstance(value, np.ndarray) else _lies_in
        over = (met for met in self._met if not met.is_input and lies_in(met.array, value))
        return next(((met.array, met.can_be) for met in over), None)

    def share(self, array: np.ndarray[Any, Any], tensor: torch.Tensor) -> None:
        """Note that code has made a tensor in the memory of an array that is known."""
        if array.size:
            self._shared.append((array, tensor.untyped_storage()._cdata))

    def is_shared(self, value: np.ndarray[Any, Any] | torch.Tensor) -> bool:
        """Tell whether an array that is known, or a tensor, lies in memory for which there is a copy."""
        if isinstance(value, np.ndarray):
            return any(np.may_share_memory(array, value) for array, _ in self._shared)
        return bool(self._shared) and value.untyped_storage()._cdata in {memory for _, memory in self._shared}

    def meet_tensor(self, tensor: torch.Tensor) -> None:
        """Note a tensor: an array in its memory may change when it does.

        Raises:
            NeedsAbstract: an array that was met as a constant lies there.
        """
        for met in self._met:
            if not met.is_input and met.can_be and _lies_in(met.array, tensor):
                raise NeedsAbstract(met.source.name)


def _lies_in(array: np.ndarray[Any, Any], tensor: torch.Tensor) -> bool:
    """Tell whether an array has a part in the memory of a tensor."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return False
    storage = tensor.untyped_storage()
    reach = [(size - 1) * step for size, step in zip(array.shape, array.strides)]
    first = array.ctypes.data + sum(step for step in reach if step < 0)
    end = array.ctypes.data + sum(step for step in reach if step > 0) + array.itemsize
    return bool(array.size and first < storage.data_ptr() + storage.nbytes() and storage.data_ptr() < end)
