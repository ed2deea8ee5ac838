"""Functions of the user's that run as they are written: what their code may read from outside is guarded before they run."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes import access
from dy2st.capture.attributes.attributes import attr, has_attr
from dy2st.capture.environment.users_code import is_in_skipped_package, is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import variables
from dy2st.capture.unconverted.learned import MARK
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import CAPTURE_VALUES, may_be_undefined
from dy2st.capture.writes.places import cell_value
from dy2st.code_names import global_names, written_free, written_globals

_ASKING = frozenset(("getattr", "hasattr", "vars", "dir", "__dict__"))
"""What tells which attributes there are."""


@dataclasses.dataclass(frozen=True)
class _Names:
    """The variables from outside that code names which is not converted."""

    global_names: tuple[str, ...]
    written_globals: tuple[str, ...]
    written_free: tuple[str, ...]


def is_opaque(function: Any) -> bool:
    """Tell whether a function of the user's is called as it is: it is marked, or its source is not known."""
    if not isinstance(function, types.FunctionType):
        return False
    if getattr(function, MARK, False):
        return True
    return function.__code__.co_filename == "<string>" and not is_in_skipped_package(function)


def look(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Guard what a function may read: its variables and arguments, and the attributes of them that it names."""
    for part in with_helpers(function):
        variables.track(session, part, _names(part.__code__), session.tracker.source_of(part) is not None)
    results = [*args, *kwargs.values(), *reached(function)]
    access.look_into(session, *results)
    names = attributes_named(function.__code__)
    if not _ASKING.isdisjoint(names):
        _check_there(session, function, results)
    for value in results:
        if session.tracker.source_of(value) is None or isinstance(value, (torch.Tensor, type, types.ModuleType)):
            continue
        for name in names:
            if has_attr(value, name) is True and not callable(getattr(value, name)):
                access.look_into(session, attr(value, name))


def _check_there(session: Session, function: types.FunctionType, results: list[Any]) -> None:
    """Refuse that code which is not converted asks whether an attribute is there that is there on some ways only."""
    for value in results:
        for name, item in (storage.table_of(value) or {}).items():
            if may_be_undefined(item):
                raise errors.CaptureError(
                    f"{function.__qualname__}(), which is not converted, looks at the attributes of an object, "
                    f"and a tensor decides whether it has {name!r}",
                    session.here(),
                    fix=f"give it {name!r} on all ways, None for example",
                )


def reached(function: Callable[..., Any]) -> list[Any]:
    """Return what a function that runs as it is written finds in its closure and its globals, and the functions that it calls
    there.
    """
    if not is_opaque(function):
        return []
    return [value for part in with_helpers(function) for value in found(part)]


def with_helpers(function: Any) -> list[types.FunctionType]:
    """Return a function, and those of the user's that it finds: none of them is converted where it calls them."""
    results = [function]
    for part in results:
        results += [value for value in found(part) if _is_users(value) and value not in results]
    return results


def _is_users(value: Any) -> bool:
    return is_users_function(value) or is_opaque(value)


def found(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values of the variables from outside that a function names."""
    space = function.__globals__
    yield from (space[name] for name in _names(function.__code__).global_names if name in space)
    for value in map(cell_value, function.__closure__ or ()):
        if not isinstance(value, (torch._subclasses.FakeTensor, *CAPTURE_VALUES)):
            yield value


def _names(code: types.CodeType) -> _Names:
    return _Names(*(tuple(dict.fromkeys(names(code))) for names in (global_names, written_globals, written_free)))


def attributes_named(code: types.CodeType) -> dict[str, None]:
    """Return the globals and attributes that code names, that of its inner functions too."""
    results = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            results |= attributes_named(constant)
    return results
