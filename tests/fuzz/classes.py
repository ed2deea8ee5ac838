"""Classes that random programs use: they are the same in eager and in the static program, so that what is of them compares."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any


class Stop(Exception):
    """An exception of the user's."""


@dataclasses.dataclass
class Point:
    """An object whose attributes change."""

    a: Any
    b: Any

    def total(self) -> Any:
        """Something of both."""
        return self.a + self.b


class Note:
    """A context manager with an effect before and after."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __enter__(self) -> None:
        self.owner.c += 1

    def __exit__(self, *error: object) -> None:
        self.owner.c -= 2


class Scale:
    """A callable object with a property."""

    def __init__(self, by: Any) -> None:
        self.by = by

    @property
    def half(self) -> Any:
        """Half of the factor."""
        return self.by / 2

    def __call__(self, x: Any) -> Any:
        return x * self.by + self.half


def down(x: Any, depth: int) -> Any:
    """A function that calls itself."""
    return x if depth <= 0 else down(x * 0.5, depth - 1) + x


def _twice(function: Any) -> Any:
    @functools.wraps(function)
    def both(x: Any, *rest: Any, **more: Any) -> Any:
        return function(function(x, *rest, **more), *rest, **more)

    return both


@_twice
def scaled(x: Any, *, by: Any = 2) -> Any:
    """A decorated function."""
    return x * by
