"""The oracle for programs with state: two worlds made alike, one runs eager Python and the other programs.

After each call everything that the roots of the worlds reach is compared: values, their Python types, the order of dicts, and which
parts are one object.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch

import dy2st

_TABLES = ("_parameters", "_buffers", "_modules")


class World(NamedTuple):
    """One function or module with what it can reach.

    Attributes:
        function: what is called.
        roots: what is compared after each call.
        calls: each takes the function to call, may change the world first, and gives a result.
    """

    function: Any
    roots: Sequence[Any]
    calls: Sequence[Callable[[Any], Any]]


def agree(make: Callable[[], World], *, programs: int | None = None, backends: Sequence[str] = ("native", "python")) -> None:
    """Check that a function does the same in two worlds, call by call.

    Args:
        make: makes a world.
        programs: how many programs at most the calls may need.
        backends: what runs the programs.
    """
    for backend in backends:
        eager, world = make(), make()
        static = dy2st.to_static(world.function, backend=backend)
        for number, (expect, run) in enumerate(zip(eager.calls, world.calls, strict=True)):
            expected, found = _outcome(expect, eager.function), _outcome(run, static)
            if isinstance(found, Exception) and not isinstance(expected, Exception):
                raise AssertionError(f"{backend}, call {number}") from found
            assert seen(found, world.roots) == seen(expected, eager.roots), f"{backend}, call {number}"
        cache = (static.forward if isinstance(static, torch.nn.Module) else static).program_cache
        assert programs is None or len(cache) <= programs, f"{len(cache)} programs"


def registry() -> tuple[list[Any], Callable[[Any], Any]]:
    """The parameters of a test, and the decorator that adds a function to them under its name."""
    found: list[Any] = []

    def register(make: Any) -> Any:
        found.append(pytest.param(make, id=make.__name__))
        return make

    return found, register


def called(function: Any, roots: Sequence[Any], *arguments: Any) -> World:
    """A world whose calls have these tensors as arguments, or are these functions of what is called."""
    return World(function, roots, [one if not isinstance(one, torch.Tensor) else lambda f, one=one: f(one) for one in arguments])


def calls(*arguments: Any) -> list[Callable[[Any], Any]]:
    """Calls with one argument each."""
    return [lambda function, argument=argument: function(argument) for argument in arguments]


def _outcome(call: Callable[[Any], Any], function: Any) -> Any:
    try:
        return call(function)
    except Exception as error:
        return error


def seen(*roots: Any) -> Any:
    """Everything that some values reach, as plain data: two results are equal if the values are, and share parts alike."""
    numbers: dict[int, int] = {}
    kept: list[Any] = []

    def visit(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, str, bytes, type, torch.dtype)):
            return type(value), value
        if isinstance(value, (float, complex)):
            return type(value), repr(value)
        if isinstance(value, BaseException):
            return type(value), str(value)
        if id(value) in numbers:
            return "seen", numbers[id(value)]
        kept.append(value)
        numbers[id(value)] = number = len(numbers)
        return type(value).__name__, number, parts(value)

    def parts(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            assert type(value) in (torch.Tensor, torch.nn.Parameter), type(value)
            return value.dtype, tuple(value.shape), value.tolist(), value.requires_grad
        if isinstance(value, dict):
            return [(visit(key), visit(item)) for key, item in value.items()], attributes(value)
        if isinstance(value, (set, frozenset)):
            return sorted(map(repr, value))
        if isinstance(value, (list, tuple, collections.deque)):
            return [visit(item) for item in value]
        return attributes(value)

    def attributes(value: Any) -> Any:
        module = isinstance(value, torch.nn.Module)
        shown = {name: part for name, part in getattr(value, "__dict__", {}).items() if not callable(part) or vars_of(part)}
        hidden = {name for name in shown if module and name.startswith("_") and name not in _TABLES}
        return [(name, visit(part)) for name, part in shown.items() if name not in hidden | {"forward"}]

    return [visit(root) for root in roots]


def vars_of(value: Any) -> bool:
    """Whether a callable value is an object with state, not a function."""
    return isinstance(value, torch.nn.Module) or (hasattr(value, "__dict__") and not hasattr(value, "__code__"))
