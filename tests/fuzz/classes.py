"""Classes that random programs use: they are the same in eager and in the static program, so that what is of them compares."""

from __future__ import annotations

import dataclasses
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
