"""Calls of ``nn.Module`` objects."""

from __future__ import annotations

import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn.modules import module as torch_module
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import PackedSequence

from dy2st import errors
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.calls import autograd_functions, outer_hooks
from dy2st.capture.distributed import spread
from dy2st.capture.distributed.boundaries import Gathered, call_replica
from dy2st.capture.distributed.wrappers import state_of
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.environment.users_code import is_skipped
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.patches import Patch
from dy2st.capture.session.session import Session, current
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.backward_hooks import hook_inputs, hook_outputs

_Call = Callable[..., Any]
_original_call = torch.nn.Module.__call__
_original_parameter = torch.nn.Parameter.__dict__["__new__"]


def call_module(session: Session, module: torch.nn.Module, call: _Call, args: Any, kwargs: Any) -> Any:
    """Call a module as ``nn.Module.__call__`` does: pre-hooks, forward, hooks."""
    _track(session, module)
    own_call = type(module).__call__
    if own_call is not torch.nn.Module.__call__ and own_call is not _original_call:
        return call(types.MethodType(own_call, module), *args, **kwargs)
    return _call_with_hooks(session, module, call, args, kwargs)


def _call_with_hooks(session: Session, module: torch.nn.Module, call: _Call, args: Any, kwargs: Any) -> Any:
    """Return what ``nn.Module.__call__`` itself does."""
    if isinstance(module, torch.nn.RNNBase) and args and isinstance(args[0], PackedSequence):
        raise errors.CaptureError(
            f"{type(module).__name__} gets a PackedSequence, whose lengths are values of a tensor",
            session.here(),
            fix="give it the padded tensor and mask what comes out, or loop over the steps with a cell",
        )
    if module._get_backward_hooks()[1]:
        raise errors.CaptureError(
            f"{type(module).__name__} has hooks of the old kind, which see the last operation of the module only",
            session.here(),
            fix="use register_full_backward_hook",
        )
    if any(isinstance(parameter, torch.nn.UninitializedParameter) for parameter in module._parameters.values()):
        raise errors.CaptureError(
            f"{type(module).__name__} has parameters without a shape, which its first call gives them",
            session.here(),
            fix="call the model once in eager, under dy2st.enable_to_static(False)",
        )
    if spread.runs_as_python(module):
        return spread.call(session, module, args, kwargs)
    if module._forward_pre_hooks or module._forward_hooks:
        CAPTURE_LOCK.go_alone()  # a hook of a library may put tensors into the module, which nobody sees done
    gathered = Gathered(session, module)
    gathered.check()
    try:
        return _between_hooks(session, module, gathered, call, args, kwargs)
    finally:
        gathered.give_back()


def _between_hooks(session: Session, module: torch.nn.Module, gathered: Gathered, call: _Call, args: Any, kwargs: Any) -> Any:
    full = module._get_backward_hooks()[0]
    for hook_id, hook in (*torch_module._global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if state_of(hook) is not None:
            args, kwargs = gathered.enter(hook, args, kwargs)
        else:
            args, kwargs = _run_pre_hook(session, module, hook_id, hook, args, kwargs)
    hooked = bool(full or module._get_backward_pre_hooks())
    if hooked:
        hook_node, args = _hook_inputs(session, module, args)
    if isinstance(module, DistributedDataParallel):
        result = call_replica(session, module, call, args, kwargs)
    else:
        result = _with_settings(session, module, lambda: call(module.forward, *args, **kwargs))
    for hook_id, hook in (*torch_module._global_forward_hooks.items(), *module._forward_hooks.items()):
        if state_of(hook) is not None:
            result = gathered.leave(hook, result)
            continue
        extra = (kwargs,) if hook_id in module._forward_hooks_with_kwargs else ()
        changed = call(hook, module, args, *extra, result)
        result = _changed(session, changed, result)
    if not hooked:
        return result
    session.gradients.hook_checks.append(outer_hooks.of_module(session, module, args, result))
    return _hook_outputs(session, hook_node, result)


def _with_settings(session: Session, module: torch.nn.Module, forward: Callable[[], Any]) -> Any:
    """Run ``forward``: code of torch needs to know the settings of its modules, so it runs once for each that they may be."""
    if not is_skipped(type(module).forward):
        return forward()
    settings = ((part, name, value) for part in module.modules() for name, value in vars(part).items())
    part, name, value = next((one for one in settings if isinstance(one[2], (torch.SymBool, TaggedUnion))), (None, "", None))
    if part is None:
        return forward()

    def once(known: Any) -> Any:
        part.__dict__[name] = known
        try:
            return _with_settings(session, module, forward)
        finally:
            part.__dict__[name] = value

    return (
        session.over(value, once)
        if isinstance(value, TaggedUnion)
        else capture_if_exp(value, lambda: once(True), lambda: once(False))
    )


def _hook_inputs(session: Session, module: torch.nn.Module, args: Any) -> tuple[fx.Node, tuple[Any, ...]]:
    """Set up backward hooks when the program runs: the arguments go through a node of autograd's that calls them."""
    results = tuple(_alias(session, argument) for argument in args)
    node = session.builder.call(control.call_, (hook_inputs, (weakref.ref(module), tuple(args)), {}), {}, (None, *results))
    return session.builder.call_raw(operator.getitem, (node, 0)), results


def _hook_outputs(session: Session, hook: fx.Node, result: Any) -> Any:
    results = result if isinstance(result, tuple) else (result,)
    if not any(isinstance(part, torch.Tensor) for part in results):
        return result
    collected = tuple(_alias(session, part) for part in results)
    node = session.builder.call_raw(control.call_, (hook_outputs, (hook, *session.builder.argument(results)), {}))
    session.builder.bind(collected, node)
    if not isinstance(result, tuple):
        return collected[0]
    return type(result)(*collected) if hasattr(result, "_fields") else type(result)(collected)


def _alias(session: Session, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with quiet():
        return session.outside.adopted(value).view_as(value)


def _changed(session: Session, changed: Any, before: Any) -> Any:
    """Return what a hook gives, or what was there before where it gives nothing."""
    if isinstance(changed, TaggedUnion):
        return session.over(changed, lambda option: before if option is None else option)
    return before if changed is None else changed


def _run_pre_hook(session: Session, module: torch.nn.Module, hook_id: int, hook: Any, args: Any, kwargs: Any) -> Any:
    if hook_id in module._forward_pre_hooks_with_kwargs:
        return _changed(session, session.call(hook, module, args, kwargs), (args, kwargs))
    changed = _changed(session, session.call(hook, module, args), args)
    return (changed if isinstance(changed, tuple) else (changed,)), kwargs


def _track(session: Session, module: torch.nn.Module) -> None:
    tracker = session.tracker
    if id(module) not in session.allocations.created and tracker.source_of(module) is None:
        tracker.module(module, tracker.table.held(module, type(module).__name__))


def _routed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    capturing = current()
    if capturing is None or capturing.recorder.is_running:
        return _original_call(module, *args, **kwargs)
    _track(capturing, module)
    return _call_with_hooks(capturing, module, capturing.call, args, kwargs)


def _routed_apply(function: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
    capturing = current()
    if capturing is None or capturing.recorder.is_running:
        return autograd_functions.apply_itself(function, *args, **kwargs)
    return autograd_functions.call_autograd_function(capturing, function, args, kwargs)


def _routed_parameter(kind: type[torch.nn.Parameter], data: Any = None, requires_grad: bool = True) -> Any:
    """Return a parameter is made at each call of the program, of a tensor from outside too."""
    capturing = current()
    if capturing is not None and not capturing.recorder.is_running:
        data = capturing.outside.adopted(data)
    return _original_parameter.__func__(kind, data, requires_grad)


def _route() -> None:
    torch.nn.Module.__call__ = _routed  # type: ignore[method-assign]
    torch.autograd.Function.apply = classmethod(_routed_apply)  # type: ignore[assignment]
    torch.nn.Parameter.__new__ = staticmethod(_routed_parameter)  # type: ignore[assignment]


def _route_back() -> None:
    torch.nn.Module.__call__ = _original_call  # type: ignore[method-assign]
    torch.autograd.Function.apply = autograd_functions.ORIGINAL_APPLY  # type: ignore[method-assign]
    torch.nn.Parameter.__new__ = _original_parameter  # type: ignore[method-assign]


setattr(_routed, PATCH_MARK, True)
setattr(_routed_apply, PATCH_MARK, True)
setattr(_routed_parameter, PATCH_MARK, True)
CALLS = Patch(_route, _route_back)
"""Routes ``module(...)``, ``Function.apply(...)`` and ``Parameter(...)`` in code that is not converted to their handlers."""
