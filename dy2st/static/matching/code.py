"""The code of one function, written line by line."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from typing import Any


class NotInline(Exception):
    """Something in the call or the program has no straight code."""


class Writer:
    """The code of one function, and the objects that it mentions."""

    def __init__(self, header: str) -> None:
        self.lines = [header]
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._fresh = 0

    def constant(self, value: Any) -> str:
        """Return an expression for an object: itself where it can be written down."""
        if value is None or value is True or value is False:
            return repr(value)
        if type(value) in (int, str):
            return repr(value)
        return self.held(value)

    def held(self, value: Any) -> str:
        """Return the name of an object."""
        if id(value) not in self._known:
            self._known[id(value)] = name = f"k{len(self.names)}"
            self.names[name] = value
        return self._known[id(value)]

    def fresh(self) -> str:
        """Return a new local name."""
        self._fresh += 1
        return f"t{self._fresh}"

    def line(self, text: str, depth: int = 2) -> None:
        """Add one more line."""
        self.lines.append(" " * depth + text)

    def need(self, *conditions: str) -> None:
        """Go on only if all of these hold."""
        if conditions:
            self.line(f"if not ({' and '.join(conditions)}): return None")

    def compiled(self, name: str, file: str) -> Callable[..., Any]:
        """Return the function."""
        text = "\n".join(self.lines) + "\n"
        space = dict(self.names)
        exec(compile(text, file, "exec"), space)
        result: Callable[..., Any] = space[name]
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        weakref.finalize(result, linecache.cache.pop, file, None)
        return result
