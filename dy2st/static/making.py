"""Static functions of what users give: functions, methods, modules, and what is decorated in a class body."""

from __future__ import annotations

import types
from typing import Any

import torch

from dy2st.capture.distributed.wrappers import is_wrapper
from dy2st.errors import SignatureError
from dy2st.options import Options
from dy2st.static.copying import bind_copies
from dy2st.static.static_function import StaticFunction


def make_static(given: Any, options: Options) -> Any:
    """See :func:`dy2st.to_static`."""
    function = _uncompiled(given)
    if isinstance(function, StaticFunction):
        static_function = StaticFunction(function.function, options, function.instance)
        static_function.keeps = function.instance
        return static_function
    if is_wrapper(function):  # which prepares each call itself
        make_static(function.module, options)
        return function
    if isinstance(function, torch.nn.Module):
        static_forward = StaticFunction(_plain(_forward_of(function)), options, function)
        object.__setattr__(
            function, "forward", static_forward
        )  # the way in which its class follows attributes is the user's to use
        bind_copies(function)
        return function
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(StaticFunction(_plain(function), options, bound=isinstance(function, classmethod)))
    if isinstance(function, types.MethodType):
        return _of_method(function, options)
    if not isinstance(function, (types.FunctionType, type)) and isinstance(getattr(function, "__call__", None), types.MethodType):  # noqa: B004
        return _of_method(function.__call__, options)
    if not isinstance(function, types.FunctionType):
        raise SignatureError(f"to_static takes a Python function, method or nn.Module, not a {type(function).__name__}")
    return StaticFunction(function, options, bound=_is_method(function))


def _forward_of(module: torch.nn.Module) -> Any:
    """Return the ``forward`` of a module, past the methods with which its class follows what is read."""
    try:
        return object.__getattribute__(module, "forward")
    except AttributeError:
        return module.forward


def _uncompiled(function: Any) -> Any:
    """Return what ``torch.compile`` was given: a program is made of the function as it is written."""
    if isinstance(function, torch.nn.Module) and type(function).__module__ == "torch._dynamo.eval_frame":
        return function._orig_mod
    if isinstance(function, types.FunctionType):
        return function.__dict__.get("_torchdynamo_orig_callable", function)
    return function


def _of_method(method: types.MethodType, options: Options) -> StaticFunction:
    static_function = StaticFunction(_plain(method), options, method.__self__)
    static_function.keeps = method.__self__  # as a bound method does
    return static_function


def _plain(method: Any) -> types.FunctionType:
    if isinstance(method, StaticFunction):
        return method.function  # type: ignore[no-any-return]
    function: Any = getattr(method, "__func__", method)
    if not isinstance(function, types.FunctionType):
        raise SignatureError(f"forward is a {type(function).__name__}, not a Python function")
    return function


def _is_method(function: types.FunctionType) -> bool:
    """Tell whether a function is written in a class body: its qualified name says so."""
    parents = function.__qualname__.split(".")
    return len(parents) > 1 and parents[-2] != "<locals>"
