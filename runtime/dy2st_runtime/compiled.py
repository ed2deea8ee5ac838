"""What this package does in C++, once the native executor has been loaded; until then, and without it, it does it in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Compiled:
    """The extension module of the native executor, for what does not depend on the executor that runs a program.

    Attributes:
        library: the module; ``None`` where it is not loaded.
    """

    def __init__(self) -> None:
        self.library: Any = None
        self._waiting: list[Callable[[Any], None]] = []

    def when_loaded(self, prepare: Callable[[Any], None]) -> None:
        """Have a function called with the module before anybody else gets it."""
        self._waiting.append(prepare)

    def load(self, library: Any) -> None:
        """Note that the module is there."""
        for prepare in self._waiting:
            prepare(library)
        self.library = library


COMPILED = Compiled()
