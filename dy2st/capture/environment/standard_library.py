"""Python code of the standard library that holds, changes or remembers the user's objects: it is converted as the user's own is.

A ``UserDict``, a ``ChainMap``, the methods that ``collections.abc`` gives the user's mappings: they write to lists and dicts that
the user can see. What is written in C as well as in Python (``heapq``, ``bisect``) is followed in the Python that stands beside it.
"""

from __future__ import annotations

import bisect
import builtins
import functools
import heapq
import linecache
import types
from collections.abc import Callable
from typing import Any

from dy2st.capture.types.absent_attributes import class_name

_WHOLE = frozenset({"heapq", "bisect", "statistics", "_weakrefset"})
"""Modules of which all functions are followed."""
_CLASSES_OF = frozenset({"collections", "collections.abc", "_collections_abc"})
"""Modules of which the methods of classes are followed, and no function that makes such."""
_CLASSES = {
    "weakref": ("WeakValueDictionary.", "WeakKeyDictionary."),
    "argparse": ("Namespace.", "_AttributeHolder."),
    "functools": ("_gt_from_", "_le_from_", "_ge_from_", "_lt_from_"),
}
"""Modules with the beginnings of the names of what is followed in them: classes, and what ``total_ordering`` gives to one."""
_IN_C_TOO = {"_heapq": heapq, "_bisect": bisect}
"""Modules in C, with those that hold the same in Python."""


def is_followed(function: Any) -> bool:
    """Tell whether a function of the standard library is converted."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
    return isinstance(function, types.FunctionType) and "<locals>" not in name and _is_in(module, name)


def is_followed_class(kind: type) -> bool:
    """Tell whether the methods of a class of the standard library are converted."""
    return _is_in(kind.__module__, f"{kind.__qualname__}.")


def _is_in(module: str, name: str) -> bool:
    return module in _WHOLE or (module in _CLASSES_OF and "." in name) or name.startswith(_CLASSES.get(module, "\0"))


def in_python(function: types.BuiltinFunctionType) -> Callable[..., Any] | None:
    """Return the Python that does what a function of the standard library does that is written in C."""
    module = _IN_C_TOO.get(function.__module__ or "")
    return None if module is None else _written_in_python(module).get(function.__name__)


def takes_a_list(function: Any) -> bool:
    """Tell whether a function in C takes a list and nothing like it, as those of ``heapq`` do."""
    return getattr(function, "__module__", None) == "_heapq"


def refusal(function: Any, args: tuple[Any, ...]) -> str | None:
    """Return what a function in C says of arguments that its like in Python takes."""
    if not takes_a_list(function) or not args or isinstance(args[0], list):
        return None
    place = "argument 1" if len(args) > 1 else "argument"
    return f"{function.__name__}() {place} must be list, not {class_name(args[0])}"


@functools.cache
def _written_in_python(module: types.ModuleType) -> dict[str, Any]:
    """Return what a module holds when there is no version in C."""

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in _IN_C_TOO:
            raise ImportError(name)
        return builtins.__import__(name, *args, **kwargs)

    file = module.__file__ or ""
    space = {"__name__": module.__name__, "__builtins__": {**vars(builtins), "__import__": without}}
    exec(compile("".join(linecache.getlines(file)), file, "exec"), space)
    return space
