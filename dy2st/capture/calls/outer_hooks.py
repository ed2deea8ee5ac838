"""Hooks from before the call that run in a backward pass of the program, as the functions of Python that they are.

What the program writes outside of itself is written when it has run, so that a hook would find what was there before; and what a
hook writes nobody sees in the program. Both are refused.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.library import tensor_hooks
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import backward
from dy2st.capture.unconverted import opaque
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.errors import CaptureError

_BY_NAME = frozenset(("getattr", "hasattr", "vars", "__dict__", "__getattribute__"))
"""What looks at attributes whose names are not in the code."""
_LEAVES = (*CONSTANTS, *CAPTURE_VALUES, torch.Tensor, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def of_leaves(session: Session, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse hooks of tensors that a pass reaches, where they look at what is written, or write.

    Raises:
        CaptureError: one does.
    """
    for tensor in tensors:
        for hooks, takes_tensor in ((tensor._backward_hooks, False), (tensor._post_accumulate_grad_hooks, True)):
            for hook in [*(hooks or {}).values()]:
                _check_read(session, hook, (tensor,))
                tensor_hooks.apart(session, tensor, hook, takes_tensor)


def of_module(session: Session, module: torch.nn.Module, given: tuple[Any, ...], result: Any) -> Callable[[], None]:
    """Return what does the same for the hooks of a module.

    Args:
        session: the capture.
        module: that has the hooks.
        given: the arguments of its call.
        result: of that.
    """

    def check() -> None:
        for hook in (*module._backward_pre_hooks.values(), *module._backward_hooks.values()):
            _check_read(session, hook, (module,))
        for hook in module._backward_pre_hooks.values():
            tensor_hooks.called_apart(session, hook, functools.partial(_called, session, hook, module, result))
        for hook in module._backward_hooks.values():
            tensor_hooks.called_apart(session, hook, functools.partial(_called, session, hook, module, given, result))

    return check


def _called(session: Session, hook: Any, module: torch.nn.Module, *values: Any) -> Any:
    return session.call(hook, module, *(_gradients(session, value) for value in values))


def _gradients(session: Session, values: Any) -> tuple[Any, ...]:
    parts = values if isinstance(values, tuple) else (values,)
    return tuple(
        tensor_hooks.gradient(session, part) if isinstance(part, torch.Tensor) and part.is_floating_point() else None
        for part in parts
    )


def _check_read(session: Session, hook: Any, given: tuple[Any, ...]) -> None:
    """Refuse a hook that may look at what the static function has written before."""
    written = session.places.written_at
    if not written:
        return
    functions, values = _taken_apart(hook)
    parts = [part for function in functions for part in opaque.with_helpers(function)]
    values += [*given, *(value for part in parts for value in opaque.found(part))]
    held = _held(values)
    variables = {id(cell) for part in parts for cell in part.__closure__ or ()}
    names = {name for part in parts for name in opaque.attributes_named(part.__code__)}
    module_names = {(id(part.__globals__), name) for part in parts for name in part.__code__.co_names}
    by_name = not functions or not _BY_NAME.isdisjoint(names)
    for key, location in written.items():
        is_named = by_name or key[0] != "attribute" or key[2] in names
        if key[1] in variables or key[1:] in module_names or (key[1] in held and is_named):
            raise CaptureError(
                f"the hook {getattr(hook, '__qualname__', repr(hook))} runs in a backward pass of the program, and may look at "
                "what the static function has written before: that is written at the end of the call",
                session.here(),
                seen=None if location is None else f"written in {location}",
                fix="call backward() outside of the static function",
            )


def _held(values: Sequence[Any]) -> set[int]:
    """Return the identities of all objects that can be reached, of libraries too."""
    seen: set[int] = set()
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting += dict.values(value)
        elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            waiting += storage.plain(value)
        waiting += (storage.table_of(value) or {}).values()
    return seen


def _taken_apart(hook: Any) -> tuple[list[types.FunctionType], list[Any]]:
    """Return the functions that a hook calls first, and what it holds beside their variables."""
    if isinstance(hook, functools.partial):
        functions, values = _taken_apart(hook.func)
        return functions, [*values, *hook.args, *hook.keywords.values()]
    if isinstance(hook, types.MethodType):
        functions, values = _taken_apart(hook.__func__)
        return functions, [*values, hook.__self__]
    if isinstance(hook, types.FunctionType):
        return [hook], [*_defaults(hook)]
    call = getattr(type(hook), "__call__", None)  # noqa: B004  # the function, not whether there is one
    return ([call] if isinstance(call, types.FunctionType) else []), [hook]


def _defaults(function: types.FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


backward.checks_of_leaves.append(of_leaves)
