"""What stands for an array of NumPy, or for one of its numbers, during a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch

from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.arrays.calls import in_memory

_DTYPES: dict[torch.dtype, np.dtype[Any]] = {}


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Return NumPy's dtype for one of torch.

    Raises:
        TypeError: NumPy has none, in torch's words.
    """
    if dtype not in _DTYPES:
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            _DTYPES[dtype] = torch.empty((), dtype=dtype, device="cpu").numpy().dtype
    return _DTYPES[dtype]


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """Return torch's dtype for one of NumPy."""
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.from_numpy(np.zeros(1, dtype)).dtype


def memory_of(array: Any) -> torch.Tensor | None:
    """Return :func:`~dy2st_runtime.arrays.calls.in_memory` of an array, whatever modes are on."""
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        return in_memory(array)


class AbstractArray(Represents):
    """What stands for an array whose contents are known only at run time.

    Attributes:
        items: the tensor in whose memory it lies.
        maxlen: the dimensions in which it runs backwards; ``None`` for one of NumPy's numbers.
    """

    __slots__ = ("__weakref__", "items", "maxlen")
    items: torch.Tensor
    maxlen: tuple[int, ...] | None
    captured: ClassVar[Callable[[torch.Tensor, tuple[int, ...] | None], AbstractArray]]
    """Makes one; see arrays/array.py."""

    @property
    def is_scalar(self) -> bool:
        """Whether it is one of NumPy's numbers."""
        return self.maxlen is None

    @property
    def flips(self) -> tuple[int, ...]:
        """The dimensions in which it runs backwards."""
        return self.maxlen or ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return numpy_dtype(self.items.dtype)

    @property
    def example(self) -> Any:
        """An array of the same dtype and number of dimensions, or a number of the same class."""
        return self.dtype.type(1) if self.is_scalar else np.zeros((1,) * self.items.dim(), self.dtype)

    def number(self) -> Any:
        """Return the number in it as Python's: symbolic."""
        return self.items.item()

    def as_tensor(self) -> torch.Tensor:
        """Return a tensor with the same contents, in memory of its own where it runs backwards."""
        return self.items.flip(self.flips) if self.flips else self.items.detach()

    def length(self) -> Any:
        """Return ``len(self)``: a number, symbolic or not."""
        raise NotImplementedError

    def truth(self) -> Any:
        """Return its truth value, symbolic."""
        raise NotImplementedError


def is_open(value: Any) -> bool:
    """Tell whether an argument of NumPy's holds something that only the program knows."""
    return holds(value, (AbstractArray, torch.Tensor, *SYMBOLIC_NUMBERS))


def holds(value: Any, kinds: tuple[Any, ...]) -> bool:
    """Tell whether a value is of some kinds, or a tuple, list, dict or slice with one that is."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, kinds):
            return True
        if id(part) in seen or type(part) not in (tuple, list, dict, slice):
            continue
        seen.add(id(part))
        if type(part) is slice:
            waiting += (part.start, part.stop, part.step)
        else:
            waiting += part.values() if type(part) is dict else part
    return False
