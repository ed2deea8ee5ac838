"""Calls of ``autograd.Function`` classes."""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any

import torch
from torch.autograd import forward_ad

from dy2st import errors
from dy2st.capture.diagnostics.attribution import TRACING_ERRORS, is_about_abstracts
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import is_skipped
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.types import abstract_values, lattice, value_types
from dy2st.capture.values.signals import Refused
from dy2st.capture.values.symbolic import CAPTURE_VALUES, TaggedUnion
from dy2st_runtime.primitives import control

ORIGINAL_APPLY = torch.autograd.Function.__dict__["apply"]


def apply_itself(function: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
    """Call ``function.apply`` as torch has it: a class method in Python, or since 2.15 one in C."""
    return ORIGINAL_APPLY.__get__(None, function)(*args, **kwargs)


def is_application(method: Any) -> bool:
    """Tell whether a method is ``Function.apply`` of a class."""
    owner = method.__self__
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and method.__name__ == "apply"


def call_autograd_function(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> Any:
    """Return ``Function.apply``: its own backward is kept by calling it when the program runs.

    Where no gradient flows, its ``forward`` is captured like any other function.
    """
    refusal = None
    if _is_plain(function, args, kwargs):
        attempt = session.blocks.begin_attempt([])
        try:
            result = _captured_forward(session, function, args, kwargs)
        except (errors.CaptureError, Refused, *TRACING_ERRORS) as error:  # it does what no program can
            session.blocks.roll_back(attempt)
            refusal = error
        else:
            session.blocks.commit(attempt)
            return result
    try:
        with quiet(), session.suspended(), session.checks.unless_raised():
            example = apply_itself(function, *map(session.outside.adopted, args), **kwargs)
    except Exception as error:
        if refusal is not None:
            raise refusal from None
        if not isinstance(error, (errors.DataDependentError, *TRACING_ERRORS)) and not is_about_abstracts(session, error):
            raise
        example = _results_of_forward(session, function, args, kwargs)
    _check_objects(session, function, (*args, *kwargs.values()))
    session.builder.call(control.call_, (function.apply, tuple(args), kwargs), {}, example)
    return example


def _check_objects(session: Session, function: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
    """Refuse objects that hold values of the program: a function that is called as it is would find what stands for them."""
    met: dict[int, Any] = {}
    waiting = [(value, False) for value in args]
    while waiting:
        value, is_held = waiting.pop()
        is_abstract = isinstance(value, torch.Tensor) and session.fakes.is_abstract(value)
        if is_held and (is_abstract or isinstance(value, CAPTURE_VALUES)):
            raise errors.CaptureError(
                f"{function.__qualname__}.apply() gets an object that holds values known only when the program runs",
                session.here(),
                fix="pass the tensors to apply() themselves, or call it where no gradient is needed, under torch.no_grad()",
            )
        if id(value) in met or isinstance(value, (torch.Tensor, type, types.ModuleType)):
            continue
        met[id(value)] = value
        if isinstance(value, (list, tuple, dict)):
            waiting += [(part, is_held) for part in (value.values() if isinstance(value, dict) else value)]
        waiting += [(part, True) for part in getattr(value, "__dict__", {}).values()]


def _is_plain(function: type[torch.autograd.Function], args: Any, kwargs: Any) -> bool:
    """Tell whether a function is the user's, and no gradient of any kind flows through a call of it."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if any(isinstance(value, TaggedUnion) for value in (*args, *kwargs.values())) or is_skipped(function.forward):
        return False
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    if kwargs and not _is_separate(function):
        return False
    return not torch.is_grad_enabled() or not any(value.requires_grad for value in tensors)


def _captured_forward(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> Any:
    """Return what ``forward`` gives as part of the program."""
    is_separate = _is_separate(function)
    given = _with_defaults(function.forward, args, kwargs) if is_separate else tuple(args)
    needed = tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in given)
    return session.call(written_out.applied, function, given, needed, is_separate)


def _is_separate(function: type[torch.autograd.Function]) -> bool:
    return function.setup_context is not torch.autograd.Function.setup_context


def _results_of_forward(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Return what ``forward`` gives where it depends on the values of tensors: captured to see, and forgotten."""
    context = written_out.Context(tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in args))
    attempt = session.blocks.begin_attempt([])
    try:
        given = args if _is_separate(function) else (context, *args)
        kind = lattice.type_of(session.call(function.forward, *given, **kwargs))
    finally:
        session.blocks.roll_back(attempt)
    grad = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
    results: list[Any] = []
    return abstract_values.fresh(_unsized(kind, grad), session, results)


def _unsized(kind: value_types.Type, grad: bool) -> value_types.Type:
    """Return the type of what the program gives, of sizes that only the program knows."""
    if isinstance(kind, value_types.ContainerType):
        return dataclasses.replace(kind, items=tuple(_unsized(item, grad) for item in kind.items))
    if not isinstance(kind, value_types.TensorType):
        return kind
    sizes = tuple(size if isinstance(size, int) else value_types.DYNAMIC for size in kind.sizes)
    differentiable = grad and (kind.dtype.is_floating_point or kind.dtype.is_complex)
    return dataclasses.replace(kind, sizes=sizes, strides=None, requires_grad=differentiable)


def _with_defaults(function: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args
