"""Operations that torch refuses because what they write and what they read lie in the same memory.

    v *= v[0]                                   v[0] would change on the way
    x.expand(3).add_(1)                         which of the three is it

The abstract values of a capture have no memory, so torch's own check, made by the kernels, sees nothing. Done here, the error is
one that the capture knows of: ``finally`` clauses run, and what was written outside by then stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.ir.operators import present

_ALSO = frozenset(present("copy_.default"))
_UNCHECKED = frozenset(present("conj_physical_", "ldexp_", "float_power_", "fill_"))
"""In-place operations, element by element, in which torch accepts it."""
_SEVERAL = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
_SOME = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def refused_overlap(func: Any, args: Sequence[Any]) -> str | None:
    """Return what torch says to an operation that writes its first argument in place.

    ``None`` if it accepts it, or that is not known.
    """
    in_place = func.__name__.split(".")[0].endswith("_") and (torch.Tag.pointwise in func.tags or func in _ALSO)
    if not in_place or func.overloadpacket in _UNCHECKED or not args or not _is_known(args[0]):
        return None
    written = args[0]
    if any(size > 1 and stride == 0 for size, stride in zip(written.shape, written.stride())):
        return _SEVERAL
    return _SOME if any(_is_known(read) and _partly(written, read) for read in args[1:]) else None


def are_apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether it is known that two tensors in one memory have no element in common."""
    if not (_is_known(one) and _is_known(other)):
        return False
    (begin, end), (other_begin, other_end) = _span(one), _span(other)
    return end <= other_begin or other_end <= begin


def holds(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether all elements of another tensor in the same memory are elements of a tensor that lies there without gaps."""
    if not (_is_known(one) and _is_dense(one) and _is_known(other)):
        return False
    (begin, end), (other_begin, other_end) = _span(one), _span(other)
    return begin <= other_begin and other_end <= end


def has_holes(tensor: torch.Tensor) -> bool:
    """Tell whether it is known that a tensor does not fill the stretch of memory in which it lies, each element once."""
    return _is_known(tensor) and bool(tensor.numel()) and not _is_dense(tensor)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """From the first element to the end of the last, in bytes."""
    first = int(tensor.storage_offset())
    last = first + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return first * tensor.itemsize, (last + 1 if tensor.numel() else first) * tensor.itemsize


def _is_known(tensor: Any) -> bool:
    """Tell whether it is known where in its memory a tensor lies."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        return False
    return all(type(number) is int for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def _partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors have a part of their memory in common; torch looks no closer at those with holes."""
    if one is other or not one.numel() or not other.numel() or one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    if not (_is_dense(one) and _is_dense(other)):
        return False
    (begin, end), (other_begin, other_end) = _extent(one), _extent(other)
    if (begin, end) == (other_begin, other_end):
        return one.stride() != other.stride()
    return begin < other_end and other_begin < end


def _is_dense(tensor: torch.Tensor) -> bool:
    """Tell whether its elements fill a stretch of memory, each once."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    begin, size = int(tensor.storage_offset()), int(tensor.numel())
    return begin * tensor.itemsize, (begin + size) * tensor.itemsize


# -- which tensors lie in the memory of others, for their deep copies --------------------------------------------------------------


def shared(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """Return for each tensor where it lies in the memory of the first one that is there, and its strides.

    ``None`` for one that is the first, and has no holes.
    """
    firsts: dict[int, int] = {}
    places: list[Any] = []
    for index, tensor in enumerate(tensors):
        first = firsts.setdefault(tensor.untyped_storage()._cdata, index)
        offset = tensor.storage_offset() - tensors[first].storage_offset()
        places.append((first, offset, tensor.stride()) if first != index or has_holes(tensor) else None)
    return tuple(places)


class Differs:
    """Whether some tensors share memory otherwise than others did."""

    def __init__(self, places: tuple[Any, ...]) -> None:
        self.places = places

    def __call__(self, *tensors: Any) -> bool:
        return not all(isinstance(tensor, torch.Tensor) for tensor in tensors) or shared(*tensors) != self.places
