"""Tensors that are taken apart into as many as only the program knows: ``x.unbind()``, ``x.split(n)``, ``x.chunk(n)``.

The operator itself is recorded, so that the parts are its views, with its gradients; they are in a tuple of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch

from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.recording import failing
from dy2st.capture.recording.fake_values import quiet, under_autograd
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.by_number import is_seen_by_others
from dy2st.capture.types import lattice, value_types
from dy2st.capture.values.abstract_objects import AbstractTuple
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS

_aten = torch.ops.aten
_COUNTS = (
    "split_size", "split_sizes", "split_size_or_sections", "chunks", "sections", "indices", "indices_or_sections",
    "tensor_indices_or_sections",
)  # fmt: skip
"""What functions call the number of parts, or of what is in each."""
_NAMES = {"self": "tensor", "input": "tensor"} | dict.fromkeys(_COUNTS, "count")
_OPERATORS: dict[str, Any] = {
    "split": _aten.split.Tensor, "chunk": _aten.chunk.default, "tensor_split": _aten.tensor_split.sections,
    "unsafe_split": _aten.unsafe_split.Tensor, "unsafe_chunk": _aten.unsafe_chunk.default,
}  # fmt: skip


def _given(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"dim": 0} | dict(zip(names, args)) | {_NAMES.get(name, name): value for name, value in kwargs.items()}


def _taken_apart(session: Session, operator: Any, tensor: torch.Tensor, args: tuple[Any, ...], part: value_types.Type) -> Any:
    """Return the parts of a tensor, all of one type, in a tuple of the program."""
    result = session.lists.new(part)
    session.builder.call(operator, (session.outside.adopted(tensor), *args), {}, result)
    return AbstractTuple(session, result.items)


def _part(session: Session, tensor: torch.Tensor, dim: int) -> value_types.Type:
    """Return the type of parts that are of any size along a dimension."""

    def of_a_size() -> value_types.Type:
        sizes = list(tensor.shape)
        sizes[dim] = session.shapes.fresh_int(size=True)
        with quiet(), under_autograd():
            return lattice.type_of(tensor.as_strided(sizes, tensor.stride()))

    return lattice.join(of_a_size(), of_a_size())  # the size is not the same in all of them


def _is_dimension(tensor: torch.Tensor, dim: Any) -> bool:
    return isinstance(dim, int) and -tensor.dim() <= dim < tensor.dim()


@handles(torch.unbind, torch.Tensor.unbind)
def _unbind(session: Session, *args: Any, **kwargs: Any) -> Any:
    given = _given(("tensor", "dim"), args, kwargs)
    tensor, dim = given["tensor"], given["dim"]
    if not _is_dimension(tensor, dim) or isinstance(tensor.shape[dim], int) or is_seen_by_others(session, args, kwargs):
        return torch.unbind(*args, **kwargs)
    left = [place for place in range(tensor.dim()) if place != dim % tensor.dim()]
    with quiet(), under_autograd():
        row = tensor.as_strided([tensor.shape[place] for place in left], [tensor.stride(place) for place in left])
    return _taken_apart(session, _aten.unbind.int, tensor, (dim,), lattice.type_of(row))


def _alike(operator: Any, size: Any, count: Any) -> list[Any] | None:
    """Return the sizes of all parts, where there are as many as are asked for, whatever the size is: all are alike."""
    if operator is not _aten.chunk.default or not isinstance(count, int) or count < 1 or not isinstance(size, torch.SymInt):
        return None
    each = sympy.cancel(size.node.expr / count)
    return [size // count] * count if each.is_polynomial() and each.is_integer else None


def _splitting(function: Callable[..., Any]) -> Callable[..., Any]:
    operator = _OPERATORS.get(function.__name__)

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        given = _given(("tensor", "count", "dim"), args, kwargs)
        tensor, count, dim = given["tensor"], given.get("count"), given["dim"]
        if isinstance(count, AbstractTuple) or session.lists.of(count) is not None:
            by_sizes = operator is not _aten.tensor_split.sections
            return session.call(written_out.split, tensor, count, dim) if by_sizes else function(*args, **kwargs)
        if isinstance(count, torch.Tensor) and count.dim() == 0:
            count = session.to_number(count)
        if operator is None or not _is_dimension(tensor, dim) or not isinstance(count, (int, *SYMBOLIC_NUMBERS)):
            return function(*args, **kwargs)
        is_known = isinstance(count, int) and isinstance(tensor.shape[dim], int)
        if is_known or is_seen_by_others(session, args, kwargs):
            return function(*args, **kwargs)
        if not isinstance(count, int):
            failing.refuse_if_named(session, RuntimeError(), function.__name__, "test the number with an if statement")
        sizes = _alike(operator, tensor.shape[dim], count)
        if sizes is not None:
            return tensor.split_with_sizes(sizes, dim)
        return _taken_apart(session, operator, tensor, (count, dim), _part(session, tensor, dim))

    return handle


for _name in ("split", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk", "split_with_sizes"):
    for _owner in (torch, torch.Tensor):
        handles(getattr(_owner, _name))(_splitting(getattr(_owner, _name)))
