"""Methods that the user has written, also where a capture has put others in their place; see :mod:`.operator_methods`."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from dy2st.capture.tracking import PATCH_MARK


@functools.cache
def libraries() -> frozenset[str]:
    """The packages whose code is not the user's."""
    return frozenset(sys.stdlib_module_names) | {"torch", "numpy", "dy2st", "dy2st_runtime", "sympy"}


def is_users(function: Any) -> bool:
    """Whether the user has written a function."""
    return isinstance(function, types.FunctionType) and (function.__module__ or "").partition(".")[0] not in libraries()


def user_method(kind: type, name: str) -> Callable[..., Any] | None:
    """The user's method in a class that is followed; ``None`` for any other."""
    found: Callable[..., Any] | None = getattr(inspect.getattr_static(kind, name, None), PATCH_MARK, None)
    return found
