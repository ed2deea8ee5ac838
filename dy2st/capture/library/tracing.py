"""Questions whether something traces the code that runs: it hears what it hears when it is not captured."""

from __future__ import annotations

from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.utils import _python_dispatch

from dy2st.capture.library.registry import handles, handles_made_by
from dy2st.capture.recording.recorder import Recorder
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.mode import TorchFunctions

_OWN = (Recorder, FakeTensorMode, TorchFunctions)
"""The modes of a capture."""


@handles(_python_dispatch._get_current_dispatch_mode_stack)
def _dispatch_modes(session: Session) -> list[Any]:
    return [mode for mode in _python_dispatch._get_current_dispatch_mode_stack() if not isinstance(mode, _OWN)]


@handles(_python_dispatch._get_current_dispatch_mode)
def _dispatch_mode(session: Session, *args: Any) -> Any:
    return next(reversed(_dispatch_modes(session)), None)


@handles(torch._C._len_torch_dispatch_stack)
def _count_dispatch_modes(session: Session) -> int:
    return len(_dispatch_modes(session))


@handles(torch._C._len_torch_function_stack)
def _count_function_modes(session: Session) -> int:
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return sum(not isinstance(mode, _OWN) for mode in modes)


@handles(detect_fake_mode, proxy_tensor.get_proxy_mode, proxy_tensor.get_innermost_proxy_mode)
def _none(session: Session, *args: Any) -> None:
    """Refuse a mode of the user's: in one of these nothing is captured."""


@handles_made_by(_disable_dynamo(_none))
def _hidden_from_dynamo(session: Session, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what torch hides from its other compiler."""
    return session.call(function.__wrapped__, *args, **kwargs)
