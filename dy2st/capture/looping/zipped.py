"""``enumerate`` and ``zip``; where only the program knows the length of a part, items are looked up by position."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.iterables import ahead, iterators, watching
from dy2st.capture.iterables.changes import conjunction
from dy2st.capture.iterables.generators import UserGenerator, is_given
from dy2st.capture.iterables.iterators import over
from dy2st.capture.iterables.runtime_iterables import as_it_is, as_runtime, iterator_of, of_range
from dy2st.capture.iterables.watching import deque_by_position, stepped
from dy2st.capture.looping.iteration import collected, is_of_runtime_length
from dy2st.capture.looping.positions import KeptPosition
from dy2st.capture.looping.unrolled import at_most
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet, representing
from dy2st.capture.values.kinds import is_symbolic
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import scalars


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """Return ``enumerate``."""
    session, iterable = need(), iterators.opened(iterable)
    table = _unsure_table(session, iterable)
    if table is not None:
        view = watching.shown_table(session, iterable)
        assert view is not None
        return optional.case_split(session, table, lambda one: session.call(enumerate, _view(one, view[1]), start), ordered=True)
    if is_given(iterable):
        return _counted(session, iterable, start)
    part = _part(session, iterable)
    if part is None and session.iterators.is_of_program():
        part = _Part(session, positions_of(session, iterable))
    if part is None:
        steps = stepped(over(iterable))
        return enumerate(steps, start) if not is_symbolic(start) else ((start + k, x) for k, x in enumerate(steps))
    items = part.items
    counted = RuntimeIterable(
        items.length, lambda k: (start + k, part.take(k)), f"enumerate of {items.what}", items.end, more=part.more
    )
    return iterator_of(enumerate, counted)


def _counted(session: Session, generator: UserGenerator, start: Any) -> Stream:
    """Return ``enumerate`` of what a generator gives to the loop that takes it."""
    reached = {"position": start}
    session.allocations.own(reached)
    position = KeptPosition(session, reached)

    def through(item: Any, then: Callable[[Any], Any], live: Any, test: Any) -> None:
        number = position()
        position.go_to(number + 1)
        then((number, item))

    result: Stream = representing(Stream, enumerate)(generator, through)
    return result


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """Return ``zip``; as long as the shortest."""
    session, given_by_user = need(), iterables
    iterables = tuple(map(iterators.opened, iterables))
    before = [() if strict else iterables[:number] for number in range(len(iterables))]
    given = [_part(session, iterable, others, is_shared=not strict) for iterable, others in zip(iterables, before)]
    if not any(part is not None for part in given) and not session.iterators.is_of_program():
        return zip(*(stepped(over(iterable)) for iterable in iterables), strict=strict)
    parts = [
        part or _Part(session, positions_of(session, iterable, original))
        for part, iterable, original in zip(given, iterables, given_by_user)
    ]

    def more(k: Any) -> Any:
        return conjunction(session, [part.more(k) for part in parts])

    def length() -> Any:
        return session.number(scalars.minimum, [part.items.length() for part in parts], "int")

    def items_at(k: Any) -> tuple[Any, ...]:
        return tuple(part.take(k) for part in parts)

    if any(part.is_shared for part in parts):
        shared = tuple(iterable for iterable, part in zip(iterables, parts) if part.is_shared)
        items = RuntimeIterable(length, items_at, "zip", functools.partial(_lose, parts, 0), more=more, parts=shared)
    else:
        ends = functools.partial(_check_lengths, session, [part.items for part in parts]) if strict else None
        items = RuntimeIterable(length, items_at, "zip", ends)
    return iterator_of(zip, items)


def mapped(session: Session, kind: type, function: Callable[..., Any], *iterables: Any) -> Any:
    """Return an iterator of the program, of a kind, that gives what a function makes of what ``zip`` would give.

    Args:
        session: the capture.
        kind: the class of the iterator.
        function: called with an item of each iterable.
        iterables: on a line whose iterators are those of the program.
    """
    steps = zip_(*iterables).source
    at: Callable[[Any], Any] = lambda k: function(*steps.at(k))  # noqa: E731
    items = RuntimeIterable(steps.length, at, kind.__name__, steps.end, more=steps.more, parts=steps.parts)
    return iterator_of(kind, items)


def _unsure_table(session: Session, iterable: Any) -> dict[Any, Any] | None:
    """Return the dict of which a view is gone through where a tensor decides its keys; ``None`` of anything else."""
    shown = None if isinstance(iterable, (dict, RuntimeIterable, Stream)) else watching.shown_table(session, iterable)
    if shown is None or not isinstance(shown[0], dict) or not optional.is_unsure(session, shown[0]):
        return None
    return None if optional.is_wide(session, shown[0]) else shown[0]


def _view(table: dict[Any, Any], name: str) -> Any:
    return getattr(table, name)()


class _Part:
    """What one of the items of each step is taken from.

    Args:
        session: the capture.
        items: what there is to take.
        reached: keeps how far an iterator has come that others may take from.
        before: how many items of a step are taken from the same iterator before this one.
    """

    def __init__(self, session: Session, items: RuntimeIterable, reached: dict[str, Any] | None = None, before: int = 0) -> None:
        self._session, self.items, self._before = session, items, before
        self._kept = None if reached is None else KeptPosition(session, reached)

    @property
    def is_shared(self) -> bool:
        """Whether it is an iterator that others may take from."""
        return self._kept is not None

    def _position(self, k: Any) -> Any:
        return k if self._kept is None else self._kept()

    def more(self, k: Any, before: int | None = None) -> Any:
        """Tell whether there is an item for a step."""
        before = self._before if before is None else before
        if self.items.more is None:
            return self._position(k) + before < self.items.length()
        if before:
            raise self._session.iterators.spent_error()
        return self.items.more(self._position(k))

    def take(self, k: Any) -> Any:
        """Return the item for a step."""
        item = self.items.at(self._position(k))
        self.lose()
        return item

    def lose(self) -> None:
        """Go on to the next item."""
        if self._kept is not None:
            self._kept.go_to(self._kept() + 1)

    def end(self) -> None:
        """Note that an iterator has come to the end: it gives nothing more, even if there is."""
        if self._kept is not None:
            self._kept.end()


def _part(session: Session, iterable: Any, before: Sequence[Any] = (), *, is_shared: bool = True) -> _Part | None:
    """Return what items are taken from; ``None`` if Python knows how many there are.

    Args:
        session: the capture.
        iterable: what is given.
        before: what else items are taken from before, in each step.
        is_shared: whether an iterator that is given is left where it is.
    """
    is_position = isinstance(iterable, Stream) and iterable.through is as_it_is and isinstance(iterable.source, RuntimeIterable)
    if is_position and is_shared:
        iterators.take(session, iterable)
        return _Part(session, iterable.source, iterable.source.reached, sum(other is iterable for other in before))
    if isinstance(iterable, Stream):
        items = by_position(session, iterable)
        session.iterators.spend(iterable)  # Python would not have taken all
        return _Part(session, items)
    runtime = as_runtime(iterable)
    if runtime is not None and isinstance(iterable, AbstractDeque):
        runtime = deque_by_position(session, iterable, runtime)
    return None if runtime is None else _Part(session, runtime)


def positions_of(session: Session, iterable: Any, original: Any = None) -> RuntimeIterable:
    """Return an iterable by position, of which nobody takes all at once.

    Args:
        session: the capture.
        iterable: what is gone through.
        original: what the user's code gives; ``None`` if that is the iterable.

    Raises:
        Signal: it is an iterator that has to be one of the program.
        CaptureError: what it goes over changes, or its steps act, and a tensor decides how many there are.
    """
    original = iterable if original is None else original
    if isinstance(original, collections.abc.Iterator) and not isinstance(original, (Stream, RuntimeIterable, *_ENDLESS)):
        if id(original) in session.iterators.made:
            session.iterators.fail_spent(original)
        items = _left_in(session, original, original)
        session.iterators.spend(original)
        return items
    if original is not iterable:
        return _left_in(session, iterable, original)
    is_list = type(iterable) is list and session.lists.of(iterable) is None
    return _list_by_position(session, iterable) if is_list else _unchanged(session, iterable, by_position(session, iterable))


def _left_in(session: Session, iterator: Any, original: Any) -> RuntimeIterable:
    """Return what an iterator gives that Python steps through."""
    by_user = isinstance(original, UserGenerator) or iterators.is_written_by_user(original) or iterator is not original
    if by_user and ahead.is_in_steps(session, original):
        raise CaptureError(
            f"a tensor decides how many items are taken of a {type(original).__name__} that raises, prints, writes or draws",
            session.here(),
            fix="take them in a for loop with a break",
        )
    if by_user:
        return ahead.taken(session, original, lambda: by_position(session, iterator))
    return by_position(session, iterator)


def _unchanged(session: Session, iterable: Any, items: RuntimeIterable) -> RuntimeIterable:
    """Return the items of a dict, a set or a deque, which must not change meanwhile; those of anything else as they are."""
    before = _contents(session, iterable)
    if before is None:
        return items

    def check() -> None:
        now = _contents(session, iterable)
        if now is None or len(now) != len(before) or any(one is not other for one, other in zip(before, now)):
            raise CaptureError(
                "what an iterator goes over has changed, and a tensor decides how many items have been taken",
                session.here(),
                fix="go over a copy: iter(list(items))",
            )

    def length() -> Any:
        check()
        return items.length()

    def at(k: Any) -> Any:
        check()
        return items.at(k)

    return dataclasses.replace(items, length=length, at=at)


def _contents(session: Session, iterable: Any) -> list[Any] | None:
    """Return what is in a dict, a set or a deque of which Python knows that; ``None`` of anything else."""
    if isinstance(iterable, AbstractDeque):
        return None if session.lists.of(iterable.items) is not None else list(iterable.items)
    shown = watching.shown_table(session, iterable)
    if shown is None:
        return None
    table = shown[0]
    if isinstance(table, AbstractSet):
        table = table.table
    return None if optional.is_unsure(session, table) else [part for pair in dict.items(table) for part in pair]


_ENDLESS = (itertools.count, itertools.repeat)
"""Iterators that are looked at by position as they are."""


def by_position(session: Session, iterable: Any) -> RuntimeIterable:
    """Return any iterable as one whose items are looked up by a position known only at run time."""
    runtime = as_runtime(iterable)
    if runtime is not None:
        return runtime
    if isinstance(iterable, range):
        return of_range(iterable)
    if type(iterable) is itertools.count:
        first = next(iterable)
        difference = next(iterable) - first
        session.iterators.spend(iterable)  # the program goes on with it
        return RuntimeIterable(lambda: sys.maxsize, lambda k: first + k * difference, "itertools.count")
    if type(iterable) is itertools.repeat and not operator.length_hint(iterable):
        value = next(iterable)
        return RuntimeIterable(lambda: sys.maxsize, lambda k: value, "itertools.repeat")
    is_iterator = isinstance(iterable, collections.abc.Iterator) and not is_of_runtime_length(iterable)
    if isinstance(iterable, Stream):
        items = ahead.required_quiet(session, lambda: collected(iterable), type(iterable.example).__name__)
    else:
        items = collected(at_most(session, iterators.over(iterable)) if is_iterator else iterable)
    known = session.lists.of(items)
    return _by_position(session, items) if known is None else lists.iterable(session, known)


def _list_by_position(session: Session, items: list[Any]) -> RuntimeIterable:
    """Return a list of a known length by position; what changes in it is seen."""

    def seen() -> tuple[list[Any], RuntimeIterable]:
        return list(items), _by_position(session, list(items))

    kept = seen()

    def now() -> RuntimeIterable:
        nonlocal kept
        known = session.lists.of(items)
        if known is not None:
            return lists.iterable(session, known)
        if len(kept[0]) != len(items) or any(one is not other for one, other in zip(kept[0], items)):
            kept = seen()
        return kept[1]

    return RuntimeIterable(lambda: now().length(), lambda k: now().at(k), "a list")


def _by_position(session: Session, items: list[Any]) -> RuntimeIterable:
    """Return a list of a known length by position: the program gets one where it is made, and where a block does not see that."""

    def made() -> tuple[Any, RuntimeIterable]:
        copy = list(items)
        session.lists.own(copy)
        return session.builder, lists.iterable(session, session.lists.make(copy))

    seen = made()

    def at(k: Any) -> Any:
        nonlocal seen
        if not session.builder.is_inside(seen[0]):
            seen = made()
        return seen[1].at(k)

    return RuntimeIterable(lambda: len(items), at, "a list")


def _lose(parts: Sequence[_Part], number: int, k: Any) -> None:
    """Do what the last, incomplete step of a ``zip`` does: iterators in front of the one that has ended have given an item."""
    if not any(part.is_shared for part in parts[number:]):
        return
    part = parts[number]
    if number == len(parts) - 1:
        part.end()
        return

    def lost() -> None:
        part.lose() if part.items.more is None else part.take(k)
        _lose(parts, number + 1, k)

    going = part.more(k, 0)
    if is_symbolic(going):
        capture_if(going, lost, part.end, ())
    elif going:
        lost()
    else:
        part.end()


def _check_lengths(session: Session, parts: list[RuntimeIterable], k: Any) -> None:
    """Do what ``zip(strict=True)`` does where one of its arguments has no further item: the first that differs is named."""
    first, *others = (part.length() for part in parts)
    for number, other in enumerate(others, 2):
        before = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
        shorter, longer = f"is shorter than {before}", f"is longer than {before}"
        for holds, words in ((other >= first, shorter), (other <= first, longer)):
            check(session, holds, ValueError, f"zip() argument {number} {words}")
