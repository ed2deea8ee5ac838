"""``for`` loops, and iterables whose length is known only at run time.

A Python iterable is unrolled, as Python would step through it. A range, tensor or list whose length a tensor decides becomes a
loop of the program: position ``k`` runs from 0, the item is looked up by position.
"""

from __future__ import annotations

import collections.abc
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import config
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if
from dy2st.capture.containers import lists, ranges
from dy2st.capture.containers.changes import conjunction
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.containers.runtime_iterables import as_it_is, as_runtime, iterator_of, of_range
from dy2st.capture.containers.watching import Watched, deque_by_position, is_watchable, of_program, stepped, watched
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.looping import iterators
from dy2st.capture.looping.iterators import over
from dy2st.capture.looping.loop import try_loop
from dy2st.capture.looping.positions import capture_positions, nothing
from dy2st.capture.looping.unrolled import Flat, Rest, at_most, capture_rest, going_on, guarded, over_steps, rest_of_list
from dy2st.capture.raising import rests
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values.abstract_objects import AbstractDeque, contents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion
from dy2st.capture.writes.places import ItemPlace
from dy2st_runtime.primitives import scalars

_NO_STEP = "range() arg 3 must not be zero"


def range_(*bounds: Any) -> Any:
    """Return ``range`` of numbers of which some are known only at run time."""
    session = need()
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    start, stop, step = (ranges.whole(session, bound) for bound in (start, stop, step))
    if not any(isinstance(bound, SYMBOLIC_NUMBERS) for bound in (start, stop, step)):
        return range(start, stop, step)
    if isinstance(step, int) and step == 0:
        raise raised(ValueError(_NO_STEP))
    if session.in_flight.pending and is_symbolic(step):  # where nobody catches it, the program finds out when it needs the length
        check(session, step != 0, ValueError, _NO_STEP)
    return ranges.RuntimeRange(start, stop, step)


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
    is_iterator = isinstance(iterable, collections.abc.Iterator) and not isinstance(iterable, Stream)
    items = collected(at_most(session, iterators.over(iterable)) if is_iterator else iterable)
    known = session.lists.of(items)
    return _by_position(session, items) if known is None else lists.iterable(session, known)


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


def collected(iterable: Any) -> list[Any]:
    """Return a new list of the items: of Python, or if their number is known only at run time, of the program."""
    session, iterable = need(), iterators.opened(contents(iterable))
    if isinstance(iterable, TaggedUnion):
        iterable = contents(over(iterable))  # a tagged union still, if one has more items than another
    known = session.lists.of(iterable)
    if known is not None:
        return lists.copy(session, known)  # type: ignore[no-any-return]
    if not isinstance(iterable, (Columns, TaggedUnion)) and not is_of_runtime_length(iterable):
        iterable = over(iterable)
        if not isinstance(iterable, TaggedUnion):
            results = list(iterable)
            session.lists.own(results)
            return results
    results = []
    session.lists.own(results)
    capture_for(iterable, lambda item: session.call(results.append, item), (), None)
    return results


def is_of_runtime_length(iterable: Any) -> bool:
    """Tell whether only the program knows how many items there are."""
    iterable = contents(iterable)
    return isinstance(iterable, (Stream, optional.RuntimeView)) or as_runtime(iterable) is not None


def capture_for(iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """Capture a ``for`` statement.

    Args:
        iterable: what it loops over.
        body: a function of the item.
        live: the names that are read after an iteration or after the loop.
        test: ``None``, or whether the loop goes on, asked before each step but the first (false after a ``break``).
    """
    session = need()
    iterable, body = watched(session, iterable, body)
    iterable = contents(iterable)
    if isinstance(iterable, Stream):
        iterators.take(session, iterable)
        through, live = iterable.through, (*live, *iterable.bound)
        capture_for(iterable.consume(), lambda item: through(item, body, live, test), live, test)
        return
    if isinstance(iterable, Columns):
        return _over_columns(iterable, body, live, test)
    iterable = optional.now(session, iterable)
    if isinstance(iterable, TaggedUnion):
        return session.over(iterable, lambda option: capture_for(option, body, live, test))  # type: ignore[no-any-return]
    if optional.is_wide(session, iterable) and not has_own(iterable, "__iter__"):
        iterable = optional.view(iterable, "keys")
    if optional.is_open(iterable, "__iter__"):
        again = _in_one_way(session, iterable, body, live, test)
        return optional.case_split(session, iterable, again, ordered=True)  # type: ignore[no-any-return]
    if session.blocks.key_orders.asks(iterable) is not None:
        again = _in_one_way(session, iterable, body, live, test)
        return session.blocks.key_orders.ordered(session, iterable, again)  # type: ignore[no-any-return]
    items = as_runtime(iterable)
    if items is not None:
        session.site("for", "captured", f"the length of {items.what} is known only at run time")
        capture_positions(session, items, body, live, test, 0)
    elif not (
        _has_positions(iterable) and _is_long(session, iterable, body, live) and _is_loop(session, iterable, body, live, test)
    ):
        _unroll(session, iterable, body, live, test)


def _has_positions(iterable: Any) -> bool:
    """Tell whether what a loop of known length goes over can be looked up by position: numbers, or the rows of a tensor."""
    return isinstance(iterable, range) or (isinstance(iterable, torch.Tensor) and iterable.dim() > 0)


def _over_columns(columns: Columns, body: Any, live: Sequence[str], test: Any) -> None:
    def each() -> None:
        capture_for([column() for column in columns.columns], body, live, test)

    capture_if(columns.present, each, nothing, live)


def _is_long(session: Session, iterable: Any, body: Any, live: Sequence[str]) -> bool:
    """Tell whether a loop has too many iterations to be written out, or too many operations in all of them."""
    options, count = session.request.options, len(iterable)
    if count > options.written_out or options.unroll is not None or count < _FEW:
        return bool(count > options.written_out)
    attempt = session.blocks.begin_attempt(session.frames.cells_of(body))
    before = len(session.builder.graph.nodes)
    try:
        Flat(session, body, live)(next(iter(over(iterable))))
        operations = len(session.builder.graph.nodes) - before
    except Exception:  # it comes up again where the loop is written out
        operations = 0
    session.blocks.roll_back(attempt)
    return operations * count > config.UNROLLED_OPERATIONS


_FEW = 50
"""Loops of fewer iterations are written out, however much they do."""


def _is_loop(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any) -> bool:
    """Capture a long loop over known numbers, or rows of a tensor; whether its body does the same in each iteration."""
    cells = session.frames.cells_of(body, *([test] if test is not None else []))

    def capture() -> None:
        is_range = isinstance(iterable, range)
        items = of_range(iterable) if is_range else lists.iterable(session, lists.unbind(session, iterable))
        capture_positions(session, items, body, live, test, 0)

    if not try_loop(session, cells, capture):
        return False
    session.site(
        "for",
        "captured",
        f"{len(iterable)} iterations are not written out: they are more than {session.request.options.written_out}, or do too much",
    )
    return True


def _in_one_way(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any) -> Callable[[Any], None]:
    """Return what captures the loop over a copy of a dict or set in which it is known what there is."""

    def again(table: Any) -> None:
        is_watched = is_watchable(iterable, body) and is_watchable(table, body)
        _unroll(session, table, body, live, test, iterable) if is_watched else capture_for(table, body, live, test)

    return again


def _unroll(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any, whole: Any = None) -> None:
    """Step through a Python iterable; once the test is known only at run time, capture what is left.

    ``whole`` is what the iterable is a copy of, in one of the ways in which it may be.
    """
    steps = Watched(session, iterable, whole or iterable, body) if is_watchable(iterable, body) else None
    iterator = iterators.started(iterable) if steps is None else steps
    if isinstance(iterator, TaggedUnion):  # the user's __iter__ gives one of several
        return capture_for(session.over(iterator, lambda option: session.call(tuple, option)), body, live, test)
    if isinstance(iterator, (RuntimeIterable, Stream)):  # of what is in an object of the user's
        return capture_for(iterator, body, live, test)
    body, test = Flat(session, steps or body, live), None if test is None else going_on(session, test)
    if iterators.is_written_by_user(iterator):
        return over_steps(session, Rest(iterable, iterator, None, 0, None), body, live, test)
    iterations = 0
    while (test is None or not iterations or test()) and (item := iterators.step(iterator)) is not iterators.END:
        if test is None:
            body(item)
            if rests.going(session) is not True:
                return guarded(session, Rest(iterable, iterator, item, iterations, None), body, live)
            if (items := of_program(session, iterable)) is not None:  # an iteration has made it grow where a tensor decides
                return rest_of_list(session, items, body, live, test, iterations + 1)
        else:
            attempt = session.blocks.begin_attempt(session.frames.cells_of(body, test))
            body(item)
            if is_symbolic(test()):
                changed = [write.place for write in attempt[0].undo_log.writes().values()]
                session.blocks.roll_back(attempt)
                return capture_rest(session, Rest(iterable, iterator, item, iterations, changed), body, live, test)
            session.blocks.commit(attempt)
        iterations += 1
    session.site("for", "unrolled", f"{iterations} iterations over a Python {type(iterable).__name__}")
    rests.go_on(session, ())


def iterated(value: Any) -> Any:
    """Return what code that is not a ``for`` statement steps through.

    Raises:
        CaptureError: its length is known only at run time.
    """
    session = current()
    if session is None:
        return value
    value = iterators.opened(value)
    runtime = as_runtime(value)
    return over(value) if runtime is None else iter(runtime)


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """Return ``enumerate``."""
    session, iterable = need(), iterators.opened(iterable)
    part = _part(session, iterable)
    if part is None:
        steps = stepped(over(iterable))
        return enumerate(steps, start) if not is_symbolic(start) else ((start + k, x) for k, x in enumerate(steps))
    items = part.items
    counted = RuntimeIterable(
        items.length, lambda k: (start + k, part.take(k)), f"enumerate of {items.what}", items.end, more=part.more
    )
    return iterator_of(enumerate, counted)


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """Return ``zip``; as long as the shortest."""
    session, iterables = need(), tuple(map(iterators.opened, iterables))
    before = [() if strict else iterables[:number] for number in range(len(iterables))]
    given = [_part(session, iterable, others, is_shared=not strict) for iterable, others in zip(iterables, before)]
    if not any(part is not None for part in given):
        return zip(*(stepped(over(iterable)) for iterable in iterables), strict=strict)
    parts = [part or _Part(session, by_position(session, iterable)) for part, iterable in zip(given, iterables)]

    def more(k: Any) -> Any:
        return conjunction(session, [part.more(k) for part in parts])

    def length() -> Any:
        return session.number(scalars.minimum, [part.items.length() for part in parts], "int")

    def items_at(k: Any) -> tuple[Any, ...]:
        return tuple(part.take(k) for part in parts)

    if any(part.is_shared for part in parts):
        items = RuntimeIterable(length, items_at, "zip", functools.partial(_lose, parts, 0), more=more)
    else:
        ends = functools.partial(_check_lengths, session, [part.items for part in parts]) if strict else None
        items = RuntimeIterable(length, items_at, "zip", ends)
    return iterator_of(zip, items)


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
        self._place = None if reached is None else ItemPlace(reached, "position")

    @property
    def is_shared(self) -> bool:
        """Whether it is an iterator that others may take from."""
        return self._place is not None

    def _position(self, k: Any) -> Any:
        return k if self._place is None else self._place.read()

    def more(self, k: Any, before: int | None = None) -> Any:
        """Tell whether there is an item for a step."""
        return self._position(k) + (self._before if before is None else before) < self.items.length()

    def take(self, k: Any) -> Any:
        """Return the item for a step."""
        item = self.items.at(self._position(k))
        self.lose(k)
        return item

    def lose(self, k: Any) -> None:
        """Go on to the next item."""
        if self._place is not None:
            position = self._position(k)
            self._session.places.write(self._place)
            self._place.write(position + 1)


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


def _lose(parts: Sequence[_Part], number: int, k: Any) -> None:
    """Do what the last, incomplete step of a ``zip`` does: iterators in front of the one that has ended have given an item."""
    if not any(part.is_shared for part in parts[number:-1]):
        return
    part = parts[number]

    def lost() -> None:
        part.lose(k)
        _lose(parts, number + 1, k)

    going = part.more(k, 0)
    if is_symbolic(going):
        capture_if(going, lost, nothing, ())
    elif going:
        lost()


def _check_lengths(session: Session, parts: list[RuntimeIterable], k: Any) -> None:
    """Do what ``zip(strict=True)`` does where one of its arguments has no further item: the first that differs is named."""
    first, *others = (part.length() for part in parts)
    for number, other in enumerate(others, 2):
        before = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
        shorter, longer = f"is shorter than {before}", f"is longer than {before}"
        for holds, words in ((other >= first, shorter), (other <= first, longer)):
            check(session, holds, ValueError, f"zip() argument {number} {words}")
