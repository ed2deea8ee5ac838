"""Iterators from outside the blocks of one capture, and generators: who may go on taking from them.

An iterator of Python's own cannot be put back, so it cannot be one item further on one way than on another. Where that is asked
of one that the user's code keeps, the capture starts again, and what is made on its line is an iterator of the program: a position
in what it goes over.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

from dy2st.capture.environment.request import Request
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.position import Position
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractIterator
from dy2st.capture.values.signals import NeedsPositions
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

    Args:
        request: what is captured.
        position: where the capture is in the user's code.

    Attributes:
        older: goes on with iterators from outside.
        taken: iterators with the block that took items from them last; ``None`` once nobody may.
        made: those of Python's own that the user's code has made, with where.
        counters: those that count without an end, of which the program takes numbers when it runs.
        copies: dicts in which it is known what there is on one way, with those that they are copies of, by identity.
        generators: the generators of the user's that are alive.
        running: those that run now, innermost last.
        unclosed: errors for those that nobody could close.
    """

    def __init__(self, request: Request, position: Position) -> None:
        self._request, self._position = request, position
        self.older: Older
        self.taken: dict[int, tuple[Any, BlockBuilder | None]] = {}
        self.made: dict[int, tuple[Any, Any]] = {}
        self.counters: dict[int, Any] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}
        self.generators: weakref.WeakSet[Any] = weakref.WeakSet()
        self.running: list[Any] = []
        self.unclosed: list[CaptureError] = []

    def note_made(self, iterator: Any) -> Any:
        """Return an iterator of Python's own that the user's code makes now, and keep in mind where that was."""
        if isinstance(iterator, Iterator) and not self._position.asked_by_torch():
            self.made[id(iterator)] = iterator, self._line()
        return iterator

    def is_of_program(self) -> bool:
        """Tell whether an iterator that the user's code makes now has to be one of the program."""
        is_asked = bool(self._request.by_position) and not self._position.asked_by_torch()
        return is_asked and self._line() in self._request.by_position

    def _line(self) -> Any:
        here = self._position.locate()
        return None if here is None else (here.file, here.line)

    def require(self, iterator: Any, error: CaptureError) -> NoReturn:
        """Ask that an iterator, or one that it takes from, be one of the program.

        Args:
            iterator: one of which a tensor decides how many items are taken.
            error: what is wrong where it cannot be.

        Raises:
            NeedsPositions: it can.
            CaptureError: nobody knows where it was made, or it is one of the program, and that does not help.
        """
        lines = {self.made[id(one)][1] for one in (iterator, *sources(iterator)) if id(one) in self.made}
        missing = lines - self._request.by_position
        raise NeedsPositions(frozenset(missing)) if missing else error

    def fail_spent(self, iterator: Any) -> NoReturn:
        """Raise what is to be raised where an iterator is used from which a tensor decides how many items have been taken."""
        self.require(iterator, self.spent_error())

    def ask_running_to_give(self) -> None:
        """Have the generator that runs give its items to the loop that takes them, where that is not tried yet.

        Raises:
            NeedsGiving: it can.
        """
        if self.running:
            self.running[-1].ask_to_give()

    def check_left(self, value: Any) -> None:
        """Check what goes to a function that takes the items of iterators, and knows nothing of those of the program.

        Raises:
            Signal: a tensor has decided how many items of one have been taken.
            CaptureError: it is one of the program, or is none that can be.
        """
        if not self.taken:  # nothing has been taken of any
            return
        for one in (*(value if type(value) in (list, tuple) else ()), value):
            if isinstance(one, Iterator) and any(map(self.is_spent, (one, *sources(one)))):
                self.fail_spent(one)

    def spent_error(self) -> CaptureError:
        """Return the error for the use of such an iterator."""
        return CaptureError(
            "this uses an iterator from which a tensor decides how many items have been taken",
            self._position.here(),
            fix="loop over a list by position, or collect the items in a list first",
        )

    def spend(self, iterator: Any, *, alone: bool = False) -> None:
        """Note that a tensor decides what is left in an iterator: nobody may take from it any more.

        So it is in those that it takes from, if not ``alone``.
        """
        for one in (iterator, *(() if alone else sources(iterator))):
            held = _position(one)
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


_OVER_OTHERS = (
    enumerate, zip, map, filter, reversed, *(value for value in vars(itertools).values() if isinstance(value, type)),
)  # fmt: skip
"""Classes of Python's iterators that take from others."""


def sources(iterator: Any) -> Iterator[Any]:
    """Yield the iterators that an iterator takes its items from, also by way of others."""
    if isinstance(iterator, AbstractIterator):
        parts: list[Any] = [*iterator.taken_from()]
    elif type(iterator) in _OVER_OTHERS:
        parts = _held(iterator)
    else:
        return
    for part in parts:
        if isinstance(part, Iterator):
            yield part
            yield from sources(part)


def _held(iterator: Any) -> list[Any]:
    """Return what an iterator holds, also in a tuple or the iterator over one.

    The tuple may have gaps, where one of its iterators has ended: nobody must look at its items.
    """
    parts: list[Any] = []
    waiting = gc.get_referents(iterator)
    while waiting:
        part = waiting.pop()
        if type(part) in (tuple, _OVER_A_TUPLE):
            waiting += gc.get_referents(part)
        else:
            parts.append(part)
    return parts


_OVER_A_TUPLE = type(iter(()))


def _position(iterator: Any) -> Any:
    """Return what stands for where an iterator is; itself, for one of Python's own."""
    return (storage.table_of(iterator) or {}).get("__dy2st_position__", iterator)
