"""Hooks of modules: they are registered and removed at capture, so a tensor must not decide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils import parametrizations, parametrize
from torch.utils.hooks import RemovableHandle

from dy2st import errors
from dy2st.capture.library.registry import handles, refuses
from dy2st.capture.session.session import Session

_CHANGING = [vars(torch.nn.Module)[name] for name in dir(torch.nn.Module) if name.startswith("register") and name.endswith("hook")]


def _decided(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what becomes of a call that changes which hooks a module has.

    Raises:
        CaptureError: a tensor decides whether it is made.
    """

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if not session.blocks.at_root:
            raise errors.CaptureError(
                f"a tensor decides whether {function.__qualname__}() is called",
                session.here(),
                fix="register the hook outside of the static function, and test the condition in the hook",
            )
        return function(*args, **kwargs)

    return handle


for _function in (*_CHANGING, RemovableHandle.remove):
    handles(_function)(_decided(_function))

refuses(
    parametrize.register_parametrization,
    parametrize.remove_parametrizations,
    parametrizations.orthogonal,
    parametrizations.spectral_norm,
    parametrizations.weight_norm,
    message="a module gets another class for the parametrization of its parameters, inside the captured function",
    fix="parametrize it where the model is made",
)
