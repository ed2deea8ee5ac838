"""Comparing a static function with eager by its results and by the state that the calls leave."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import dy2st

_DESCRIBING = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, property, staticmethod, classmethod)


def agree_with_state(
    make: Callable[[], tuple[Any, Callable[[], Any], list[Any]]], backends: tuple[str, ...] = ("python", "native")
) -> None:
    """Run what ``make`` gives in eager, then as a static function on each backend, and compare each call.

    Args:
        make: gives the function, what shows the state that its calls change, and the argument of each call.
    """
    expected = _calls(*make())
    for backend in backends:
        function, state, arguments = make()
        assert _calls(dy2st.to_static(function, backend=backend), state, arguments) == expected, backend


def class_state(kind: type) -> dict[str, Any]:
    """What a class holds besides its methods."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("__") and not isinstance(value, _DESCRIBING) and not hasattr(type(value), "__get__")
    }


def _calls(function: Any, state: Callable[[], Any], arguments: list[Any]) -> list[Any]:
    found = []
    for argument in arguments:
        try:
            result = described(function(*argument) if isinstance(argument, tuple) else function(argument))
        except Exception as error:
            result = type(error).__name__, str(error).split("\nraised")[0]
        found.append((result, described(state())))
    return found


def described(value: Any, seen: dict[int, tuple[int, Any]] | None = None) -> Any:
    """A value in terms of constants, with the identity of the objects in it; no method of the user's is called."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        kind = type(value).__name__
        assert type(value) in (torch.Tensor, torch.nn.Parameter), kind
        return kind, value.dtype, value.requires_grad, [str(item) for item in value.detach().flatten().tolist()], tuple(value.shape)
    if isinstance(value, (int, float, str, bytes, type(None))):
        return type(value).__name__, repr(value)
    if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)):
        return type(value).__name__, value.__qualname__
    if id(value) in seen:
        return "seen", seen[id(value)][0]
    seen[id(value)] = len(seen), value  # which must not go and leave its id
    if isinstance(value, dict):
        base = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        parts: Any = [(described(key, seen), described(dict.__getitem__(value, key), seen)) for key in base.__iter__(value)]
    elif isinstance(value, np.ndarray):
        parts = value.dtype, value.shape, repr(value.tolist())
    elif isinstance(value, (list, tuple, collections.deque)):
        parts = [described(item, seen) for item in type(value).__mro__[-2].__iter__(value)]
    elif isinstance(value, (set, frozenset)):
        parts = sorted(map(repr, value))
    else:
        parts = described(_attributes(value), seen)
    return type(value).__name__, parts


def _attributes(value: Any) -> dict[str, Any]:
    try:
        table = object.__getattribute__(value, "__dict__")
    except AttributeError:
        table = {}
    found = {name: item for name, item in table.items() if not name.startswith("__dy2st") and name != "forward"}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                found[f"slot {name}"] = object.__getattribute__(value, name)
            except AttributeError:
                pass
    return found
