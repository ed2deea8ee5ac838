"""Functions of torch that need more than their own operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.utils import rnn

from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import complex_numbers, list_tensors, lists
from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.symbolic import RuntimeList
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import scalars


def _of_list(function: Any, capture: Any) -> Handler:
    def handle(session: Session, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
        known = session.lists.of(contents(tensors))
        if known is None or kwargs:
            return function(tensors, dim, **kwargs)
        return capture(session, known, dim)

    return handle


handles(torch.stack)(_of_list(torch.stack, list_tensors.stack))
handles(torch.cat)(_of_list(torch.cat, list_tensors.cat))
handles(torch.concat)(_of_list(torch.cat, list_tensors.cat))
handles(torch.concatenate)(_of_list(torch.cat, list_tensors.cat))


@handles(rnn.pad_sequence)
def _pad_sequence(
    session: Session, sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    known = session.lists.of(contents(sequences))
    if known is None:
        return rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    return list_tensors.pad(session, known, batch_first, padding_value, padding_side)


@handles(torch.tensor)
def _tensor(session: Session, data: Any, *, requires_grad: bool = False, **kwargs: Any) -> Any:
    if isinstance(data, (list, tuple)) and any(isinstance(part, RuntimeComplex) for part in data):
        numbers = [complex_numbers.made(session, part) for part in data]
        return torch.stack([complex_numbers.as_tensor(session, part, **kwargs) for part in numbers]).requires_grad_(requires_grad)
    if isinstance(data, RuntimeComplex):
        return complex_numbers.as_tensor(session, data, **kwargs).requires_grad_(requires_grad)
    known = _of_program(session, data) if kwargs.keys() <= {"dtype", "device"} else None
    if known is None:
        return torch.tensor(data, requires_grad=requires_grad, **kwargs)
    result = list_tensors.tensor(session, known, **kwargs)
    return result.requires_grad_() if requires_grad else result


@handles(torch.as_tensor)
def _as_tensor(session: Session, data: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(data, RuntimeComplex):
        return complex_numbers.as_tensor(session, data, *args, **kwargs)
    known = _of_program(session, data) if not args and kwargs.keys() <= {"dtype", "device"} else None
    return torch.as_tensor(data, *args, **kwargs) if known is None else list_tensors.tensor(session, known, **kwargs)


@handles(torch.Tensor.new_tensor)
def _new_tensor(session: Session, like: torch.Tensor, data: Any, **kwargs: Any) -> Any:
    if isinstance(data, AbstractArray):
        return session.call(torch.tensor, data, **{"dtype": like.dtype, "device": like.device, **kwargs})
    known = _of_program(session, data) if kwargs.keys() <= {"dtype", "device"} else None
    if known is None:
        return like.new_tensor(data, **kwargs)
    return list_tensors.tensor(session, known, **{"dtype": like.dtype, "device": like.device, **kwargs})


@handles(torch.Tensor.expand, torch.broadcast_to, torch.Tensor.broadcast_to)
def _expand(session: Session, tensor: torch.Tensor, *sizes: Any, **kwargs: Any) -> Any:
    """Stretch a tensor; on a way of its own where only the program knows whether a size is 1."""
    first = sizes[0] if sizes else kwargs.get("size")
    wanted = first if isinstance(first, (list, tuple)) else sizes
    pairs = list(zip(reversed(tensor.shape), reversed(wanted)))
    unknown = [
        place
        for place, (size, to) in enumerate(pairs, 1)
        if isinstance(size, torch.SymInt) and _is_wider(to) and session.shapes.may_be_stretched(size, to)
    ]
    return _on_each_way(tensor, unknown, lambda one: one.expand(*sizes, **kwargs))


def _is_wider(size: Any) -> bool:
    """Tell whether a tensor may have to be stretched to a size."""
    return isinstance(size, torch.SymInt) or (type(size) is int and size > 1)


def _on_each_way(tensor: torch.Tensor, unknown: Sequence[int], stretched: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Stretch a tensor of which some sizes, counted from the last, may be 1."""
    if not unknown:
        return stretched(tensor)
    place, *rest = unknown
    dim = tensor.dim() - place
    return capture_if_exp(
        tensor.shape[dim] == 1,
        lambda: _on_each_way(tensor.select(dim, 0).unsqueeze(dim), rest, stretched),
        lambda: _on_each_way(tensor, rest, stretched),
    )


@handles(torch.Tensor.expand_as)
def _expand_as(session: Session, tensor: torch.Tensor, other: torch.Tensor) -> Any:
    return _expand(session, tensor, *other.shape)


@handles(torch.squeeze, torch.Tensor.squeeze)
def _squeeze(session: Session, given: torch.Tensor, *dims: Any, **kwargs: Any) -> Any:
    """Take dimensions of size 1 away; on a way of its own where only the program knows whether a size is 1."""
    asked = dims[0] if dims else kwargs.get("dim")
    asked = range(given.dim()) if asked is None else asked if isinstance(asked, (tuple, list)) else dims or (asked,)
    rank = given.dim()
    if not all(type(dim) is int and -rank <= dim < rank for dim in asked):
        return torch.squeeze(given, *dims, **kwargs)
    wanted = sorted({dim % rank for dim in asked})
    unknown = [dim for dim in wanted if _may_be_one(session, given.shape[dim])]
    if not unknown:
        return torch.squeeze(given, *dims, **kwargs)
    return _squeezed(given, [dim for dim in wanted if dim not in unknown], unknown)


def _may_be_one(session: Session, size: Any) -> bool:
    return isinstance(size, torch.SymInt) and session.shapes.known(size == 1) is None


def _squeezed(given: torch.Tensor, known: Sequence[int], unknown: Sequence[int]) -> Any:
    """Take dimensions away of which some sizes may be 1, from the last on."""
    if not unknown:
        return given.squeeze(tuple(known))
    *rest, dim = unknown
    return capture_if_exp(
        given.shape[dim] == 1,
        lambda: _squeezed(given.select(dim, 0), [place - (place > dim) for place in known], rest),
        lambda: _squeezed(given, known, rest),
    )


@handles(torch.Tensor.squeeze_)
def _squeeze_in_place(session: Session, given: torch.Tensor, *dims: Any, **kwargs: Any) -> Any:
    """Take dimensions away in place, which cannot be where only the program knows whether a size is 1."""
    asked = dims[0] if dims else kwargs.get("dim")
    places = range(given.dim()) if type(asked) is not int or asked >= given.dim() else (asked,)
    if any(_may_be_one(session, given.shape[dim]) for dim in places):
        raise CaptureError(
            "squeeze_() of a tensor of which only the program knows whether a size is 1",
            session.here(),
            fix="assign what squeeze() gives: x = x.squeeze()",
        )
    return given.squeeze_(*dims, **kwargs)


@handles(torch.diff, torch.Tensor.diff)
def _diff(session: Session, given: Any, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None, **kwargs: Any) -> Any:
    parts = [part for part in (prepend, given, append) if part is not None]
    plain = kwargs or not given.dim() or type(n) is not int or n < 1 or type(dim) is not int
    if plain or all(isinstance(part.shape[dim], int) for part in parts):
        return torch.diff(given, n, dim, prepend, append, **kwargs)
    whole = torch.cat(parts, dim) if len(parts) > 1 else given
    for _ in range(n):
        whole = _differences(whole, dim)
    return whole


def _differences(given: torch.Tensor, dim: int) -> Any:
    """Return ``torch.diff`` along a size that is known only at run time, which may be none."""
    size, less = given.shape[dim], torch.logical_xor if given.dtype is torch.bool else torch.sub
    some: Any = lambda: less(given.narrow(dim, 1, size - 1), given.narrow(dim, 0, size - 1))  # noqa: E731
    return capture_if_exp(size > 0, some, given.clone)


def _of_program(session: Session, data: Any) -> RuntimeList | None:
    """Return a list of numbers that is, or holds, lists or ranges of the program."""
    known = session.lists.of(session.call(list, data) if isinstance(data, RuntimeRange) else contents(data))
    if known is None and type(data) in (list, tuple) and any(_of_program(session, part) is not None for part in data):
        return lists.copied(session, list(data))
    return known


@handles(torch.is_grad_enabled)
def _is_grad_enabled(session: Session) -> bool:
    session.note_question("whether gradients are enabled")
    return torch.is_grad_enabled()


@handles(torch.is_autocast_enabled)
def _is_autocast_enabled(session: Session, *device: str) -> bool:
    session.note_question("whether autocast is enabled")
    return torch.is_autocast_enabled(*device)


@handles(torch.Tensor.is_contiguous)
def _is_contiguous(session: Session, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    form = kwargs.get("memory_format", args[0] if args else torch.contiguous_format)
    return session.number(torch.ops.aten.is_contiguous.memory_format, (tensor, form), "bool")


@handles(torch.Tensor.stride)
def _stride(session: Session, tensor: torch.Tensor, dim: int | None = None) -> Any:
    if dim is None:
        return tuple(_stride(session, tensor, position) for position in range(tensor.dim()))
    number = session.number(torch.ops.aten.sym_stride.int, (tensor, dim), "int")
    return _seen(session, number, session.outside.adopted(tensor).stride(dim))


def _seen(session: Session, number: Any, at_capture: Any) -> Any:
    """Return a number that an operation may have to know, which depends on how a tensor lies in memory."""
    if type(at_capture) is int:
        session.shapes.seen[number.node.expr] = sympy.Integer(at_capture)
    return number


@handles(torch.Tensor.storage_offset)
def _storage_offset(session: Session, tensor: torch.Tensor) -> Any:
    number = session.number(torch.ops.aten.sym_storage_offset.default, (tensor,), "int")
    return _seen(session, number, session.outside.adopted(tensor).storage_offset())


def _asked_at_runtime(target: Any) -> Handler:
    """Return what is told of the tensor that is there when the program runs."""
    return lambda session, tensor: session.number(target, (session.outside.adopted(tensor),), "bool")


handles(torch.Tensor.is_conj, torch.is_conj)(_asked_at_runtime(scalars.is_conj))
handles(torch.Tensor.is_neg, torch.is_neg)(_asked_at_runtime(scalars.is_neg))
handles(torch.Tensor.is_pinned)(_asked_at_runtime(torch.ops.aten.is_pinned.default))
handles(torch.Tensor.is_inference, torch.is_inference)(_asked_at_runtime(torch.ops.aten.is_inference.default))


@handles(torch.Tensor.pin_memory)
def _pin_memory(session: Session, tensor: torch.Tensor, *args: Any) -> torch.Tensor:
    if args or tensor.requires_grad or not torch.accelerator.is_available():
        return tensor.pin_memory(*args)
    with quiet():
        result = torch.empty_like(tensor)
    session.builder.call(torch.ops.aten.pin_memory.default, (session.outside.adopted(tensor),), {}, result)
    return result


@handles(FakeTensor.tolist)
def _tolist(session: Session, tensor: torch.Tensor) -> Any:
    """Return ``tensor.tolist()``: the class of abstract tensors has a method of its own."""
    if tensor.is_complex() and not tensor.dim():
        return complex_numbers.of_tensor(session, tensor)
    if tensor.is_complex() or not all(isinstance(size, int) for size in tensor.shape):
        return session.call(written_out.numbers_of, tensor)
    return torch.Tensor.tolist(tensor)
