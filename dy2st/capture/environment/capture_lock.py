"""The lock of captures: they run side by side until one of them writes to the user's objects.

What captured code writes outside (attributes, globals, lists) really stands there until the capture ends and puts back what was
there. Another capture must not read it meanwhile, nor write there. So a capture that is about to write outside for the first time
waits until every other one has ended or waits for the same, goes on alone, and leaves everything as it found it; then the next one
goes on. Whoever follows code in a way that knows no threads (``torch.export``), or switches modules to another mode, runs alone
from the beginning.

A thread that holds the lock never waits for another one's signature: that could be the thread which waits for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterator


class CaptureLock:
    """The lock of one process. As a context manager, what is inside runs alone, even within a capture.

    Example:
        >>> lock = CaptureLock()
        >>> with lock.shared():
        ...     lock.go_alone()
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._waiting = 0
        self._writing = 0
        self._alone: threading.Thread | None = None
        self._stands = False
        self._mine = _Mine()

    @property
    def is_taken(self) -> bool:
        """Whether this thread holds the lock."""
        return self._mine.depth > 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock of captures, beside other captures."""
        self._enter()
        self._mine.captures += 1
        try:
            yield
        finally:
            self._mine.captures -= 1
            self._leave()

    def go_alone(self) -> None:
        """Before a capture writes outside: wait until no other one runs, and let none run until this one ends."""
        if not self.is_taken:
            return
        self._go_alone()
        with self._changed:
            while self._writing:
                self._changed.wait()
            self._stands = True

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Open a scope in which a program that has run writes outside: not where a capture has put what it will put back."""
        if self.is_taken or self._mine.writes:
            yield
            return
        with self._changed:
            while self._stands:
                self._changed.wait()
            self._writing += 1
        self._mine.writes = True
        try:
            yield
        finally:
            self._mine.writes = False
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def __enter__(self) -> None:
        self._enter()
        try:
            self._go_alone()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _go_alone(self) -> None:
        me = threading.current_thread()
        if self._alone is me:
            return
        with self._changed:
            self._running -= 1
            self._waiting += 1
            self._changed.notify_all()
            try:
                while self._alone is not None or self._running:
                    self._changed.wait()
                self._alone = me
            except BaseException:
                self._running += 1
                raise
            finally:
                self._waiting -= 1
                self._changed.notify_all()

    def _enter(self) -> None:
        if not self.is_taken:
            with self._changed:
                while (self._alone is not None or self._waiting) and not self._mine.writes:
                    self._changed.wait()
                self._running += 1
        self._mine.depth += 1

    def _leave(self) -> None:
        mine = self._mine
        mine.depth -= 1
        with self._changed:
            is_alone = self._alone is threading.current_thread()
            if is_alone and not mine.captures:
                self._stands = False
            if not mine.depth and is_alone:
                self._alone = None
            elif not mine.depth:
                self._running -= 1
            self._changed.notify_all()


class _Mine(threading.local):
    """What one thread has.

    Attributes:
        depth: how many times it holds the lock, each inside of the one before.
        captures: how many of them are captures.
        writes: whether it writes outside what a program left.
    """

    depth = 0
    captures = 0
    writes = False


class Underway:
    """What is being done, by key: a second thread that wants the same waits until the first is through."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._keys: set[Hashable] = set()

    @contextlib.contextmanager
    def only(self, key: Hashable) -> Iterator[None]:
        """Let one thread at a time inside with a key."""
        with self._changed:
            while key in self._keys:
                self._changed.wait()
            self._keys.add(key)
        try:
            yield
        finally:
            with self._changed:
                self._keys.discard(key)
                self._changed.notify_all()


CAPTURE_LOCK = CaptureLock()
"""Those of this process."""
