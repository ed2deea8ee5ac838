"""Loops whose iterations stand in the program one after another."""

from __future__ import annotations

import collections.abc
import dataclasses
import gc
import itertools
import operator
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from dy2st import errors
from dy2st.capture.branching.branch import capture_if, capture_if_exp, join
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.iterables import ahead, iterators
from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.iterables.runtime_iterables import of_range
from dy2st.capture.iterables.watching import of_program
from dy2st.capture.looping import stepping
from dy2st.capture.looping.loop import try_loop
from dy2st.capture.looping.positions import capture_positions, nothing
from dy2st.capture.raising import rests
from dy2st.capture.session.iterators import sources
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.writes.places import Around, Place

_UNROLL_LIMIT = 4096
"""How many items are taken from an iterator, which may be endless, to be skipped once its loop has been left."""


def over_steps(session: Session, rest: Rest, body: Any, live: Sequence[str], test: Any) -> None:
    """Step through an iterator of the user's; once a tensor decides about its steps, capture what is left as a loop."""
    iterator, iterations, test = rest.iterator, 0, test or going_on(session, lambda: True)
    cells = session.frames.cells_of(body, test)
    while not iterations or test():
        attempt = session.blocks.begin_attempt(cells)
        item = stepping.step(iterator)
        if item is iterators.END:
            session.blocks.commit(attempt)
            break
        if item is not stepping.DECIDED:
            body(item)
        if item is stepping.DECIDED or is_symbolic(test()):
            session.blocks.roll_back(attempt)
            if try_loop(session, cells, lambda: stepping.capture_steps(session, iterator, body, live, test)):
                return session.site("for", "captured", "a tensor decides how many items are taken")
            item = iterators.step(iterator)
            return capture_rest(session, dataclasses.replace(rest, item=item, iterations=iterations), body, live, test)
        session.blocks.commit(attempt)
        iterations += 1
    session.site("for", "unrolled", f"{iterations} iterations over a Python {type(rest.iterable).__name__}")
    rests.go_on(session, ())


class Flat(Around):
    """The body of a loop; what follows an iteration does not stand in a rest of the iteration."""

    def __init__(self, session: Session, body: Any, live: Sequence[str]) -> None:
        super().__init__(body)
        self.session, self.body, self.live = session, body, live

    def __call__(self, item: Any) -> Any:
        return rests.flat(self.session, lambda: self.body(item), self.live, join)


def going_on(session: Session, test: Callable[[], Any]) -> Callable[[], Any]:
    """Tell whether a loop goes on: not where an iteration has left an exception for a handler."""

    def again() -> Any:
        going = rests.going(session)
        return capture_if_exp(going, test, lambda: False) if is_symbolic(going) else going and test()

    return again


def guarded(session: Session, rest: Rest, body: Any, live: Sequence[str]) -> None:
    """Go on after an iteration that may have left an exception for a handler."""
    test = going_on(session, lambda: True)
    if isinstance(rest.iterable, range) or type(rest.iterator) is itertools.count:
        item = iterators.step(rest.iterator)
        if item is iterators.END:
            return rests.go_on(session, ())
        rest = Rest(rest.iterable, rest.iterator, item, rest.iterations + 1, None)
        items, cells = rest.positions(), session.frames.cells_of(body)
        if items is not None and try_loop(session, cells, lambda: capture_positions(session, items, body, live, test, 0)):
            return session.site("for", "captured", "the loop may be left by an exception")
        capture_iteration = _Iteration(rest.iterator, body, item)
        _iteration(session, test(), capture_iteration, live)
    _check_endless(session, rest)
    _iterations(session, rest, rest.item, body, live, test)


@dataclasses.dataclass
class Rest:
    """What is left of a Python iterable when its loop has an iteration after which a tensor decides whether it goes on.

    Attributes:
        iterable: what the loop is over.
        iterator: has given the items of the iterations before, and ``item``.
        item: the item of that iteration.
        iterations: how many iterations went before.
        changed: the places that the iteration writes; ``None`` if nobody looked.
    """

    iterable: Any
    iterator: Any
    item: Any
    iterations: int
    changed: Sequence[Place] | None

    def positions(self) -> RuntimeIterable | None:
        """Return the items by position, where they are numbers at equal distances."""
        if isinstance(self.iterable, range):
            return of_range(self.iterable[self.iterations :])
        if type(self.iterator) is itertools.count:
            first, difference = self.item, next(self.iterator) - self.item
            return RuntimeIterable(lambda: sys.maxsize, lambda k: first + k * difference, "itertools.count")
        return None


def capture_rest(session: Session, rest: Rest, body: Any, live: Sequence[str], test: Any) -> None:
    iterators.check_own(session, rest.iterator)
    for source in _sources(rest.iterator):  # an iterator lets go of those that it takes from when it ends
        session.iterators.spend(source, alone=True)
    items = rest.positions()
    cells = session.frames.cells_of(body, test)
    if items is not None and try_loop(session, cells, lambda: capture_positions(session, items, body, live, test, 0)):
        session.site("for", "captured", "the loop may be left at run time")
        return
    _check_endless(session, rest)
    if ahead.is_in_steps(session, rest.iterator):
        pass
    elif iterators.is_written_by_user(rest.iterator):
        rest.iterator = iter(ahead.taken(session, rest.iterator, lambda: _remaining(session, rest.iterator)))
    elif rest.changed is not None and iterators.reads_nothing_of(rest.iterator, rest.changed):
        rest.iterator = iter(_taken(session, rest.iterator))
    _skip_iterations(session, rest, body, live, test)


def _sources(iterator: Any) -> list[Any]:
    """Return the iterators that an iterator takes from; a generator of this package goes through what it holds."""
    held = gc.get_referents(iterator) if isinstance(iterator, types.GeneratorType) else []
    parts = [part for part in held if isinstance(part, collections.abc.Iterator)]
    return [*sources(iterator), *parts, *(one for part in parts for one in sources(part))]


def _taken(session: Session, iterator: Any) -> list[Any]:
    """Return the items that a generator still has; so it has used up what it takes them from."""
    region = session.blocks.region
    before = len(region.iterators)
    items = _all_taken(session, iterator)
    for one in region.iterators[before:]:
        session.iterators.spend(one)
    return items


def _all_taken(session: Session, iterator: Any) -> list[Any]:
    if not isinstance(iterator, UserGenerator):
        return at_most(session, iterator)
    return ahead.taken(session, iterator, lambda: iterators.quietly(session, iterator, lambda: at_most(session, iterator)))


def _skip_iterations(session: Session, rest: Rest, body: Any, live: Sequence[str], test: Any) -> None:
    """Note that each iteration takes its item and runs the body, or does neither."""
    if isinstance(rest.iterator, UserGenerator):
        rest.iterator.step_by_step = True
    body(rest.item)
    _iterations(session, rest, rest.item, body, live, test)


def _iterations(session: Session, rest: Rest, item: Any, body: Any, live: Sequence[str], test: Any) -> None:
    if isinstance(rest.iterator, UserGenerator):
        rest.iterator.step_by_step = True
    iterations = rest.iterations + 1
    while item is not iterators.END:
        if (items := of_program(session, rest.iterable)) is not None:
            return rest_of_list(session, items, body, live, test, iterations)
        going = test()
        iteration = _Iteration(rest.iterator, body)
        if not _iteration(session, going, iteration, live):
            break
        item = iteration.item
        iterations += 1
        if iterations > _UNROLL_LIMIT and not isinstance(rest.iterable, collections.abc.Sized):
            raise _endless(session)
    for iterator in (rest.iterable, rest.iterator):  # which the `__iter__` of the user's may have given
        if isinstance(iterator, collections.abc.Iterator):
            session.iterators.spend(iterator)
    session.site("for", "unrolled", f"{iterations - 1} iterations; each is skipped once the loop has been left")
    rests.go_on(session, ())


def _iteration(session: Session, going: Any, iteration: _Iteration, live: Sequence[str]) -> bool:
    """Record one iteration, where the loop goes on; whether it may."""
    if is_symbolic(going):
        rests.flat(session, lambda: capture_if(going, iteration, nothing, live), live, join)
    elif going:
        iteration()
    return going is not False


def _check_endless(session: Session, rest: Rest) -> None:
    if type(rest.iterator) in (itertools.cycle, itertools.repeat) and not operator.length_hint(rest.iterator):
        raise _endless(session)
    iterators.check_pure(session, rest.iterator)


def rest_of_list(session: Session, items: RuntimeIterable, body: Any, live: Sequence[str], test: Any, iterations: int) -> None:
    """Go on over a list that has become a list of the program."""
    session.site("for", "captured", "the list changes its length where a tensor decides")
    capture_positions(session, items, body, live, test, iterations)


def _remaining(session: Session, iterator: Any) -> list[Any]:
    """Return the items that an iterator of the user's still has; what it is then is known only at run time."""
    attempt = session.blocks.begin_attempt([])
    items = at_most(session, iterators.over(iterator))
    for write in attempt[0].undo_log.writes().values():
        if getattr(write.place, "owner", None) is not iterator:
            raise errors.CaptureError(
                f"each step of this {type(iterator).__name__} changes '{write.place}', and a tensor decides how many there are",
                session.here(),
                fix="write a while loop",
            )
    session.blocks.commit(attempt)
    session.iterators.spend(iterator)
    return items


def at_most(session: Session, iterator: Any) -> list[Any]:
    """Return the items that an iterator still has.

    Raises:
        CaptureError: it has too many, and may be endless.
    """
    items = list(itertools.islice(iterator, _UNROLL_LIMIT))
    if len(items) == _UNROLL_LIMIT:
        raise _endless(session)
    return items


def _endless(session: Session) -> errors.CaptureError:
    return errors.CaptureError(
        "this loop over an endless iterator is left at an iteration that is known only at run time",
        session.here(),
        fix="write a while loop, or a loop over itertools.count()",
    )


_UNTAKEN: Any = object()


class _Iteration(Around):
    """One iteration as a branch, which shares the cells of the body; the item is taken once, however often it is captured."""

    def __init__(self, iterator: Any, body: Any, item: Any = _UNTAKEN) -> None:
        super().__init__(body)
        self.iterator, self.body, self.item = iterator, body, item
        self._error: Exception | None = None

    def __call__(self) -> None:
        if self._error is not None:
            raise self._error
        if self.item is _UNTAKEN:
            try:
                self.item = iterators.quietly(need(), self.iterator, lambda: iterators.step(self.iterator, is_alone=True))
            except Exception as error:
                self.item, self._error = iterators.END, error  # there is no further item on any way
                raise
        if self.item is not iterators.END:
            self.body(self.item)
