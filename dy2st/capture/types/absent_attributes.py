"""What Python raises for an attribute that is not there."""

from __future__ import annotations

import re
import types
from typing import Any

import torch

from dy2st.capture.types import tensor_traits
from dy2st.capture.values.abstract_objects import Represents

_OF_ITERATORS: Any = type(iter([])).__length_hint__  # type: ignore[attr-defined]
"""A method of a class that has no subclasses: it refuses any other object by the name of its class."""
_REFUSED = re.compile(r"doesn't apply to a '(.*)' object", re.DOTALL)


def error(owner: Any, name: str) -> AttributeError:
    """Return the exception for reading an attribute that an object, class or module does not have."""
    return AttributeError(message(owner, name), name=name, obj=owner)


def message(owner: Any, name: str) -> str:
    """Return Python's words for it."""
    if isinstance(owner, type):
        return f"type object '{owner.__name__}' has no attribute '{name}'"
    if type(owner) is types.ModuleType:
        return f"module '{owner.__name__}' has no attribute '{name}'"
    return f"'{class_name(owner)}' object has no attribute '{name}'"


def class_name(value: Any) -> str:
    """Return what Python's errors call the class of a value.

    Classes in C have their module in it, such as ``collections.deque``.
    """
    if isinstance(value, torch.Tensor):
        return tensor_traits.class_of(value).__name__
    if isinstance(value, Represents):
        return class_name(value.example)
    try:
        _OF_ITERATORS(value)
    except TypeError as refused:
        result = _REFUSED.search(str(refused))
        if result is not None:
            return result[1]
    return type(value).__name__
