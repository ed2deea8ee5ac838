"""Functions and classes that the captured code makes: each call of the program makes others, as in Python.

def make(x):
    def step(y):        a function is made of its code, and of what its variables and defaults hold at the end of the call
        return y + x
    return step
"""

from __future__ import annotations

import abc
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from dy2st.capture.environment.users_code import is_users_function
from dy2st.capture.session.session import Session

_DEEP = 8
_OF_CLASS = ("__dict__", "__weakref__", "_abc_impl")
"""What Python puts into the dict of each class anew."""


def own_cells(session: Session, function: types.FunctionType) -> list[types.CellType]:
    """Return the variables of a made function that the call has made, too."""
    around = session.frames.codes.around(function)
    if not around:
        return [cell for cell in function.__closure__ or () if _is_bound(cell) and _comes_from_call(session, cell.cell_contents, 0)]
    own = {name for code in around for name in code.co_cellvars}
    own.add("__class__")
    return [cell for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()) if name in own]


def _comes_from_call(session: Session, value: Any, depth: int) -> bool:
    """Tell whether a function that a library or a decorator has made holds something of this call."""
    if isinstance(value, torch.Tensor):
        return session.fakes.is_abstract(value)
    if not isinstance(value, types.FunctionType) or session.tracker.source_of(value) is not None or depth > _DEEP:
        return False
    held = [cell.cell_contents for cell in value.__closure__ or () if _is_bound(cell)]
    return bool(session.frames.codes.around(value)) or any(_comes_from_call(session, part, depth + 1) for part in held)


_WITHOUT_VARIABLES: weakref.WeakKeyDictionary[types.FunctionType, types.FunctionType] = weakref.WeakKeyDictionary()


def without_variables(function: types.FunctionType) -> types.FunctionType:
    """Return a function that says what another one is, the same each time, and keeps nothing of the capture alive."""
    known = _WITHOUT_VARIABLES.get(function)
    if known is None:
        known = _WITHOUT_VARIABLES[function] = _made_without_variables(function)
    return known


def _made_without_variables(function: types.FunctionType) -> types.FunctionType:
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    function_type = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    function_type.__qualname__, function_type.__doc__, function_type.__module__ = (
        function.__qualname__,
        function.__doc__,
        function.__module__,
    )
    function_type.__annotations__ = dict(function.__annotations__)
    return function_type


def is_of_call(session: Session, value: Any) -> bool:
    """Tell whether a value is a function that the captured code has made."""
    return isinstance(value, types.FunctionType) and _comes_from_call(session, value, 0)


def is_recreated(session: Session, value: Any) -> bool:
    """Tell whether the captured code has made a function or class that each call can make anew."""
    if session.tracker.source_of(value) is not None:
        return False
    if isinstance(value, types.FunctionType):
        return _comes_from_call(session, value, 0) and _is_known(session, value)
    return isinstance(value, type) and id(value) in session.allocations.created and _is_plain(value)


def _is_known(session: Session, function: types.FunctionType) -> bool:
    """Tell whether what the variables of a function hold is known where the code is now."""
    held = [cell.cell_contents for cell in own_cells(session, function) if _is_bound(cell)]
    return all(session.tuples.is_known_here(part) for part in held if part is not function)


def _is_bound(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _is_plain(kind: type) -> bool:
    """Tell whether a class is no more than its dict and bases."""
    if type(kind) not in (type, abc.ABCMeta):
        return False
    if any(is_users_function(_function(vars(base).get("__init_subclass__"))) for base in kind.__mro__[1:]):
        return False
    held = [value for value in vars(kind).values() if not isinstance(value, types.FunctionType)]
    return not any((hasattr(type(value), "__set_name__") and type(value) is not property) or _asks_class(value) for value in held)


def _function(value: Any) -> Any:
    return getattr(value, "__func__", value)


def _asks_class(value: Any) -> bool:
    """Tell whether a function in a property, class method or static method knows its class."""
    parts = [_function(value), *(getattr(value, name, None) for name in ("fget", "fset", "fdel"))]
    return any("__class__" in part.__code__.co_freevars for part in parts if isinstance(part, types.FunctionType))


def namespace(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what the statement has put into the dict of a class."""
    for name, value in vars(kind).items():
        if name not in _OF_CLASS and not isinstance(value, types.MemberDescriptorType):
            yield name, value
