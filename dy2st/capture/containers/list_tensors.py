"""Tensors made of lists of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import lists
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.primitives import control

_NESTED = (value_types.ListType, value_types.ContainerType)


def stack(session: Session, items: RuntimeList, dim: int = 0) -> torch.Tensor:
    """Return ``torch.stack(items, dim)``."""
    _check_filled(session, items, torch.stack)
    example = _example(session, items)
    with quiet():
        result = torch.stack([example], dim)
        dim = dim % result.dim()
        shape = list(result.shape)
        shape[dim] = session.shapes.fresh_int(size=True)
        result = _like(result, shape)
    session.builder.call(torch.ops.aten.stack.default, (items, dim), {}, result)
    return result


def cat(session: Session, items: RuntimeList, dim: int = 0) -> torch.Tensor:
    """Return ``torch.cat(items, dim)``."""
    _check_filled(session, items, torch.cat)
    example = _example(session, items)
    with quiet():
        shape = list(example.shape)
        shape[dim % example.dim()] = session.shapes.fresh_int(size=True)
        result = _like(example, shape)
    session.builder.call(torch.ops.aten.cat.default, (items, dim), {}, result)
    return result


def _check_filled(session: Session, items: RuntimeList, function: Callable[[Any], Any]) -> None:
    """Check that there are tensors, where code of the user's may see that there are none; else the function finds out."""
    if not session.in_flight.pending:
        return
    with _disable_current_modes():
        try:
            function([])
        except (RuntimeError, ValueError) as error:  # which of them depends on the release
            refused = error
    check(session, lists.length(session, items) > 0, type(refused), str(refused))


def pad(session: Session, items: RuntimeList, batch_first: bool, value: float, side: str) -> torch.Tensor:
    """Return ``torch.nn.utils.rnn.pad_sequence(items, batch_first, value, side)``."""
    example = _example(session, items)
    with quiet():
        count, longest = (session.shapes.fresh_int(size=True) for _ in range(2))
        first = [count, longest] if batch_first else [longest, count]
        result = _like(example, [*first, *example.shape[1:]])
    session.builder.call(torch.ops.aten.pad_sequence.default, (items, batch_first, value, side), {}, result)
    return result


def tensor(session: Session, items: RuntimeList, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """Return ``torch.tensor(items)``; for an empty list, the dtype and the number of dimensions are others."""
    kind, dims = _numbers_in(session, items)
    expected = dtype or kind

    def converted() -> torch.Tensor:
        sizes = (value_types.DYNAMIC,) * dims
        value = session.new_value(value_types.TensorType(expected, torch.device(device or "cpu"), sizes, None, False))
        session.builder.call(control.list_tensor, (items, dtype, device, expected), {}, value)
        return value  # type: ignore[no-any-return]

    if dims == 1 and expected == (dtype or torch.get_default_dtype()):
        return converted()
    return capture_if_exp(lists.length(session, items) > 0, converted, lambda: torch.tensor([], dtype=dtype, device=device))  # type: ignore[no-any-return]


def _numbers_in(session: Session, items: RuntimeList) -> tuple[torch.dtype, int]:
    """Return the dtype and the number of dimensions of a tensor made of nested lists of numbers."""
    kind, dims = items.element, 1
    while isinstance(kind, _NESTED):
        inner = (
            kind.element if isinstance(kind, value_types.ListType) else functools.reduce(lattice.join_elements, kind.items, None)
        )
        kind, dims = inner, dims + 1
    if isinstance(kind, value_types.NumberType):
        return {"bool": torch.bool, "int": torch.int64, "float": torch.get_default_dtype()}[kind.kind], dims
    if isinstance(kind, value_types.TensorType) and not kind.sizes:
        return kind.dtype, dims
    if kind is None:
        return torch.get_default_dtype(), dims
    raise errors.CaptureError(
        "torch.tensor() gets a list that changes length inside a captured block, of other things than numbers",
        session.here(),
        seen=f"a list of {mismatches.text(kind)}",
        fix="use torch.stack for a list of tensors",
    )


def as_index(session: Session, key: Any) -> Any:
    """Return an index of a tensor, with tensors for the lists of the program, and the arrays, in it.

    Raises:
        CaptureError: it is a list of the program that torch takes for a tuple, if there are few items: one for each dimension.
    """
    known = session.lists.of(key)
    if known is not None and isinstance(known.element, (value_types.TensorType, *_NESTED)):
        raise errors.CaptureError(
            "a tensor is indexed with a list of tensors or lists that changes length inside a captured block: torch takes one of "
            "less than 32 for a tuple, with an index for each dimension",
            session.here(),
            fix="index it with torch.stack(items), or torch.tensor(items)",
        )
    if type(key) is list and any(session.lists.of(part) is not None for part in key):
        return [_part_of_index(session, part) for part in key]  # torch takes it for a tuple, and warns
    return _part_of_index(session, key)


def _part_of_index(session: Session, key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_part_of_index(session, part) for part in key)
    if isinstance(key, AbstractArray):
        return key.number() if key.is_scalar else key.as_tensor()
    if isinstance(key, slice):
        bounds = (key.start, key.stop, key.step)
        return (
            slice(*map(functools.partial(_part_of_index, session), bounds))
            if any(isinstance(b, AbstractArray) for b in bounds)
            else key
        )
    known = session.lists.of(key)
    if known is None:
        return key
    return tensor(session, known, torch.int64 if _is_of_positions(known.element) else None)


def _is_of_positions(kind: Any) -> bool:
    """Tell whether a list holds integers, or nothing: torch makes indices of them even where it is empty."""
    is_integer = isinstance(kind, value_types.TensorType) and not (kind.dtype.is_floating_point or kind.dtype.is_complex)
    return kind in (None, value_types.NumberType("int")) or (is_integer and kind.dtype not in (torch.bool, torch.uint8))


def _example(session: Session, items: RuntimeList) -> torch.Tensor:
    if not isinstance(items.element, value_types.TensorType):
        raise errors.CaptureError(
            "this needs a list of tensors", session.here(), seen=f"a list of {mismatches.text(items.element)}"
        )
    example: torch.Tensor = session.new_value(items.element)
    return example


def _like(tensor: torch.Tensor, shape: list[Any]) -> torch.Tensor:
    result = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    with torch.enable_grad():
        return result.requires_grad_().clone() if tensor.requires_grad else result
