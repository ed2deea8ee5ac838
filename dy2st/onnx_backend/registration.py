"""Makes the executor known: it needs the lowering of programs, which ``dy2st_runtime`` does not have."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from dy2st.errors import BackendError
from dy2st_runtime import executors
from dy2st_runtime.ir.program import Program

NAME = "onnxruntime"
"""The name of the executor."""

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def register() -> None:
    """Make the executor known by its name."""
    executors.register(NAME, executors.Backend(_maker, _require))


@functools.cache
def _require() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise BackendError(f"backend={NAME!r} needs {', '.join(missing)}: pip install 'dy2st[onnx]'")


def _maker(program: Program) -> Any:
    from dy2st.onnx_backend.runner import Runner  # imports onnxruntime, which most processes do without

    return Runner(program)
