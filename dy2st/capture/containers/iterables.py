"""Things to loop over that Python cannot step through by itself: a length or a condition is known only at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dy2st import errors
from dy2st.capture.session.session import need
from dy2st.capture.values.abstract_objects import AbstractIterator
from dy2st.capture.values.symbolic import TaggedUnion


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RuntimeIterable(AbstractIterator, example=iter(())):
    """Something to loop over whose length is known only at run time.

    Attributes:
        length: gives the number of items; asked before each iteration, since a list may grow meanwhile.
        at: gives the item at a position.
        what: in words.
        end: called with the position at which a loop has run out of items, if there is something to do then.
        more: tells whether there is an item at a position, where the length does not.
        parts: the iterators that it takes items from, which others may take from too.
        reached: keeps the position that has been reached, where another loop may go on from there: under ``"position"``.
    """

    length: Callable[[], Any]
    at: Callable[[Any], Any]
    what: str
    end: Callable[[Any], None] | None = None
    more: Callable[[Any], Any] | None = None
    reached: dict[str, Any] | None = None
    parts: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        session = need()
        raise errors.CaptureError(
            f"{self.what} has a length that is known only at run time, and is not consumed by a for statement",
            session.here(),
            fix="loop over it with a for statement in converted code",
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Columns(AbstractIterator, example=zip()):
    """``zip(*rows)``: a known number of columns, or none where there is no row.

    Attributes:
        present: whether there is a row, known only at run time.
        columns: each makes one.
    """

    present: Any
    columns: Sequence[Callable[[], Any]]

    def __iter__(self) -> Iterator[Any]:
        raise errors.CaptureError(
            "whether zip(*rows) gives anything is known only at run time, and it is not consumed by a for statement",
            need().here(),
            fix="take it apart, a, b = zip(*rows), or loop over it with a for statement in converted code",
        )


class Stream(AbstractIterator, example=iter(())):
    """An iterator made of another one, as generator expressions, ``map`` and ``filter`` make them.

    A loop of converted code goes through the source, and each item to ``through``. Code that is not converted steps through
    it as through any iterator, as long as Python can decide which items there are.

    Args:
        source: what it goes through: an iterator, or a :class:`RuntimeIterable`.
        through: called with an item of the source, a function to call with each item of the stream, the names that are live in
            the loop, and whether the loop goes on (a function, or ``None``), to be asked before each item but the first.
        bound: names outside that it binds.
        resumes: whether each item of the source gives one of the stream at most, so that one loop may go on after another.
    """

    def __init__(
        self,
        source: Any,
        through: Callable[[Any, Callable[[Any], Any], Any, Any], Any],
        bound: tuple[str, ...] = (),
        *,
        resumes: bool = False,
    ) -> None:
        self.source, self.through, self.bound = source, through, bound
        self._ready: list[Any] = []
        self._consumed = self._is_begun = False
        is_position = isinstance(source, RuntimeIterable)
        self.resumes: bool = resumes and (is_position or (isinstance(source, Stream) and source.resumes))
        if self.resumes and is_position:
            reached = {"position": 0}
            need().allocations.own(reached)
            self.source = dataclasses.replace(source, reached=reached)

    def taken_from(self) -> tuple[Any, ...]:
        """Return its source, where that is an iterator, or what that takes from."""
        return self.source.parts if isinstance(self.source, RuntimeIterable) else (self.source,)

    def consume(self) -> Any:
        """Return the source, for a loop that goes through all of it.

        Raises:
            CaptureError: such a loop has been there before, and what it has left is known only at run time.
        """
        runtime = isinstance(self.source, (RuntimeIterable, TaggedUnion)) and not self.resumes
        if (self._consumed and runtime) or self._ready:
            raise errors.CaptureError(
                "this goes on with a generator that another loop has consumed",
                need().here(),
                fix="collect the items in a list first",
            )
        self._consumed = True
        return self.source

    @property
    def has_any_length(self) -> bool:
        """Whether only the program knows how many items there are to go through, also by way of other streams."""
        source = self.source
        return source.has_any_length if isinstance(source, Stream) else isinstance(source, (RuntimeIterable, TaggedUnion))

    @property
    def has_begun(self) -> bool:
        """Whether an item has been taken, or a loop has gone through it."""
        return self._consumed or self._is_begun

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        builder = need().builder
        self._is_begun = True

        def take(item: Any) -> None:
            session = need()
            if session.builder is not builder:
                raise errors.CaptureError(
                    "which items a generator gives is known only at run time, and it is not consumed by a loop",
                    session.here(),
                    fix="loop over it with a for statement in converted code, or make it a list comprehension",
                )
            self._ready.append(item)

        while not self._ready:
            self.through(next(iter(self.source)), take, (), None)
        return self._ready.pop(0)
