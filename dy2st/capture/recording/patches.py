"""Changes of libraries that are in place while any thread captures; the threads that do not capture see no difference."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class Patch:
    """One change, made when the first capture begins and taken back when the last one ends.

    Args:
        install: makes the change.
        remove: takes it back.
    """

    def __init__(self, install: Callable[[], None], remove: Callable[[], None]) -> None:
        self._install, self._remove = install, remove
        self._lock = threading.Lock()
        self._captures = 0

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Open a scope in which the change is in place."""
        with self._lock:
            self._captures += 1
            if self._captures == 1:
                self._install()
        try:
            yield
        finally:
            with self._lock:
                self._captures -= 1
                if not self._captures:
                    self._remove()


def methods_patch(kinds: Iterable[type], methods: Callable[[type], Mapping[str, Any]]) -> Patch:
    """Return the patch that gives some classes methods, and takes them away again.

    Args:
        kinds: the classes.
        methods: the methods of a class, by name.
    """
    originals: dict[tuple[type, str], Any] = {}

    def install() -> None:
        for kind in kinds:
            for name, method in methods(kind).items():
                originals[kind, name] = vars(kind).get(name)
                setattr(kind, name, method)

    def remove() -> None:
        for (kind, name), original in originals.items():
            if original is None:
                delattr(kind, name)
            else:
                setattr(kind, name, original)
        originals.clear()

    return Patch(install, remove)
