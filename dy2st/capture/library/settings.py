"""Settings of torch that the user's code, or code of torch that it calls, changes and asks for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import anomaly_mode as _anomaly_mode

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.library.registry import handles
from dy2st.capture.recording.patches import Patch
from dy2st.capture.session.session import Session, recording
from dy2st_runtime.primitives import modes


def _change(name: str, session: Session, *args: Any, **kwargs: Any) -> None:
    """Change a setting now, for what comes next in the capture, and whenever the program gets there."""
    arguments = (*args, *kwargs.values())
    try:
        text = modes.written(arguments)
    except TypeError as error:
        raise errors.CaptureError(
            f"{error}, by {name.removeprefix('_')}()",
            session.here(),
            fix="change the setting before the static function is called, or give it a constant",
        ) from None
    session.settings.change(name, arguments)
    session.builder.call(modes.set_, (name, text))


def set_in_program(session: Session, name: str, arguments: tuple[Any, ...]) -> None:
    """Change a setting in the program alone."""
    session.builder.call(modes.set_, (name, modes.written(arguments)))


def _ask(name: str, session: Session) -> Any:
    """Return how a setting is; a call that finds it otherwise is captured anew."""
    getter = modes.getter_of(name)
    result = getter()
    if not session.settings.is_changed(getter) and isinstance(result, CONSTANTS):
        session.tracker.guards.same_answer(session.tracker.table.answer(getter, (), f"{getter.__name__}()"), result)
    return result


def _seen(original: Callable[..., Any], handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands in a module of torch for a setter or getter, so that torch's own Python code is heard."""

    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        session = recording()
        return original(*args, **kwargs) if session is None else handler(session, *args, **kwargs)

    return called


class _Torch:
    """What stands for ``torch`` in its module of anomaly detection, which finds its functions there and not in ``torch._C``."""

    def __getattr__(self, name: str) -> Any:
        return _SEEN.get(name) or getattr(torch, name)


_ORIGINAL: dict[str, Callable[..., Any]] = {}
anomaly_mode: Any = _anomaly_mode
_SEEN: dict[str, Callable[..., Any]] = {}
"""By their names in ``torch._C``: functions, and what stands there during captures."""

for _name in modes.NAMES:
    for _function, _handler in ((modes.setter_of(_name), _change), (modes.getter_of(_name), _ask)):
        if _function is torch.get_default_dtype:
            continue  # a dtype is asked for at every turn, and is part of what a program is captured for
        handles(_function)(functools.partial(_handler, _name))
        _ORIGINAL[_function.__name__] = _function
        _SEEN[_function.__name__] = _seen(_function, functools.partial(_handler, _name))


def _install() -> None:
    for name, seen in _SEEN.items():
        setattr(torch._C, name, seen)
    anomaly_mode.torch = _Torch()


def _remove() -> None:
    for name, original in _ORIGINAL.items():
        setattr(torch._C, name, original)
    anomaly_mode.torch = torch


SETTINGS = Patch(_install, _remove)
"""Records what torch's own Python code does with modes."""
