"""Copies of tensors, as ``copy`` makes them: of the class, with the attributes, and for autograd what eager's are.

copy.copy(x)                                another tensor with the memory of x, always a leaf
copy.deepcopy(x)                            new memory; refused of what is no leaf
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes.assignment import set_attr
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.operands.overlap import are_apart, has_holes, holds
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.mode import TorchFunctions
from dy2st.capture.torch_functions.registry import handles_torch
from dy2st.capture.types import tensor_traits

_OF_BUFFERS = ("persistent", "_is_buffer")


def shallow(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    """Return ``copy.copy`` of a tensor."""
    requires_grad = tensor_traits.read(session, tensor, "requires_grad")
    result = _of_class(session, tensor, tensor.detach(), requires_grad)
    _give_attributes(session, tensor, result, lambda value: value)
    return result


def deep(
    session: Session, tensor: torch.Tensor, copied: Callable[[Any], Any], earlier: Sequence[tuple[torch.Tensor, torch.Tensor]] = ()
) -> torch.Tensor:
    """Return ``copy.deepcopy`` of a tensor.

    Args:
        session: the capture.
        tensor: it.
        copied: makes the copies of its attributes.
        earlier: tensors that have been copied, with their copies: what shares memory does so afterwards.
    """
    is_parameter = issubclass(tensor_traits.asked_class(session, tensor), torch.nn.Parameter)
    if not is_parameter and not tensor_traits.read(session, tensor, "is_leaf"):
        with quiet():
            return copy.deepcopy(tensor)  # raises what eager raises
    memory = _inside(session, tensor, earlier)
    memory = _as_it_lies(session, tensor.detach()) if memory is None else memory
    result = _of_class(session, tensor, memory, tensor_traits.read(session, tensor, "requires_grad"))
    if not is_parameter:  # whose copy has no attributes
        _give_attributes(session, tensor, result, copied)
    return result


def _inside(session: Session, tensor: torch.Tensor, earlier: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor | None:
    """Return the part of an earlier copy that stands for a tensor, if the original of that copy has the tensor's elements."""
    overlaps = False
    for part, result in earlier:
        part, other = _in_one_memory(session, part, tensor)
        if part.untyped_storage()._cdata != other.untyped_storage()._cdata or are_apart(part, other):
            continue
        if holds(part, other):
            return result.detach().as_strided(other.shape, other.stride(), other.storage_offset() - part.storage_offset())
        overlaps = True
    if overlaps:
        raise errors.CaptureError(
            "a deep copy of several tensors that share a part of their memory",
            session.here(),
            fix="copy the tensor that they are parts of first, or each of them on its own",
        )
    return None


def _as_it_lies(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the strides of a tensor; a clone of one with holes has none."""
    tensor = session.outside.adopted(tensor)
    if not has_holes(tensor):
        return tensor.clone()
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride())]
    once = tensor[tuple(slice(0, size) for size in sizes)]
    result = torch.empty_strided(sizes, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(once)
    return result.expand(tensor.shape)


def _in_one_memory(session: Session, part: torch.Tensor, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors as they lie in memory: those from outside themselves, since what stands for an argument has its own."""
    reals = [session.outside.behind(one) for one in (part, tensor)]
    known = not any(session.fakes.is_abstract(real) for real in reals)
    return tuple(reals if known else map(session.outside.adopted, (part, tensor)))


def _of_class(session: Session, tensor: torch.Tensor, value: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    kind = tensor_traits.asked_class(session, tensor)
    if issubclass(kind, torch.nn.Parameter):
        return kind(value, requires_grad)
    value = value.requires_grad_() if requires_grad else value
    return torch.nn.Buffer(value, persistent=attr(tensor, "persistent")) if kind is torch.nn.Buffer else value


def _give_attributes(session: Session, tensor: torch.Tensor, value: torch.Tensor, copied: Callable[[Any], Any]) -> None:
    real = session.outside.behind(tensor)
    if session.fakes.is_abstract(real):
        _, names = session.places.tagged.get(id(real), (real, []))
    else:
        names = session.call(list, attr(tensor, "__dict__"))
    for name in dict.fromkeys(names):
        if name not in _OF_BUFFERS and session.call(hasattr, tensor, name):
            set_attr(value, name, copied(attr(tensor, name)))


@handles_torch(torch.Tensor.__deepcopy__)
def _deepcopy(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copy a tensor in an object of the user's; eager copies the storage, which an abstract value does not have."""
    tensor, memo = args
    if id(tensor) not in memo:
        with TorchFunctions(session):  # torch has turned it off in a handler
            of_copy = isinstance(memo, Memo)
            memo[id(tensor)] = memo.copied(tensor) if of_copy else deep(session, tensor, lambda value: copy.deepcopy(value, memo))
    return memo[id(tensor)]


class Memo(dict[int, Any]):
    """What a deep copy has copied, by the identity of the original; Python hands it to the methods with which classes do it.

    Attributes:
        copied: gives the copy of a part.
    """

    copied: Callable[[Any], Any]
