"""Calls of ``autograd.Function`` classes."""

from __future__ import annotations

import dataclasses
import inspect
import types
import weakref
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.calls.own_backward import Applied, Attaching
from dy2st.capture.diagnostics.attribution import TRACING_ERRORS, is_about_abstracts
from dy2st.capture.environment import written_out
from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.environment.users_code import is_skipped
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import differentiation
from dy2st.capture.types import abstract_values, lattice, value_types
from dy2st.capture.unconverted.plain import over_argument
from dy2st.capture.values.signals import Refused
from dy2st.capture.values.symbolic import CAPTURE_VALUES, TaggedUnion, options_of, with_option
from dy2st_runtime.primitives import control

ORIGINAL_APPLY = torch.autograd.Function.__dict__["apply"]
_OTHER_KINDS = (torch.autograd.function.InplaceFunction, torch.autograd.function.NestedIOFunction)
_OUTSIDE_OF_TRANSFORMS = frozenset(("attempt", "backward"))
"""Blocks in which tensors are what they are outside of them."""


def apply_itself(function: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
    """Call ``function.apply`` as torch has it: a class method in Python, or since 2.15 one in C."""
    return ORIGINAL_APPLY.__get__(None, function)(*args, **kwargs)


def is_application(method: Any) -> bool:
    """Tell whether a method is ``Function.apply`` of a class, as torch has it."""
    owner = method.__self__
    if not (isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and method.__name__ == "apply"):
        return False
    written = getattr(method, "__func__", None)  # in C since torch 2.15, without one
    return written is getattr(ORIGINAL_APPLY, "__func__", None) or hasattr(written, PATCH_MARK)


_REFUSED: weakref.WeakKeyDictionary[types.FunctionType, weakref.WeakSet[type]] = weakref.WeakKeyDictionary()
"""By the captured function, those that no program could do: a capture that begins anew does not try them again."""


def call_autograd_function(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> Any:
    """Return ``Function.apply``: its ``forward`` is captured like any other function, and its backward as a block.

    What no program can do is called as it is when the program runs.
    """
    if kwargs and function.setup_context is torch.autograd.Function.setup_context:  # any other binds them to positions
        _check_keywords()
    union = next((value for value in args if _may_be_tensor(value)), None)
    if union is not None:
        return over_argument(session, union, function.apply, args, kwargs)
    refusal = None
    refused = _REFUSED.setdefault(session.request.function, weakref.WeakSet())
    ways = [_captured, _without_backward] if session.request.for_any_call and not _flows(args) else [_captured]
    if function in refused and _flows(args) and not session.request.for_any_call:
        ways = []
    for way in ways if _is_capturable(session, function, args, kwargs) else ():
        attempt = session.blocks.begin_attempt([])
        try:
            result = way(session, function, args, kwargs)
        except (errors.CaptureError, Refused, *TRACING_ERRORS) as error:  # it does what no program can
            session.blocks.roll_back(attempt)
            refusal = refusal or error
            refused.add(function)
        else:
            session.blocks.commit(attempt)
            return result
    return _called_as_it_is(session, function, args, kwargs, refusal)


def _check_keywords() -> None:
    """Raise what ``apply`` does for keyword arguments where torch's takes none, as those before 2.13 do."""

    class Passed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: None) -> None:
            return value

    with _disable_current_modes():
        try:
            apply_itself(Passed, value=None)
        except TypeError as error:
            raise raised(error.with_traceback(None)) from None


def _called_as_it_is(
    session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any, refusal: BaseException | None
) -> Any:
    if refusal is not None and session.request.for_any_call:
        raise refusal from None
    try:
        with quiet(), session.suspended(), session.checks.unless_raised():
            example = apply_itself(function, *map(session.outside.adopted, args), **kwargs)
    except Exception as error:
        if refusal is not None and not _flows(args):
            raise refusal from None
        if not isinstance(error, (errors.DataDependentError, *TRACING_ERRORS)) and not is_about_abstracts(session, error):
            raise (refusal or error) from None
        kind = _kind_of_forward(session, function, args, kwargs)
        if _is_chosen(kind):  # Python gives one of several, and does not say which
            raise (refusal or error) from None
        example = abstract_values.fresh(kind, session, [])
    _check_objects(session, function, (*args, *kwargs.values()))
    session.builder.call(control.call_, (function.apply, tuple(args), kwargs), {}, example)
    return example


def _may_be_tensor(value: Any) -> bool:
    """Tell whether an argument is one of several values, and a tensor is among them."""
    return isinstance(value, TaggedUnion) and any(isinstance(option, torch.Tensor) for option in options_of(value))


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


def _is_capturable(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> bool:
    """Tell whether a function is the user's, and torch has only its forward and its backward called."""
    if is_skipped(function.forward) or issubclass(function, _OTHER_KINDS):
        return False
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    if kwargs and not _is_separate(function):
        return False
    return not (_flows(args) and _is_transformed(session))


def _is_transformed(session: Session) -> bool:
    """Tell whether a transform of ``torch.func`` sees what runs now."""
    return not _OUTSIDE_OF_TRANSFORMS.issuperset(session.transforms)


def _flows(args: Any) -> bool:
    """Tell whether a gradient flows through a call."""
    return torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in args)


def _captured(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> Any:
    """Return what a function gives as part of the program."""
    is_separate, given = _given(function, args, kwargs)
    needed = tuple(isinstance(value, torch.Tensor) and differentiation.needs_gradient(session, value) for value in given)
    if not torch.is_grad_enabled() or not any(needed) or _is_transformed(session):
        return session.call(written_out.applied, function, given, needed, is_separate)
    context, result = session.call(written_out.forward_of, function, given, needed, is_separate)
    return _attached(session, Applied(function, context, given, ()), result)


def _without_backward(session: Session, function: type[torch.autograd.Function], args: Any, kwargs: Any) -> Any:
    """Return what a function gives in calls without gradients, where its backward can be no part of what is saved."""
    session.note_question("whether a tensor requires a gradient")
    is_separate, given = _given(function, args, kwargs)
    return session.call(written_out.applied, function, given, (False,) * len(given), is_separate)


def _attached(session: Session, applied: Applied, result: Any) -> Any:
    """Return what a function has given, of which autograd knows where it comes from."""
    parts = result if isinstance(result, tuple) else (result,)
    union = next((part for part in parts if _may_be_tensor(part)), result if isinstance(result, TaggedUnion) else None)
    if union is not None:
        return session.over(union, lambda option: _attached(session, applied, with_option(result, union, option)))
    if not any(isinstance(part, torch.Tensor) for part in parts):
        return result
    parts = Attaching(session, dataclasses.replace(applied, parts=tuple(parts))).parts()
    return parts if isinstance(result, tuple) else parts[0]


def _given(function: type[torch.autograd.Function], args: Any, kwargs: Any) -> tuple[bool, tuple[Any, ...]]:
    """Return whether the context is set up apart from ``forward``, and what ``forward`` is given."""
    is_separate = _is_separate(function)
    return is_separate, _with_defaults(function.forward, args, kwargs) if is_separate else tuple(args)


def _is_separate(function: type[torch.autograd.Function]) -> bool:
    return function.setup_context is not torch.autograd.Function.setup_context


def _kind_of_forward(session: Session, function: Any, args: Any, kwargs: Any) -> value_types.Type:
    """Return what ``forward`` gives where it depends on the values of tensors: captured to see, and forgotten."""
    context = written_out.Context(tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in args))
    attempt = session.blocks.begin_attempt([])
    try:
        given = args if _is_separate(function) else (context, *args)
        kind = lattice.type_of(session.call(function.forward, *given, **kwargs))
    finally:
        session.blocks.roll_back(attempt)
    grad = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
    return _unsized(kind, grad)


def _is_chosen(kind: value_types.Type) -> bool:
    """Tell whether a tensor decides which of several values there is."""
    parts = kind.items if isinstance(kind, value_types.ContainerType) else ()
    return isinstance(kind, value_types.TaggedUnionType) or any(map(_is_chosen, parts))


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
