"""Operations that draw from a generator that captured code makes: they get one in its state, and the state that is left is kept."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.written_out import Generator
from dy2st.capture.library.generators import new_state
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import may_be_undefined
from dy2st_runtime.primitives import random_state

_DRAWING = ("torch.nn.init", "torch.functional", "torch.nn.functional")
"""Where functions in Python are that hand a generator on, and keep none."""


def call(session: Session, function: Any, args: Any, kwargs: Any, plainly: Callable[..., Any]) -> Any:
    """Call a function of torch that draws.

    Raises:
        CaptureError: nobody knows what the function does with a generator.
    """
    if not _draws(function):
        raise errors.CaptureError(
            f"{getattr(function, '__qualname__', function)}() gets a torch.Generator that the static function makes itself",
            session.here(),
            fix="make the generator outside, and pass it as an argument",
        )
    drawn: dict[int, tuple[Generator, torch.Generator]] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, Generator):
            return value
        if id(value) not in drawn:
            real = torch.Generator(_held(value, "device"))
            node = session.builder.call(random_state.generator, (_held(value, "state"), _held(value, "device")))
            session.builder.bind_generator(real, node)
            drawn[id(value)] = value, real
        return drawn[id(value)][1]

    given, named = tuple(map(stand_in, args)), {name: stand_in(value) for name, value in kwargs.items()}
    result = plainly(session, function, given, named)
    for made, real in drawn.values():
        left = new_state(session, _held(made, "device"))
        session.builder.call(random_state.state, (real,), {}, left)
        session.call(setattr, made, "state", left)
    return result


def _held(generator: Generator, name: str) -> Any:
    """Return an attribute of a generator, which has it wherever it has been made."""
    held = getattr(generator, name)
    return held.without_unbound() if may_be_undefined(held) else held


def _draws(function: Any) -> bool:
    if isinstance(function, types.FunctionType):
        return function.__module__ in _DRAWING
    owner = getattr(function, "__self__", getattr(function, "__objclass__", None))
    is_method = isinstance(owner, torch.Tensor) or owner is torch._C.TensorBase
    return is_method or getattr(torch._C._VariableFunctions, getattr(function, "__name__", ""), None) == function
