"""The object that a static function is bound to, and the function that it is then a method of."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any


def reference(instance: Any) -> Callable[[], Any]:
    """Return what gives an object, and does not keep it alive if it can be held weakly."""
    try:
        return weakref.ref(instance)
    except TypeError:
        return lambda: instance


def unbound(static: Any, kind: type) -> Any:
    """Return ``method.__func__``: a function that takes the object first, looks like the user's, and runs the programs.

    Nothing is around it: who takes wrappers off would find the user's function, and leave the programs behind.

    Args:
        static: a static function.
        kind: the class of those that do not hold their object.

    Raises:
        AttributeError: it is bound to no object.
    """
    if static.instance is None:
        raise AttributeError(f"{static.__qualname__} is bound to no object")
    if "_method" in static.__dict__:
        return static.__dict__["_method"]
    weak: Any = object.__new__(kind)
    weak.__dict__ = static.__dict__

    @functools.wraps(static.function)
    def method(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        bound = weak if instance is weak.instance else weak.__get__(instance)
        return bound(*args, **kwargs)

    del method.__wrapped__
    method.__signature__ = inspect.signature(static.function)  # type: ignore[attr-defined]
    method.__dict__["_torchdynamo_orig_callable"] = static.function  # what other compilers, and programs, are made of
    return static.__dict__.setdefault("_method", method)
