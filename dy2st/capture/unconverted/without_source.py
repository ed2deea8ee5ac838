"""Functions that some code has written and compiled, as decorators that check types do: what they call is converted."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

from dy2st.capture.environment.users_code import is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.writes.places import cell_value
from dy2st.code_names import global_names, written_free, written_globals

_OF_THE_FRAME = frozenset(("__build_class__", "__import__", "compile", "dir", "eval", "exec", "globals", "locals", "vars"))
"""Builtins that look at who calls them."""


def with_converted_callees(session: Session, function: types.FunctionType) -> types.FunctionType:
    """Return a function that does the same, and whose calls of builtins and of functions of the user's are those of converted code.

    It is the function itself where it calls none, or writes to variables from outside.
    """
    code = function.__code__
    if any(True for names in (written_globals, written_free) for _ in names(code)):
        return function
    seen = functools.partial(_seen, session)
    space = {name: seen(function.__globals__[name]) for name in global_names(code) if name in function.__globals__}
    for name in global_names(code):
        builtin = getattr(builtins, name, None)
        if name not in space and type(builtin) is types.BuiltinFunctionType and name not in _OF_THE_FRAME:
            space[name] = _converted(session, builtin)
    cells = [types.CellType(seen(cell_value(cell))) for cell in function.__closure__ or ()]
    defaults = tuple(map(seen, function.__defaults__ or ()))
    result = types.FunctionType(code, function.__globals__ | space, function.__name__, defaults or None, tuple(cells) or None)
    result.__kwdefaults__ = {name: seen(value) for name, value in (function.__kwdefaults__ or {}).items()}
    result.__qualname__, result.__module__ = function.__qualname__, function.__module__
    return result


def _seen(session: Session, value: Any) -> Any:
    """Return what the function finds in the place of a value."""
    return _converted(session, value) if is_users_function(value) else value


def _converted(session: Session, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def through(*args: Any, **kwargs: Any) -> Any:
        return session.call(function, *args, **kwargs)

    return through
