"""Optimizers of torch: their steps where only the call tells which parameters have a gradient or a state, ``zero_grad``, and what
clips or unscales gradients.

An optimizer collects such parameters in lists, of which the length would be known to the program only. All of torch's but ``LBFGS``
update one parameter as if there were no others: so each of these parameters is updated by a step of its own, in a branch.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import backward
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined


def _handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register the handler of some functions of torch; it gets one that does the same and has no handler before the arguments."""

    def register(handler: Handler) -> Handler:
        for function in map(inspect.unwrap, functions):
            handles(function)(_with_plain(handler, _copy(function)))
        return handler

    return register


def _with_plain(handler: Handler, plain: Any) -> Handler:
    return lambda session, *args, **kwargs: handler(session, plain, *args, **kwargs)


def _copy(function: Any) -> Any:
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__module__, copy.__qualname__, copy.__kwdefaults__ = function.__module__, function.__qualname__, function.__kwdefaults__
    return copy


def _steps() -> list[Any]:
    """Return the steps of torch's optimizers that are the same parameter by parameter."""
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)]
    return [kind.step for kind in kinds if kind not in (torch.optim.Optimizer, torch.optim.LBFGS) and "step" in vars(kind)]


@_handles(*_steps())
def _step(session: Session, plain: Any, optimizer: Any, closure: Any = None) -> Any:
    loss = None if closure is None else session.call(written_out.loss_of, closure)
    runs = [list(_runs(session, optimizer, group["params"])) for group in optimizer.param_groups]
    is_open = isinstance(optimizer, torch.optim.SGD) and _has_open_momentum(session, optimizer)
    if is_open or any(is_unsure for group in runs for *_, is_unsure in group):
        step = functools.partial(written_out.step_with_or_without_momentum, plain) if is_open else plain
        session.call(written_out.step_by_parameter, optimizer, step, runs)
    else:
        session.call(plain, optimizer)
    return loss


def _has_open_momentum(session: Session, optimizer: torch.optim.SGD) -> bool:
    """Tell whether only the call tells a momentum, which ``SGD`` compares."""
    return any(isinstance(momentum, SYMBOLIC_NUMBERS) for momentum in session.call(written_out.momenta, optimizer))


def _runs(session: Session, optimizer: Any, params: Any) -> Iterator[tuple[int, int, bool]]:
    """Yield parts of the parameters, in order: one alone that may have no gradient or no state, others together; and which."""
    start = 0
    for place, tensor in enumerate(params):
        if isinstance(backward.get(session, tensor), TaggedUnion) or may_be_undefined(dict.get(optimizer.state, tensor)):
            if start < place:
                yield start, place, False
            yield place, place + 1, True
            start = place + 1
    if start < len(params):
        yield start, len(params), False


@_handles(torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad)
def _zero_grad(session: Session, plain: Any, owner: Any, set_to_none: Any = True) -> None:
    """Take the gradients away whether there are any or not, so that one program is for both."""
    if set_to_none is not True or not (isinstance(owner, torch.nn.Module) or hasattr(owner, "_zero_grad_profile_name")):
        session.call(plain, owner, set_to_none)
    elif isinstance(owner, torch.nn.Module):
        session.call(written_out.drop_gradients, session.call(owner.parameters))
    else:
        session.call(written_out.drop_all_gradients, owner)


@_handles(torch.nn.utils.clip_grad_norm_)
def _clip_norm(session: Session, plain: Any, parameters: Any, *args: Any, **kwargs: Any) -> Any:
    return _clipped(session, plain, written_out.clip_grad_norm, parameters, args, kwargs)


@_handles(torch.nn.utils.clip_grad_value_)
def _clip_value(session: Session, plain: Any, parameters: Any, *args: Any, **kwargs: Any) -> Any:
    return _clipped(session, plain, written_out.clip_grad_value, parameters, args, kwargs)


@_handles(torch.amp.GradScaler._unscale_grads_)
def _unscale(session: Session, plain: Any, scaler: Any, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: Any) -> Any:
    """Unscale gradients, parameter by parameter where only the call has some of them: on one device, none sparse."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    is_unsure = any(isinstance(backward.get(session, param), TaggedUnion) for param in params)
    if is_unsure and all(param.device == inv_scale.device and param.layout is torch.strided for param in params):
        return session.call(written_out.unscale_by_parameter, optimizer, inv_scale, found_inf, allow_fp16)
    return session.call(plain, scaler, optimizer, inv_scale, found_inf, allow_fp16)


@_handles(torch.amp.GradScaler.update)
def _update(session: Session, plain: Any, scaler: Any, *args: Any, **kwargs: Any) -> None:
    """Update the scale; what was noted for this step is emptied and not replaced, so that a loop carries it."""
    session.call(written_out.update_scale, scaler, plain, args, kwargs)


def _clipped(session: Session, plain: Any, one_by_one: Any, parameters: Any, args: Any, kwargs: Any) -> Any:
    """Clip gradients, parameter by parameter where only the call has some of them."""
    params = [parameters] if isinstance(parameters, torch.Tensor) else session.call(list, parameters)
    if type(params) is list and not params:  # it warns of an empty generator
        return session.call(plain, parameters, *args, **kwargs)
    is_unsure = type(params) is list and any(isinstance(backward.get(session, param), TaggedUnion) for param in params)
    is_alike = is_unsure and len({(param.dtype, param.device) for param in params}) == 1
    return session.call(one_by_one if is_alike else plain, params, *args, **kwargs)
