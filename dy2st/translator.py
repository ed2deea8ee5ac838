"""Names that users of Paddle know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from dy2st.api import enable_to_static, to_static
from dy2st.errors import SignatureError
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.ir.program import Program

declarative = to_static
"""The older name of :func:`dy2st.to_static`."""


class ProgramTranslator:
    """Static execution as one object: the same one at each call.

    Example:
        >>> ProgramTranslator() is ProgramTranslator.get_instance()
        True
    """

    _instance: ProgramTranslator | None = None
    _lock = threading.Lock()

    def __new__(cls) -> ProgramTranslator:
        with cls._lock:
            if cls._instance is None:
                cls._instance = super().__new__(cls)
            return cls._instance

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """Return the one object."""
        return cls()

    def enable(self, enable_static: bool) -> None:
        """See :func:`dy2st.enable_to_static`."""
        enable_to_static(enable_static)

    def get_output(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a function returns when it runs as a program."""
        return _static(function)(*args, **kwargs)

    def get_func(self, function: Callable[..., Any]) -> StaticFunction:
        """Return the static function of a function."""
        return _static(function)

    def get_program(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
        """Return the program of a function for some arguments."""
        return _static(function).program(*args, **kwargs)

    def get_code(self, function: Callable[..., Any]) -> str:
        """Return the transformed source of a function."""
        return _static(function).code


def _static(function: Any) -> StaticFunction:
    result = function if isinstance(function, StaticFunction) else to_static(function)
    if not isinstance(result, StaticFunction):
        raise SignatureError(f"ProgramTranslator takes functions and methods, not a {type(function).__name__}")
    return result
