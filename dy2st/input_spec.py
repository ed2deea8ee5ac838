"""What a static function expects of its arguments.

InputSpec([None, 8], "float32")    a tensor whose first size may differ from call to call
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dy2st.errors import SignatureError
from dy2st_runtime.arrays.calls import in_memory
from dy2st_runtime.ir.flattening import HoldsItselfError, repeated_containers

Specs = Sequence[Any] | Mapping[str, Any]
"""What an ``input_spec`` is: an entry for each parameter, in order or by name."""


@dataclasses.dataclass(frozen=True, init=False)
class InputSpec:
    """What a static function expects of one tensor, or array of NumPy.

    Args:
        shape: sizes; ``None`` (or -1) for one that may differ from call to call.
        dtype: a ``torch.dtype`` or its name, such as ``"float32"``.
        name: a name for messages and for the saved model; the parameter's name if left out.

    Raises:
        SignatureError: the shape or dtype makes no sense.

    Example:
        >>> InputSpec([None, 8], "float32", name="x")
        InputSpec(shape=(None, 8), dtype=torch.float32, name='x')
    """

    shape: tuple[int | None, ...]
    dtype: torch.dtype
    name: str | None

    def __init__(self, shape: Sequence[int | None], dtype: torch.dtype | str = torch.float32, name: str | None = None) -> None:
        if not isinstance(shape, (list, tuple)):
            raise SignatureError(f"a shape is a list of sizes, not {shape!r}")
        if name is not None and not isinstance(name, str):
            raise SignatureError(f"a name is a string, not {name!r}")
        object.__setattr__(self, "shape", tuple(_checked_size(size) for size in shape))
        object.__setattr__(self, "dtype", _checked_dtype(dtype))
        object.__setattr__(self, "name", name)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, name: str | None = None) -> InputSpec:
        """Return the specification of exactly this tensor's shape and dtype.

        Raises:
            SignatureError: it is no tensor.
        """
        if not isinstance(tensor, torch.Tensor):
            raise SignatureError(f"from_tensor takes a tensor, not a {type(tensor).__name__}")
        return cls(tuple(tensor.shape), tensor.dtype, name)

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any], name: str | None = None) -> InputSpec:
        """Return the specification of exactly this array's shape and dtype.

        Raises:
            SignatureError: it is no array of numbers.

        Example:
            >>> InputSpec.from_numpy(np.zeros((2, 3), np.float32))
            InputSpec(shape=(2, 3), dtype=torch.float32, name=None)
        """
        tensor = in_memory(array.copy()) if isinstance(array, np.ndarray) else None
        if tensor is None:
            raise SignatureError(
                f"from_numpy takes an array of numbers, not a {type(array).__name__}"
                + (f" of {array.dtype}" if isinstance(array, np.ndarray) else "")
            )
        return cls(tuple(tensor.shape), tensor.dtype, name)

    @property
    def dynamic_dims(self) -> frozenset[int]:
        """The dimensions whose size may differ from call to call."""
        return frozenset(dim for dim, size in enumerate(self.shape) if size is None)

    def example(self, device: torch.device | None = None) -> torch.Tensor:
        """Return a tensor of zeros that fits, with 2 for each dynamic size."""
        return torch.zeros([2 if size is None else size for size in self.shape], dtype=self.dtype, device=device)

    def check(self, tensor: Any, name: str) -> None:
        """Compare a tensor with the specification.

        Raises:
            SignatureError: it does not fit; the message names both.
        """
        given, tensor = tensor, in_memory(tensor) if isinstance(tensor, np.ndarray) else tensor
        if not isinstance(tensor, torch.Tensor):
            raise SignatureError(f"'{name}' is specified as a tensor {self}, but a {type(given).__name__} was given")
        if tensor.dtype != self.dtype:
            raise SignatureError(f"'{name}' is specified with dtype {self.dtype}, but has {tensor.dtype}; convert it with .to()")
        fits = tensor.dim() == len(self.shape) and all(s in (None, t) for s, t in zip(self.shape, tensor.shape))
        if not fits:
            raise SignatureError(
                f"'{name}' is specified with shape {list(self.shape)}, but has {list(tensor.shape)}; "
                "None in the shape allows any size"
            )


def _checked_size(size: Any) -> int | None:
    if size is None or size == -1:
        return None
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise SignatureError(f"a size must be a number, or None where it may differ, not {size!r}")
    return size


def _checked_dtype(dtype: Any) -> torch.dtype:
    result = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(result, torch.dtype):
        raise SignatureError(f"{dtype!r} is no dtype of torch")
    return result


def checked_specs(specs: Any) -> Specs | None:
    """Return what was given as ``input_spec``; one specification stands for a list of it.

    Raises:
        SignatureError: it is no list or dict of specifications, or holds itself.
    """
    if specs is None:
        return None
    if isinstance(specs, InputSpec):
        return [specs]
    if not isinstance(specs, (list, tuple, Mapping)):
        raise SignatureError(f"input_spec is a list with one entry for each parameter, not a {type(specs).__name__}")
    try:
        repeated_containers(specs, lambda part: False)
    except HoldsItselfError as error:
        raise SignatureError(f"in input_spec {error}; specify what is read of it, and keep it in the module or a closure") from None
    return specs
