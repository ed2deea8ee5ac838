"""Attributes of numbers that are known only at run time: those that Python's numbers have."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.types import absent_attributes

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "__bool__": bool, "__int__": int, "__float__": float, "__index__": operator.index, "__str__": str, "__repr__": repr,
    "__format__": format, "__divmod__": divmod, "__round__": round, "__abs__": abs, "__trunc__": math.trunc,
    "__floor__": math.floor, "__ceil__": math.ceil,
}  # fmt: skip
"""What a special method does."""
_OF_BOOLS = ("__bool__", "__str__", "__repr__", "__format__", "__and__", "__or__", "__xor__", "__rand__", "__ror__", "__rxor__")
"""What a bool does otherwise than the int that it is."""
_BITS: dict[str, Callable[..., Any]] = {"bit_length": int.bit_length, "bit_count": int.bit_count}


def has(session: Session, value: Any, name: str) -> bool:
    """Return ``hasattr(value, name)``."""
    return hasattr(session.call(type, value)(), name)


def read(session: Session, value: Any, name: str) -> Any:
    """Return ``getattr(value, name)``.

    Raises:
        AttributeError: Python's number has no such attribute.
    """
    kind = session.call(type, value)
    if not hasattr(kind(), name):
        raise raised(absent_attributes.error(kind(), name))
    if name == "__class__":
        return kind
    if name == "__doc__" or getattr(getattr(kind, name), "__self__", None) is kind:
        return getattr(kind, name)
    if kind is bool and name not in _OF_BOOLS:
        value = session.call(int, value)
    if name in _PARTS:
        return _PARTS[name](value, float if kind is float else int)
    if name in _BITS:
        return lambda: session.number(_BITS[name], (value,), "int")
    if name == "__rdivmod__":
        return lambda other: session.call(divmod, other, value)
    if name in _FUNCTIONS:
        return lambda *args: session.call(_FUNCTIONS[name], value, *args)
    return getattr(value, name)


_PARTS: dict[str, Callable[[Any, type], Any]] = {
    "real": lambda value, kind: value,
    "imag": lambda value, kind: kind(0),
    "numerator": lambda value, kind: value,
    "denominator": lambda value, kind: 1,
}
