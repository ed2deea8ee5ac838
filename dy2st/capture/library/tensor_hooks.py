"""Hooks of tensors: the program registers them when it runs.

A hook that uses what the function computes is a block of the program, as the backward of an ``autograd.Function`` is. Any other is
called as the function of Python that it is; what it writes is there when the backward pass has run, so that one that writes must
not run in a backward pass of the same program, which would not know of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from dy2st.capture.branching.branch import run_branch
from dy2st.capture.branching.transformed import is_outside, kind_of
from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.recording.block import align_operands
from dy2st.capture.session.regions import Outcome
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.registry import handles_torch
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.symbolic import CAPTURE_VALUES, RuntimeFunction
from dy2st.capture.writes.places import cell_value
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.gradients import register_block


@handles_torch(torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook)
def _register(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, hook = (*args, *kwargs.values())
    is_before = func is torch.Tensor.register_hook
    if is_before and _uses_program(session, hook):
        node = session.builder.call(control.call_, (register_block, (tensor, _block(session, tensor, hook)), {}))
    else:
        session.gradients.hook_checks.append(lambda: apart(session, tensor, hook, not is_before))
        node = session.builder.call(control.call_, (func, (tensor, hook), {}))
    handle = session.call(written_out.HookHandle)
    session.builder.stands_for(handle, node)
    return handle


def _uses_program(session: Session, hook: Any) -> bool:
    """Tell whether a hook finds values of the program in the variables around it."""
    held = [cell_value(cell) for cell in getattr(hook, "__closure__", None) or ()]
    held += [*(getattr(hook, "__defaults__", None) or ()), *(getattr(hook, "__kwdefaults__", None) or {}).values()]
    return any(isinstance(value, CAPTURE_VALUES) or session.fakes.is_abstract(value) for value in held)


def _block(session: Session, tensor: torch.Tensor, hook: Any) -> RuntimeFunction:
    """Record a hook as a block that takes the gradient and gives another one, or ``None``."""
    outcome = apart(session, tensor, hook)
    result = None if outcome.dead else outcome.result
    if result is not None and not isinstance(result, torch.Tensor):
        raise _refused(session, hook, f"gives a {type(result).__name__} on some ways")
    block = outcome.builder.finish((result,))
    like = (session.builder.argument(session.outside.adopted(tensor)),)
    value = RuntimeFunction()
    session.builder.bind(
        (value,), session.builder.call_raw(control.transform_, ("backward", block, like, align_operands(outcome.builder)))
    )
    return value


def apart(session: Session, tensor: torch.Tensor, hook: Any, takes_tensor: bool = False) -> Outcome:
    """Capture a hook apart.

    Args:
        session: the capture.
        tensor: whose hook it is.
        hook: a function.
        takes_tensor: whether it takes the tensor, and not its gradient.

    Raises:
        CaptureError: it writes something that a program which calls it would not know of, or cannot be looked into.
    """
    return called_apart(session, hook, lambda: session.call(hook, gradient(session, tensor, takes_tensor)))


def gradient(session: Session, tensor: torch.Tensor, takes_tensor: bool = False) -> torch.Tensor:
    """Return what stands for the gradient of a tensor in a block for it, or for the tensor itself."""
    kind = kind_of(session.outside.adopted(tensor))
    kind = dataclasses.replace(kind, strides=None, requires_grad=takes_tensor, is_leaf=True, kind=torch.Tensor)
    value: torch.Tensor = session.new_value(kind)
    session.builder.bind(value, session.builder.placeholder("grad", value))
    return value


def called_apart(session: Session, hook: Any, call: Callable[[], Any]) -> Outcome:
    """Capture the call of a hook apart; see :func:`apart`."""
    session.transforms.append("backward")
    try:
        outcome = run_branch(session, call, ())
    except NeedsRuntimeList:
        raise _refused(session, hook, "changes a list that is older") from None
    finally:
        session.transforms.pop()
    written = next((write for write in outcome.writes.values() if is_outside(session, write, outcome.start)), None)
    if written is not None:
        raise _refused(session, hook, f"writes {written.place}, which is outside of it")
    return outcome


def _refused(session: Session, hook: Any, what: str) -> CaptureError:
    return CaptureError(
        f"the hook {getattr(hook, '__qualname__', repr(hook))} {what}, and runs in a backward pass of the program",
        session.here(),
        fix="do it after backward(), with what is in tensor.grad, or call backward() outside of the static function",
    )


@handles(written_out.removed)
def _removed(session: Session, handle: Any) -> None:
    """Take a hook of a tensor off when the program runs."""
    session.builder.call_raw(control.call_, (RemovableHandle.remove, (session.builder.object_node(handle),), {}))
