"""The names of arguments that torch's own functions take: its words for a parameter, and NumPy's for it."""

from __future__ import annotations

import types
from typing import Any

_NAMES = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
"""NumPy's names that functions written in C take for a parameter of theirs (``numpy_compatibility_arg_names`` of torch)."""

_FIRST = ("input", "x", "a", "x1")
"""What the first argument may be called."""


def as_torch_names(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as handlers expect them: under torch's names, and the first one by position.

    Args:
        function: what is called; only functions of torch that are written in C have other names.
        args, kwargs: as the caller gives them.

    Returns:
        The same arguments.

    Example:
        >>> import torch
        >>> as_torch_names(torch.cat, ([1],), {"axis": 1})
        (([1],), {'dim': 1})
    """
    if not kwargs or not isinstance(function, types.BuiltinFunctionType) or not _is_of_torch(function):
        return args, kwargs
    named = {_NAMES.get(name, name): value for name, value in kwargs.items()}
    if len(named) < len(kwargs):
        return args, kwargs  # one parameter under two names, which torch refuses
    first = [] if args else [name for name in _FIRST if name in named][:1]
    return (*args, *(named.pop(name) for name in first)), named


def _is_of_torch(function: types.BuiltinFunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "torch"
