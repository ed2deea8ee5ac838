"""Values that say all of themselves, what objects hold, and modules that do not hold all of their own."""

from __future__ import annotations

import collections
import collections.abc
import decimal
import enum
import functools
import io
import itertools
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from dy2st.capture.environment.sources import PROXIES, Source, referent, wrapped_by
from dy2st.capture.environment.users_code import module_of
from dy2st.capture.values.storage import of_class
from dy2st.errors import CaptureError

ACTS_FOR_USER = False

CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format,
    range, slice, enum.Enum,
)  # fmt: skip
IDENTITIES = (types.FunctionType, type, types.ModuleType)
DESCRIBING = (property, classmethod, staticmethod)
BUILTINS = (types.BuiltinFunctionType, types.MethodWrapperType)
CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType)
_VIEWS: tuple[Any, ...] = tuple(type(getattr({}, name)()) for name in ("keys", "values", "items"))
SHARDED = "_is_fsdp_managed_module"
"""The attribute by which torch marks the modules whose parameters it shards."""


def tables(module: torch.nn.Module) -> tuple[dict[str, Any], ...]:
    return module._parameters, module._buffers, module.__dict__


def put_back(
    modules: Iterable[tuple[torch.nn.Module, Sequence[dict[str, Any]]]], is_abstract: Callable[[torch.Tensor], bool]
) -> str | None:
    """Take abstract values out of modules again that code of torch itself has put there.

    Args:
        modules: each with copies of its tables as they were.
        is_abstract: whether a tensor is one of this capture.

    Returns:
        The name of a parameter or buffer that was among them.
    """
    result = None
    for module, kept in modules:
        for table, before in zip(tables(module), kept):
            for name, now in list(table.items()):
                if not isinstance(now, torch.Tensor) or not is_abstract(now):
                    continue
                if name in before:
                    table[name] = before[name]
                else:
                    del table[name]
                result = result if table is module.__dict__ else name
    return result


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


def is_counter(value: Any) -> bool:
    """Tell whether a value is an ``itertools.count`` of whole numbers: what it has given tells the rest."""
    return type(value) is itertools.count and _WHOLE.fullmatch(repr(value)) is not None


_WHOLE = re.compile(r"count\(-?\d+(, -?\d+)?\)")


def is_tuple(value: Any) -> bool:
    """Tell whether a value is a plain tuple or a named one, which can be made anew with other items."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(type(value), "_make"))


def is_plain_value(value: Any) -> bool:
    """Tell whether a value is like a number: of numpy or of the standard library, hashable, equal by content."""
    if isinstance(value, np.generic):
        return True
    kind: Any = type(value)
    known = module_of(kind).partition(".")[0] in sys.stdlib_module_names
    return known and kind.__hash__ is not None and kind.__eq__ is not object.__eq__


def parts_of(value: Any) -> dict[str, Callable[[Any], Any] | None]:
    """Return the attributes of an object of a library that its methods in C read; with how to get one that is no attribute."""
    if isinstance(value, (weakref.ref, *PROXIES)):
        return {"referent": referent}
    if isinstance(value, functools.partial):
        return {"func": wrapped_by, "args": None, "keywords": None}
    if isinstance(value, BaseException):
        return {"args": None}
    return {"mapping": None} if isinstance(value, _VIEWS) else {}


def changes_unseen(value: Any) -> bool:
    """Tell whether a value shows memory that others may change, or holds objects, which nothing tells."""
    if isinstance(value, memoryview) or type(value).__module__ == "ctypes" or type(type(value)).__module__ == "_ctypes":
        return True
    return isinstance(value, np.ndarray) and value.dtype.hasobject


def says_nothing(value: Any) -> bool:
    """Tell whether nothing of an object can be read: it is of a class of a library that is written in C, without attributes."""
    if isinstance(value, torch.Generator):
        return True
    if callable(value):
        return not isinstance(of_class(type(value), "__call__"), (types.FunctionType, *DESCRIBING))
    kind: Any = type(value)
    if module_of(kind).partition(".")[0] not in (*sys.stdlib_module_names, "torch"):
        return False
    return not any("__slots__" in vars(base) or "__dict__" in vars(base) for base in kind.__mro__)


def check_code(module: torch.nn.Module, name: str) -> None:
    """Refuse a module that has no code in Python."""
    if isinstance(module, torch.jit.ScriptModule):
        raise CaptureError(
            f"{name} is a module of TorchScript, which has no code in Python",
            fix="use the module that it was made from, or mark the function that calls it with @dy2st.not_to_static",
        )


def is_container(value: Any, source: Source) -> bool:
    """Tell whether a value is a container that is read as a whole; the dict of a class is not, read by other ways."""
    of_class = type(value) is types.MappingProxyType and source.key[-1] == "__dict__"
    return isinstance(value, CONTAINERS) and type(value) not in PROXIES and not of_class


def is_decimal(value: Any) -> bool:
    """Tell whether a value is :mod:`decimal` or of it: its numbers are rounded as its context says."""
    named = value if isinstance(value, (type, types.BuiltinFunctionType)) else type(value)
    return value is decimal or named.__module__ == "decimal"


def decimal_context() -> tuple[Any, ...]:
    """Return what the context of :mod:`decimal` says."""
    now = decimal.getcontext()
    return now.prec, now.rounding, now.Emin, now.Emax, now.clamp, now.capitals, [trap for trap, on in now.traps.items() if on]
