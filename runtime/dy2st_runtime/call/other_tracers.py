"""What other tracers of torch see of a function that runs programs.

``torch.compile`` leaves one out: it is a program already, and the code around it is compiled in parts. ``torch.jit.trace`` would
keep the path of one call and is refused; where ``torch.export`` fails, the error says what to use.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch

from dy2st_runtime.call.tracebacks import note
from dy2st_runtime.errors import TracingError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WHY = "a static function or loaded model of dy2st is a program already; torch.compile compiles what is around it"
_EXPORT = (
    "torch.export runs the control flow of the program and cannot decide it by a tensor: "
    "dy2st.export(model, 'model.pt2') writes the program as an ExportedProgram"
)


def left_to_itself(function: _Function) -> _Function:
    """Return ``torch.compile`` neither compiles a function nor anything that it calls.

    Unlike ``torch.compiler.disable`` this costs nothing when it is called, and ``torch._dynamo`` is not imported.
    """
    assert isinstance(function, FunctionType)
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = _WHY  # type: ignore[attr-defined]
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))
    return function


def is_jit_tracing() -> bool:
    """Tell whether ``torch.jit.trace`` traces this thread."""
    return torch._C._get_tracing_state() is not None


def refuse_jit_trace(name: str) -> None:
    """Refuse a call that ``torch.jit.trace`` traces.

    Args:
        name: of the function that is called.

    Raises:
        TracingError: it does.
    """
    if is_jit_tracing():
        raise TracingError(
            f"torch.jit.trace would keep one path through {name}, and give wrong results for the others; "
            "deploy it with dy2st.save or dy2st.export, or trace the eager model under dy2st.enable_to_static(False)"
        )


def explain(error: BaseException) -> None:
    """Add to an error from inside ``torch.export`` what to do instead."""
    if torch.compiler.is_exporting() and isinstance(error, Exception):
        note(error, _EXPORT)
