"""Calls of ``nn.Module`` objects and of ``autograd.Function`` classes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from dy2st import errors
from dy2st.capture.session import Session, current
from dy2st_runtime import control

_Call = Callable[..., Any]
_patch_lock = threading.Lock()
_patched_by = 0
_original_call = torch.nn.Module.__call__
_original_apply = torch.autograd.Function.__dict__.get("apply")


def call_module(session: Session, module: torch.nn.Module, call: _Call, args: Any, kwargs: Any) -> Any:
    """Call a module as ``nn.Module.__call__`` does: pre-hooks, forward, hooks."""
    _track(session, module)
    own_call = type(module).__call__
    if own_call is not torch.nn.Module.__call__ and own_call is not _original_call:
        return call(own_call, module, *args, **kwargs)
    if module._backward_hooks or module._backward_pre_hooks:
        raise errors.CaptureError(
            f"{type(module).__name__} has backward hooks, which only exist for whole modules in eager mode",
            session.here(),
            fix="register a hook on a tensor inside forward, or remove the module's backward hooks",
        )
    for hook_id, hook in (*torch_module._global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        args, kwargs = _run_pre_hook(module, call, hook_id, hook, args, kwargs)
    result = call(module.forward, *args, **kwargs)
    for hook_id, hook in (*torch_module._global_forward_hooks.items(), *module._forward_hooks.items()):
        extra = (kwargs,) if hook_id in module._forward_hooks_with_kwargs else ()
        changed = call(hook, module, args, *extra, result)
        result = result if changed is None else changed
    return result


def _run_pre_hook(module: torch.nn.Module, call: _Call, hook_id: int, hook: Any, args: Any, kwargs: Any) -> Any:
    if hook_id in module._forward_pre_hooks_with_kwargs:
        changed = call(hook, module, args, kwargs)
        return (args, kwargs) if changed is None else changed
    changed = call(hook, module, args)
    if changed is None:
        return args, kwargs
    return (changed if isinstance(changed, tuple) else (changed,)), kwargs


def _track(session: Session, module: torch.nn.Module) -> None:
    tracker = session.tracker
    if id(module) not in session.created and tracker.source_of(module) is None:
        tracker.module(module, tracker.table.held(module, type(module).__name__))


def call_autograd_function(session: Session, apply: Any, args: Any, kwargs: Any) -> Any:
    """``Function.apply``: its own backward is kept by calling it when the program runs."""
    function = apply.__self__
    with session.quiet():
        example = apply(*_stand_ins(session, args), **kwargs)
    session.builder.call(control.call_, (function.apply, tuple(args), kwargs), {}, example)
    return example


def _stand_ins(session: Session, args: Any) -> tuple[Any, ...]:
    fakes = (session.adopt(a) if isinstance(a, torch.Tensor) and not session.is_stand_in(a) else a for a in args)
    return tuple(fakes)


@contextlib.contextmanager
def patched(session: Session, call: _Call) -> Iterator[None]:
    """Route ``module(...)`` in code that is not converted through :func:`call_module`, in threads that capture."""

    def routed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        capturing = current()
        if capturing is None:
            return _original_call(module, *args, **kwargs)
        return call_module(capturing, module, call, args, kwargs)

    global _patched_by
    with _patch_lock:
        _patched_by += 1
        torch.nn.Module.__call__ = routed  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _patch_lock:
            _patched_by -= 1
            if not _patched_by:
                torch.nn.Module.__call__ = _original_call  # type: ignore[method-assign]
