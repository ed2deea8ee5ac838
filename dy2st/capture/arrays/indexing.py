"""Views of arrays: basic indices are views of the tensor; where a step is -1, a dimension runs the other way."""

from __future__ import annotations

import sys
from typing import Any

import torch

from dy2st.capture.arrays import recorded
from dy2st.capture.values.abstract_arrays import AbstractArray


def as_view(array: AbstractArray, key: Any) -> AbstractArray | None:
    """Return ``array[key]`` as a view; ``None`` where it is a copy, or a number."""
    parts = [_whole(part) for part in (key if isinstance(key, tuple) else (key,))]
    if not all(map(_is_basic, parts)):
        return None
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis not in parts:
        if used == array.items.dim() and not any(isinstance(part, slice) or part is None for part in parts):
            return None
        parts.append(Ellipsis)
    if used > array.items.dim() or sum(part is Ellipsis for part in parts) > 1:
        return None  # NumPy says what is wrong
    at = next(position for position, part in enumerate(parts) if part is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (array.items.dim() - used)
    index, flips, dim, place = list[Any](), list[int](), 0, 0
    for part in parts:
        backwards = part is not None and dim in array.flips
        part, is_flipped = _in_memory(part, backwards)
        index.append(part)
        if isinstance(part, slice) and is_flipped:
            flips.append(place)
        dim += part is not None
        place += part is None or isinstance(part, slice)
    return AbstractArray.captured(array.items[tuple(index)], tuple(flips))


def _whole(part: Any) -> Any:
    """Return a part of an index with NumPy's own ints as numbers."""
    if isinstance(part, slice):
        return slice(*map(_whole, (part.start, part.stop, part.step)))
    is_int = isinstance(part, AbstractArray) and part.is_scalar and part.dtype.kind in "iu"
    return part.number() if is_int else part


def _is_basic(part: Any) -> bool:
    if isinstance(part, slice):
        return all(bound is None or _is_int(bound) for bound in (part.start, part.stop, part.step))
    return part is None or part is Ellipsis or _is_int(part)


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.SymInt) or (isinstance(value, int) and not isinstance(value, bool))


def _in_memory(part: Any, backwards: bool) -> tuple[Any, bool]:
    """Return a part of an index as the memory has it, and whether what it gives runs backwards there."""
    if not isinstance(part, slice):
        return (-(part + 1) if backwards and part is not None else part), False
    step = 1 if part.step is None else part.step
    if not backwards and not isinstance(step, torch.SymInt) and step > 0:
        return part, False
    start, stop = part.start, part.stop
    if any(isinstance(bound, torch.SymInt) for bound in (start, stop, step)) or step not in (1, -1):
        raise recorded.refused(
            "slicing", "a step other than 1 or -1, or symbolic bounds, where it runs backwards", "slice a copy()"
        )
    if step == 1:
        return slice(None if stop is None else -stop or sys.maxsize, -start if start else None), True
    if backwards:
        return slice(None if start is None else -(start + 1), None if stop is None else -(stop + 1)), False
    first = None if stop is None else sys.maxsize if stop == -1 else stop + 1
    return slice(first, None if start in (None, -1) else start + 1), True
