"""Iterators from outside the blocks of one capture, and generators: who may go on taking from them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.values import storage
from dy2st.errors import CaptureError

ACTS_FOR_USER = False


class Older(Protocol):
    """Goes on with iterators from outside that run code of the user's."""

    def runs_code(self, iterator: Any) -> bool:
        """Tell whether an iterator is one."""

    def check(self, iterator: Any) -> None:
        """Check an iterator of which items are about to be taken."""

    def resumed(self, iterator: Any, resume: Callable[..., Any], *args: Any) -> Any:
        """Call one of its methods, or a function that does."""


class Iterators:
    """The iterators and generators of one capture.

    Attributes:
        older: goes on with iterators from outside.
        taken: iterators with the block that took items from them last; ``None`` once nobody may.
        counters: those that count without an end, of which the program takes numbers when it runs.
        copies: dicts in which it is known what there is on one way, with those that they are copies of, by identity.
        generators: the generators of the user's that are alive.
        unclosed: errors for those that nobody could close.
    """

    def __init__(self) -> None:
        self.older: Older
        self.taken: dict[int, tuple[Any, BlockBuilder | None]] = {}
        self.counters: dict[int, Any] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}
        self.generators: weakref.WeakSet[Any] = weakref.WeakSet()
        self.unclosed: list[CaptureError] = []

    def spend(self, iterator: Any) -> None:
        """Note that a tensor decides what is left in an iterator: nobody may take from it any more."""
        held = _position(iterator)
        self.taken[id(held)] = (held, None)

    def is_spent(self, iterator: Any) -> bool:
        """Tell whether a tensor decides what is left in an iterator."""
        held = _position(iterator)
        return id(held) in self.taken and self.taken[id(held)][1] is None

    def drop_suspended(self) -> None:
        """Note that the capture is over: generators that stand at a `yield` do not go on."""
        for generator in [*self.generators]:
            if generator.is_suspended:
                generator.drop()


def _position(iterator: Any) -> Any:
    """Return what stands for where an iterator is; itself, for one of Python's own."""
    return (storage.table_of(iterator) or {}).get("__dy2st_position__", iterator)
