"""Values that say all of themselves, and what objects hold."""

from __future__ import annotations

import collections.abc
import enum
import io
import sys
import types
from typing import Any

import numpy as np
import torch

ACTS_FOR_USER = False

CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format,
    range, slice, enum.Enum,
)  # fmt: skip


def tables(module: torch.nn.Module) -> tuple[dict[str, Any], ...]:
    return module._parameters, module._buffers, module.__dict__


def held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not bound yet


def gives_once(value: Any) -> bool:
    """Tell whether a value is an iterator, not one of the user's: what has read it is right once."""
    if not isinstance(value, collections.abc.Iterator) or isinstance(value, io.IOBase):
        return False
    return isinstance(value, types.GeneratorType) or not isinstance(type(value).__next__, types.FunctionType)


def is_tuple(value: Any) -> bool:
    """Tell whether a value is a plain tuple or a named one, which can be made anew with other items."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(type(value), "_make"))


def is_plain_value(value: Any) -> bool:
    """Tell whether a value is like a number: of numpy or of the standard library, hashable, equal by content."""
    if isinstance(value, np.generic):
        return True
    kind: Any = type(value)
    known = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return known and kind.__hash__ is not None and kind.__eq__ is not object.__eq__
