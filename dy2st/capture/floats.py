"""Arithmetic on symbolic floats, recorded as the Python operation that the user wrote.

torch's symbolic float rounds through algebra, lacks ``%``, and refuses a negative base of ``**``. During a capture its operators are
replaced by ones that record the operation; its value is what Python computes when the program runs.
"""

from __future__ import annotations

import contextlib
import math
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from dy2st.capture.session import current

_BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
}  # fmt: skip
_COMPARE = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "neg": (operator.neg, "float"), "abs": (operator.abs, "float"), "pos": (operator.pos, "float"),
    "trunc": (math.trunc, "int"), "floor": (math.floor, "int"), "ceil": (math.ceil, "int"),
}  # fmt: skip
_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
_lock = threading.Lock()
_depth = 0
_originals: dict[str, Any] = {}


def _recording() -> bool:
    """Whether the user's code runs now, and not the shape function of an operation."""
    return current() is not None and get_proxy_mode() is not None


def _binary(name: str, target: Callable[..., Any], kind: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        session = current()
        if session is None or not _recording():
            original = _originals.get(name)
            return NotImplemented if original is None else original(self, other)
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return session.number(target, (other, self) if reflected else (self, other), kind)

    return method


def _unary(name: str, target: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        session = current()
        if session is None or not _recording():
            return _originals[name](self)
        return session.number(target, (self,), kind)

    return method


def _replacements() -> dict[str, Callable[..., Any]]:
    made = {f"__{name}__": _binary(f"__{name}__", target, "float") for name, target in _BINARY.items()}
    made |= {f"__r{name}__": _binary(f"__r{name}__", target, "float", reflected=True) for name, target in _BINARY.items()}
    made |= {f"__{name}__": _binary(f"__{name}__", target, "bool") for name, target in _COMPARE.items()}
    made |= {f"__{name}__": _unary(f"__{name}__", target, kind) for name, (target, kind) in _UNARY.items()}
    return made


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    """Inside, operations on symbolic floats are recorded, in threads that capture."""
    global _depth
    with _lock:
        _depth += 1
        if _depth == 1:
            for name, method in _replacements().items():
                if name in vars(torch.SymFloat):
                    _originals[name] = vars(torch.SymFloat)[name]
                setattr(torch.SymFloat, name, method)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if not _depth:
                for name in _replacements():
                    if name in _originals:
                        setattr(torch.SymFloat, name, _originals.pop(name))
                    else:
                        delattr(torch.SymFloat, name)
