"""Indexing of tensors with numbers that are known only at run time.

``x[i]`` with a symbolic ``i`` is ``x.select(0, i)``; torch's own subscript would ask for the value of ``i``. The basic parts of an
index (numbers, slices, ``None``, ``...``) are applied one dimension at a time, what is left (masks, index tensors) as torch does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import sympy
import torch

from dy2st.capture.recording import failing
from dy2st.capture.recording.position import Position
from dy2st.capture.session.session import current
from dy2st.capture.torch_functions import by_number
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control

_FULL = slice(None)
_ZERO, _NEGATIVE = "slice step cannot be zero", "step must be greater than zero"
_INDEX = "index it with torch.arange(start, stop, step)"


def get_item(position: Position, tensor: torch.Tensor, index: Any, plain: Callable[..., Any]) -> Any:
    """Return ``tensor[index]``; ``plain`` is torch's own subscript."""
    index = _with_tensors(tensor, index)
    if not _needs_rewrite(tensor, index):
        return plain(tensor, index)
    _check_count(tensor, index, plain)
    view, rest = _apply_basic(position, tensor, index)
    return view if rest is None else plain(view, rest)


def set_item(position: Position, tensor: torch.Tensor, index: Any, value: Any, plain: Callable[..., Any]) -> None:
    """Do ``tensor[index] = value``."""
    index = _with_tensors(tensor, index)
    if not _needs_rewrite(tensor, index) and not isinstance(value, SYMBOLIC_NUMBERS) and not _may_be_stretched(value):
        plain(tensor, index, value)
        return
    _check_count(tensor, index, plain, value)
    view, rest = _apply_basic(position, tensor, index)
    if isinstance(value, SYMBOLIC_NUMBERS):
        value = torch.scalar_tensor(cast(Any, value), dtype=tensor.dtype, device=tensor.device)
    if rest is not None:
        plain(view, rest, value)
    elif isinstance(value, torch.Tensor):
        view.copy_(_strip_leading_ones(value, view.dim()))
    else:
        view.fill_(value)


def _may_be_stretched(value: Any) -> bool:
    """Tell whether a size of a tensor that is put in may be 1, where torch's own subscript takes it not to be."""
    return isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape)


def _with_tensors(tensor: torch.Tensor, index: Any) -> Any:
    """Return an index with a tensor for each list or tuple in it that holds numbers of the program; torch would read these."""
    if not isinstance(index, tuple) or not any(map(_is_sequence, index)):
        return index
    return tuple(_stacked(tensor, part) if _is_sequence(part) else part for part in index)


def _is_sequence(part: Any) -> bool:
    if type(part) not in (list, tuple) or not any(map(_is_runtime_number, part)):
        return False
    return all(type(item) is int or (_is_runtime_number(item) and not isinstance(item, torch.SymFloat)) for item in part)


def _stacked(tensor: torch.Tensor, numbers: Any) -> torch.Tensor:
    items = [item if isinstance(item, torch.Tensor) else torch.scalar_tensor(item, dtype=torch.int64) for item in numbers]
    return torch.stack([item.to(tensor.device, torch.int64) for item in items])


def _needs_rewrite(tensor: torch.Tensor, index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    if any(type(part) is int for part in parts) and not all(type(size) is int for size in tensor.shape):
        return True  # whether the item is there is known only at run time
    return any(_is_runtime_number(part) or _is_flag(part) or (isinstance(part, slice) and _runtime_slice(part)) for part in parts)


def _check_count(tensor: torch.Tensor, index: Any, plain: Callable[..., Any], *value: Any) -> None:
    """Have torch refuse, in its words, an index with more parts than the tensor has dimensions."""
    parts = index if isinstance(index, tuple) else (index,)
    if sum(map(_width, parts)) > tensor.dim():
        known = tuple(0 if _is_runtime_number(part) or isinstance(part, slice) else part for part in parts)
        plain(tensor, known if isinstance(index, (tuple, torch.Tensor)) else known[0], *value)


def _runtime_slice(part: slice) -> bool:
    return any(_is_runtime_number(bound) for bound in (part.start, part.stop, part.step))


def _is_runtime_number(part: Any) -> bool:
    if isinstance(part, torch.Tensor):
        return part.dim() == 0 and not part.is_floating_point() and part.dtype not in (torch.bool, torch.uint8)
    return isinstance(part, (torch.SymInt, torch.SymFloat))


def _is_flag(part: Any) -> bool:
    """Tell whether part of an index is one truth value, which gives a new dimension of size 0 or 1."""
    return isinstance(part, torch.SymBool) or (isinstance(part, torch.Tensor) and part.dim() == 0 and part.dtype == torch.bool)


def _number(part: Any) -> Any:
    return part.item() if isinstance(part, torch.Tensor) else part


def _apply_basic(position: Position, tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
    """Apply everything but index tensors; gives the view and the index that is left, ``None`` if nothing."""
    parts = _expand_ellipsis(list(index) if isinstance(index, tuple) else [index], tensor.dim())
    view, dim, advanced = tensor, 0, False
    rest: list[Any] = []
    for number, part in parts:
        if part is None:
            view = view.unsqueeze(dim)
        elif isinstance(part, slice):
            view = _slice(view, dim, part)
        elif _is_flag(part):
            flag = torch.scalar_tensor(cast(bool, part), dtype=torch.bool) if isinstance(part, torch.SymBool) else part
            view, advanced = view.unsqueeze(dim), True
            rest.append(flag.to(view.device).unsqueeze(0))
            dim += 1
            continue
        elif isinstance(part, bool) or (isinstance(part, (torch.Tensor, list)) and not _is_runtime_number(part)):
            advanced = True
            width = part.dim() if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) else 1
            rest.append(part)
            dim += width
            continue
        else:
            view = _select(position, view, dim, (number, _number(part)))
            continue
        rest.append(_FULL)
        dim += 1
    return view, tuple(rest) if advanced else None


def _select(position: Position, view: torch.Tensor, dim: int, part: tuple[int, Any]) -> torch.Tensor:
    """Return the item with a number; where that number stands in the subscript is what torch's error speaks of."""
    location = position.locate()
    subscript, number = part
    with position.located(location and dataclasses.replace(location, subscript=subscript)):
        return view.select(dim, number)


def _raised(error: Exception) -> Exception:
    """Return an exception that Python raises in this place, too."""
    session = current()
    if session is not None:
        session.in_flight.raised.append(error)
    return error


def _slice(view: torch.Tensor, dim: int, part: slice) -> torch.Tensor:
    if part == _FULL:
        return view
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, (float, torch.SymFloat)):
            raise _raised(TypeError("slice indices must be integers or None or have an __index__ method"))
        if isinstance(bound, torch.Tensor) and (bound.is_floating_point() or bound.is_complex()):
            raise _raised(TypeError("only integer tensors of a single element can be converted to an index"))
    step = 1 if part.step is None else _number(part.step)
    if isinstance(step, torch.SymInt) and not step.node.expr.is_number:
        return _slice_with_step(view, dim, (_number(part.start), _number(part.stop), step))
    return torch.ops.aten.slice.Tensor(view, dim, _number(part.start), _number(part.stop), step)  # type: ignore[no-any-return]


def _slice_with_step(view: torch.Tensor, dim: int, part: tuple[Any, Any, torch.SymInt]) -> torch.Tensor:
    """Return a slice with a step that only the program knows."""
    session = current()
    assert session is not None
    step = part[-1]
    failing.refuse_if_named(session, ValueError(), "a slice with a step", "test the step with an if statement")
    for holds, message in (sympy.Ne(step.node.expr, 0), _ZERO), (step.node.expr > 0, _NEGATIVE):
        session.builder.call_raw(control.assert_, (session.builder.expression_node(holds), ValueError, message))
    result = by_number.of_operator(session, torch.ops.aten.slice.Tensor, (view, dim, *part), {})
    if result is NotImplemented:
        raise CaptureError("a tensor is sliced with a step that is known only at run time", session.here(), fix=_INDEX)
    return result  # type: ignore[no-any-return]


def _expand_ellipsis(parts: list[Any], rank: int) -> list[tuple[int, Any]]:
    """Return the parts with their positions, without ``...``."""
    used = sum(map(_width, parts))
    positions = list(enumerate(parts))
    for position, part in positions:
        if part is Ellipsis:
            return positions[:position] + [(position, _FULL)] * (rank - used) + positions[position + 1 :]
    return positions


def _width(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool) or _is_flag(part):
        return 0
    if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
        return part.dim()
    return 1


def _strip_leading_ones(value: torch.Tensor, rank: int) -> torch.Tensor:
    """Item assignment allows extra leading dimensions of size 1."""
    while value.dim() > rank and isinstance(value.shape[0], int) and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def get_item_of_batch(position: Position, tensor: Any, key: Any, func: Any) -> Any:
    """Return an item under ``vmap``, where a tensor of one number is one for each item of the batch, and no number by itself.

    Args:
        position: of the capture.
        tensor: what is indexed.
        key: the subscript.
        func: ``Tensor.__getitem__``.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    if not any(_is_number(part) for part in parts) or not all(_is_basic(part) or _is_number(part) for part in parts):
        return get_item(position, tensor, key, func)
    if Ellipsis in [part for part in parts if not isinstance(part, torch.Tensor)]:
        place = next(at for at, part in enumerate(parts) if part is Ellipsis)
        missing = tensor.dim() - sum(part is not None and part is not Ellipsis for part in parts)
        parts[place : place + 1] = [slice(None)] * missing
    others = tuple(slice(None) if _is_number(part) else part for part in parts)
    indices: list[Any] = [part if _is_number(part) else None for part in parts if _is_number(part) or not _is_int(part)]
    return torch.ops.aten.index.Tensor(get_item(position, tensor, others, func), indices)


def _is_number(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and not part.dim() and not part.is_floating_point() and part.dtype is not torch.bool


def _is_int(part: Any) -> bool:
    return isinstance(part, (int, torch.SymInt)) and not isinstance(part, bool)


def _is_basic(part: Any) -> bool:
    return part is None or part is Ellipsis or isinstance(part, slice) or _is_int(part)
