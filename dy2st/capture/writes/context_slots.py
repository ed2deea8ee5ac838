"""What a context variable holds in the context that runs, as the attribute of an object, so that it is a place like others."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

ACTS_FOR_USER = False

UNSET: Any = type("Unset", (), {"__repr__": lambda self: "<unset>"})()


class ContextSlot:
    """The value of a context variable in the context that runs; no attribute where it holds none.

    Args:
        variable: the context variable.

    Example:
        >>> depth = contextvars.ContextVar("depth")
        >>> slot = ContextSlot(depth)
        >>> slot.value = 1
        >>> depth.get()
        1
        >>> del slot.value
        >>> depth.get("nothing")
        'nothing'
    """

    __slots__ = ("__weakref__", "_tokens", "_variable")

    def __init__(self, variable: contextvars.ContextVar[Any]) -> None:
        self._variable = variable
        self._tokens = threading.local()
        """Python forgets a value with the token of its writing only; a capture and a program keep to one thread."""

    @property
    def value(self) -> Any:
        """What the variable holds."""
        value = self._variable.get(UNSET)
        if value is UNSET:
            raise AttributeError("value")
        return value

    @value.setter
    def value(self, value: Any) -> None:
        token = self._variable.set(value)
        if token.old_value is contextvars.Token.MISSING:
            self._tokens.first = token

    @value.deleter
    def value(self) -> None:
        token = getattr(self._tokens, "first", None)
        if token is None:
            raise AttributeError("value")
        self._tokens.first = None
        self._variable.reset(token)


_SLOTS: dict[contextvars.ContextVar[Any], ContextSlot] = {}
"""Nothing can hold a context variable weakly; contexts hold them for good, too."""


def slot_of(variable: contextvars.ContextVar[Any]) -> ContextSlot:
    """Return the slot of a variable: one object for each."""
    return _SLOTS.setdefault(variable, ContextSlot(variable))
