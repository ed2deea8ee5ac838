"""A search for values of a capture in what the user can reach, after each call: with ``DY2ST_CHECK_LEAKS=1`` in the environment.

A capture runs the user's code on fake tensors and symbolic numbers, and undoes what that code has written. Whatever it overlooks is
found here at once, with its path, and not when it is used much later.
"""

from __future__ import annotations

import bdb
import collections
import functools
import inspect
import itertools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dy2st import config, names
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK, Underway
from dy2st.capture.environment.users_code import is_heap_type, is_in_skipped_package, module_of
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.session.session import current
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.errors import LeakError
from dy2st.frames import hide

Step = tuple[str, Any]
"""How a part is reached from what holds it, as the user would write it, and the part."""

_MAX_VISITS = 5000
"""How many objects one search looks at, the nearest first."""
_LEAVES = (bool, type(None), torch.dtype, torch.device, torch.Size, weakref.ref, types.CodeType, bdb.Bdb)
"""What is not looked into; a debugger keeps the variables of the captured code."""
_HOLDERS = (types.MethodType, functools.partial, property, classmethod, staticmethod, functools.cached_property)
_HELD = ("__self__", "__func__", "func", "args", "keywords", "fget", "fset")
_CAPTURE = "dy2st.capture."
_Call = TypeVar("_Call", bound=Callable[..., Any])


def with_leak_check(call: _Call) -> _Call:
    """Return the ``__call__`` of a static function, with a search after it; as it is where nobody has asked for that."""
    if not config.CHECK_LEAKS:
        return call

    @functools.wraps(call)
    def searched(static: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return call(static, *args, **kwargs)
        try:
            result = call(static, *args, **kwargs)
        except Exception as error:
            _check(static.function, static.instance, [("the exception", error), *_given(args, kwargs)], error)
            hide(error)
            raise
        _check(static.function, static.instance, [("the result", result), *_given(args, kwargs)])
        return result

    return searched  # type: ignore[return-value]


def check(function: Any, instance: Any) -> None:
    """Search what a function reaches by itself, and the object that it is bound to; nothing where nobody has asked for that."""
    if config.CHECK_LEAKS and current() is None:
        _check(function, instance, [])


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Step]:
    return [*((f"args[{i}]", arg) for i, arg in enumerate(args)), *kwargs.items()]


def _check(function: Any, instance: Any, roots: list[Step], error: Exception | None = None) -> None:
    roots = [*roots, ("self", instance), (function.__name__, function)]
    if find(roots) is None:
        return
    with CAPTURE_LOCK:  # what another thread's capture has written is gone when that ends
        result = find(roots)
    if result is None:
        return
    path, value = result
    code = function.__code__
    raise LeakError(
        f"after a call of {function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) {path} is {_words(value)}, "
        "which exists during a capture only. This is a mistake of dy2st: please report it. "
        "Until it is mended, keep what the path names in a variable of the function, or mark the function with @dy2st.not_to_static"
    ) from error


def _words(value: Any) -> str:
    kind = "a fake tensor" if isinstance(value, FakeTensor) else f"a {type(value).__name__}"
    return f"{kind} ({object.__repr__(value)})" if not isinstance(value, SYMBOLIC_NUMBERS) else f"{kind} ({value})"


def find(roots: Iterable[Step]) -> Step | None:
    """Return the nearest value of a capture that can be reached from some objects, with its path; ``None`` if there is none."""
    todo = collections.deque(roots)
    seen: dict[int, Any] = {}
    while todo and len(seen) < _MAX_VISITS:
        path, value = todo.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        if is_of_capture(value):
            return path, value
        seen[id(value)] = value  # kept alive, so that no other object gets its identity
        todo.extend((path + step, part) for step, part in _parts(value))
    return None


def is_of_capture(value: Any) -> bool:
    """Tell whether a value exists during a capture only. An ``Underway`` is of a static function, whose attributes decorators
    copy.
    """
    if isinstance(value, FakeTensor):
        return isinstance(value.fake_mode.shape_env, CaptureShapes)
    if isinstance(value, SYMBOLIC_NUMBERS):
        return isinstance(getattr(value.node, "shape_env", None), CaptureShapes)
    return module_of(type(value)).startswith(_CAPTURE) and not isinstance(value, Underway)


def _parts(value: Any) -> Iterator[Step]:
    """Yield what an object holds, one step away, without running code of its class."""
    kind = type(value)
    if isinstance(value, dict):
        for key, item in _items(value):
            yield f"[{key!r}]" if isinstance(key, (str, int)) else "[...]", item
            yield ", key", key
    elif isinstance(value, (list, tuple, collections.deque, set, frozenset)):
        base: Any = next(base for base in (list, tuple, collections.deque, set, frozenset) if isinstance(value, base))
        yield from ((f"[{index}]", item) for index, item in enumerate(base.__iter__(value)))
    elif isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, type):
        if not is_in_skipped_package(value):
            yield from ((f".{name}", part) for name, part in _items(vars(value)))
    elif isinstance(value, _HOLDERS):
        yield from ((f".{name}", getattr(value, name)) for name in _HELD if hasattr(kind, name))
    if not isinstance(value, (type, types.ModuleType)) and not module_of(kind).startswith("dy2st"):
        yield from _attributes(value)


def _items(table: dict[Any, Any] | types.MappingProxyType[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return a table's items as they are now.

    ``list(table.items())`` may collect garbage midway, whose finalizers change tables.
    """
    return (dict.copy(table) if isinstance(table, dict) else table.copy()).items()


def _attributes(value: Any) -> Iterator[Step]:
    """Yield what is in an object's ``__dict__`` and slots, its class, and what an exception was raised from."""
    kind = type(value)
    if kind.__module__ != "builtins" or isinstance(value, (types.FunctionType, BaseException)):
        table = _table(value)
        yield from ((f".{name}", part) for name, part in _items(table))
    for base in kind.__mro__:
        for name, slot in _items(vars(base)) if is_heap_type(base) else ():
            if isinstance(slot, types.MemberDescriptorType):
                yield f".{name}", _slot(slot, value)
    if isinstance(value, BaseException):
        yield from ((".args", value.args), (".__cause__", value.__cause__), (".__context__", value.__context__))
    yield f".{kind.__name__}", kind


def _table(value: Any) -> dict[str, Any]:
    try:
        table = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return table if isinstance(table, dict) else {}


def _slot(slot: types.MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return None


def _parts_of_function(function: types.FunctionType) -> Iterator[Step]:
    """Yield the variables that a function of the user's reads outside of itself, and its defaults."""
    if is_in_skipped_package(function):
        return
    code, cells = function.__code__, function.__closure__ or ()
    for name, cell in zip(code.co_freevars, cells):
        if name != names.OPERATORS:
            yield f", variable {name}", _content(cell)
    for name, default in zip(reversed(inspect.getfullargspec(function).args), reversed(function.__defaults__ or ())):
        yield f", default of {name}", default
    yield from ((f", default of {name}", default) for name, default in (function.__kwdefaults__ or {}).items())
    mentioned = _names(code)
    for name in mentioned:
        held = function.__globals__.get(name)
        if isinstance(held, types.ModuleType):
            if not is_in_skipped_package(types.SimpleNamespace(__module__=held.__name__)):
                yield from ((f", {name}.{inner}", vars(held)[inner]) for inner in mentioned if inner in vars(held))
        elif held is not None:
            yield f", global {name}", held


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


@functools.lru_cache(maxsize=1000)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names and attributes that code mentions, that of its inner functions too."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *inner)))
