"""Settings of torch that captured code changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from dy2st_runtime.primitives import modes


class ChangedSettings:
    """The settings that captured code has changed: they are so while the capture runs, and put back at its end.

    Attributes:
        before: for each, the arguments of its setter that it had before the capture.
    """

    def __init__(self) -> None:
        self.before: dict[str, tuple[Any, ...]] = {}

    def change(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Change one, as the program will.

        Args:
            name: of its setter.
            arguments: of the setter; it raises what eager raises.
        """
        before = modes.values_of(name)
        modes.change(name, arguments)
        self.before.setdefault(name, before)

    def is_changed(self, getter: Any) -> bool:
        """Tell whether a function says how a setting is that has been changed."""
        return any(modes.getter_of(name) is getter for name in self.before)

    def is_as_before(self, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> bool:
        """Tell whether a function says the same with the settings as they were before the capture."""
        if not self.before:
            return True
        now = self.values()
        self.put_back({})
        try:
            return bool(function(*args) == result)
        finally:
            self.put_back(now)

    def values(self) -> dict[str, tuple[Any, ...]]:
        """Return how those are that have been changed, once or more."""
        return {name: modes.values_of(name) for name in self.before}

    def put_back(self, values: dict[str, tuple[Any, ...]]) -> None:
        """Put settings back to what they were; those changed since to what they were before the capture."""
        for name, before in self.before.items():
            wanted = values.get(name, before)
            if modes.values_of(name) != wanted:
                modes.change(name, wanted)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Put all back at the end."""
        try:
            yield
        finally:
            self.put_back({})
