"""``torch.autograd.grad`` inside a captured function: called when the program runs, on the graph that the program makes there."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.gradients import gradients


def grad(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the gradients; where it depends on the call whether there is one, ``None`` or a tensor."""
    given = inspect.signature(torch.autograd.grad).bind(*args, **kwargs)
    given.apply_defaults()
    values = dict(given.arguments)
    outputs, inputs = as_tuple(values.pop("outputs")), as_tuple(values.pop("inputs"))
    may_be_none = values["allow_unused"] and not values["materialize_grads"]
    for check in session.gradients.hook_checks:
        check()
    check_dense(session, inputs)
    result = _on_abstracts(session, outputs, inputs, values) if may_be_none else [True] * len(inputs)
    collected = [None if there is False else _gradient(session, tensor, values) for tensor, there in zip(inputs, result)]
    unsure = [position for position, there in enumerate(result) if there is None]
    tags = [fresh_number(session.shapes, "int") for _ in unsure]
    session.builder.call(control.call_, (gradients, (unsure, inputs, outputs), values), {}, (*collected, *tags))
    results: dict[int, Any] = dict(enumerate(collected))
    for position, tag in zip(unsure, tags):
        results[position] = session.new_union(tag, {0: None, 1: collected[position]})
    return tuple(results.values())


def check_dense(session: Session, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse the gradients of some tensors, or abstract values, that would be sparse: what stands for them is dense.

    Raises:
        CaptureError: one is.
    """
    if session.gradients.sparse and session.gradients.gives_sparse([session.outside.adopted(tensor) for tensor in tensors]):
        raise CaptureError(
            "a backward pass in a program gives a sparse gradient",
            session.here(),
            fix="leave out sparse=True, or call backward and the optimizer outside of the static function",
        )


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return what torch takes as one tensor or several as several."""
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def _gradient(session: Session, tensor: torch.Tensor, values: dict[str, Any]) -> torch.Tensor:
    sizes = list(tensor.shape)
    if values["is_grads_batched"]:
        sizes.insert(0, as_tuple(values["grad_outputs"])[0].shape[0])
    with quiet(), torch.enable_grad():
        result = torch.empty(sizes, dtype=tensor.dtype, device=tensor.device)
        if values["create_graph"]:
            session.traits.graph_is_partial = True
            result = result.requires_grad_().clone()
    return result


def _on_abstracts(session: Session, outputs: tuple[Any, ...], inputs: tuple[Any, ...], values: dict[str, Any]) -> list[bool | None]:
    """Tell whether each input has a gradient; ``None`` where the graph of the abstract values does not tell."""
    given = [session.outside.adopted(tensor) for tensor in outputs]
    with quiet(), session.suspended():
        result = torch.autograd.grad(
            given,
            [session.outside.adopted(tensor) for tensor in inputs],
            [torch.ones_like(tensor) for tensor in given],
            retain_graph=True,
            allow_unused=True,
        )
    if session.gradients.changed:  # abstract values keep what a branch that is not taken has done to them
        return [None] * len(inputs)
    return [True if gradient is not None else None if session.traits.graph_is_partial else False for gradient in result]


def needs_gradient(session: Session, tensor: torch.Tensor) -> bool:
    """Tell whether an argument requires a gradient.

    Where only the call tells, in a backward pass and in what is saved, the answer is that it may: ``apply`` asks it then.
    """
    if session.request.for_any_call and (tensor.is_floating_point() or tensor.is_complex()):
        return True
    if session.transforms:
        session.traits.asked.add(tensor_traits.AUTOGRAD)
    else:
        tensor_traits.ask(session, tensor_traits.adopted(session, tensor), tensor_traits.AUTOGRAD)
    return tensor.requires_grad
