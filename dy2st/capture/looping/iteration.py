"""``for`` loops, and iterables whose length is known only at run time.

A Python iterable is unrolled, as Python would step through it. A range, tensor or list whose length a tensor decides becomes a
loop of the program: position ``k`` runs from 0, the item is looked up by position.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if, capture_if_exp, join
from dy2st.capture.containers import lists, ranges
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.looping import iterators, stepping
from dy2st.capture.looping.generators import UserGenerator
from dy2st.capture.looping.iterators import over
from dy2st.capture.looping.loop import capture_loop, try_loop
from dy2st.capture.raising import rests
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, contents, is_symbolic
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.primitives import scalars

_UNROLL_LIMIT = 4096
"""How many items are taken from an iterator, which may be endless, to be skipped once its loop has been left."""

_NO_STEP = "range() arg 3 must not be zero"
_POSITION = "<position>"


def range_(*bounds: Any) -> Any:
    """``range`` of numbers of which some are known only at run time."""
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


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``."""
    items = by_position(need(), iterable) if isinstance(iterable, Stream) else as_runtime(iterable)
    if items is None:
        return (
            enumerate(over(iterable), start) if not is_symbolic(start) else ((start + k, x) for k, x in enumerate(over(iterable)))
        )
    return RuntimeIterable(items.length, lambda k: (start + k, items.at(k)), f"enumerate of {items.what}", items.end)


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """``zip``; as long as the shortest."""
    parts = [by_position(need(), part) if isinstance(part, Stream) else as_runtime(part) for part in iterables]
    if not any(part is not None for part in parts):
        return zip(*(over(iterable) for iterable in iterables), strict=strict)
    session = need()
    made = [part or by_position(session, given) for part, given in zip(parts, iterables)]

    def length() -> Any:
        return session.number(scalars.minimum, [part.length() for part in made], "int")

    end = functools.partial(_check_lengths, session, made) if strict else None
    return RuntimeIterable(length, lambda k: tuple(part.at(k) for part in made), "zip", end)


def _check_lengths(session: Session, parts: list[RuntimeIterable]) -> None:
    """What ``zip(strict=True)`` does where one of its arguments has no further item: the first that differs is named."""
    first, *others = (part.length() for part in parts)
    for number, other in enumerate(others, 2):
        before = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
        shorter, longer = f"is shorter than {before}", f"is longer than {before}"
        for holds, words in ((other >= first, shorter), (other <= first, longer)):
            check(session, holds, ValueError, f"zip() argument {number} {words}")


def reversed_(iterable: Any) -> Any:
    """``reversed``."""
    iterable = contents(iterable)
    items = as_runtime(iterable)
    if items is None:
        return reversed(iterable) if not isinstance(iterable, torch.Tensor) else reversed(iterable.unbind(0))
    return RuntimeIterable(items.length, lambda k: items.at(items.length() - 1 - k), f"reversed {items.what}")


def as_runtime(iterable: Any) -> RuntimeIterable | None:
    """The iterable as one whose length is known only at run time; ``None`` if Python knows it."""
    session, iterable = need(), contents(iterable)
    if isinstance(iterable, RuntimeIterable):
        return iterable
    if isinstance(iterable, ranges.RuntimeRange):
        return iterable.positions()
    known = session.lists.of(iterable)
    if known is not None and not has_own(iterable, "__iter__"):
        return lists.iterable(session, known)
    if isinstance(iterable, torch.Tensor) and iterable.dim() and not isinstance(iterable.shape[0], int):
        rows = lists.unbind(session, iterable)
        return lists.iterable(session, rows)
    return None


def by_position(session: Session, iterable: Any) -> RuntimeIterable:
    """Any iterable as one whose items are looked up by a position known only at run time."""
    runtime = as_runtime(iterable)
    if runtime is not None:
        return runtime
    if isinstance(iterable, range):
        return _of_range(iterable)
    items = collected(iterable)
    return lists.iterable(session, session.lists.of(items) or session.lists.make(items))


def _of_range(numbers: range) -> RuntimeIterable:
    return RuntimeIterable(lambda: len(numbers), lambda k: numbers.start + k * numbers.step, "a range")


def collected(iterable: Any) -> list[Any]:
    """A new list of the items: of Python, or if their number is known only at run time, of the program."""
    session, iterable = need(), contents(iterable)
    if isinstance(iterable, TaggedUnion):
        iterable = contents(over(iterable))  # a tagged union still, if one has more items than another
    known = session.lists.of(iterable)
    if known is not None:
        return lists.copy(session, known)  # type: ignore[no-any-return]
    if not isinstance(iterable, (RuntimeIterable, Stream, Columns, TaggedUnion)) and as_runtime(iterable) is None:
        iterable = over(iterable)
        if not isinstance(iterable, TaggedUnion):
            made = list(iterable)
            session.lists.own(made)
            return made
    made = []
    session.lists.own(made)
    capture_for(iterable, lambda item: session.call(made.append, item), (), None)
    return made


def capture_for(iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """A ``for`` statement.

    Args:
        iterable: what it loops over.
        body: a function of the item.
        live: the names that are read after an iteration or after the loop.
        test: ``None``, or whether the loop goes on, asked before each step but the first (false after a ``break``).
    """
    session, iterable = need(), contents(iterable)
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
    if optional.is_open(iterable, "__iter__"):
        return optional.case_split(session, iterable, lambda table: capture_for(table, body, live, test), ordered=True)  # type: ignore[no-any-return]
    if session.blocks.key_orders.asks(iterable) is not None:
        return session.blocks.key_orders.ordered(session, iterable, lambda table: capture_for(table, body, live, test))  # type: ignore[no-any-return]
    items = as_runtime(iterable)
    if items is not None:
        session.site("for", "captured", f"the length of {items.what} is known only at run time")
        _capture_positions(session, items, body, live, test, 0)
    elif not (
        isinstance(iterable, range) and len(iterable) > session.request.unroll and _is_loop(session, iterable, body, live, test)
    ):
        _unroll(session, iterable, body, live, test)


def _over_columns(made: Columns, body: Any, live: Sequence[str], test: Any) -> None:
    def each() -> None:
        capture_for([column() for column in made.columns], body, live, test)

    capture_if(made.present, each, _nothing, live)


def _is_loop(session: Session, numbers: range, body: Any, live: Sequence[str], test: Any) -> bool:
    """Capture a long loop over known numbers; whether its body does the same in each iteration."""
    cells = session.frames.cells_of(body, *([test] if test is not None else []))
    items = _of_range(numbers)
    if not try_loop(session, cells, lambda: _capture_positions(session, items, body, live, test, 0)):
        return False
    session.site(
        "for", "captured", f"{len(numbers)} iterations are more than {session.request.unroll}, so they are not written out"
    )
    return True


def _capture_positions(session: Session, items: RuntimeIterable, body: Any, live: Sequence[str], test: Any, start: int) -> None:
    position = CellType(start)
    session.allocations.own(position)
    place = CellPlace(position, _POSITION)

    def more() -> Any:
        k = position.cell_contents
        return k < items.length()

    def again() -> Any:
        if test is None:
            return more()
        going = test()
        if is_symbolic(going):
            return capture_if_exp(going, more, lambda: False)
        return more() if going else False

    def iteration() -> None:
        k = position.cell_contents
        item = items.at(k)
        position.cell_contents = k + 1
        body(item)

    cells = [*session.frames.cells_of(body, *([test] if test is not None else [])), place]
    capture_loop(session, again(), again, iteration, cells, [*live, _POSITION])
    going = items.end is not None and (test is None or test())
    if is_symbolic(going):
        capture_if(going, items.end, _nothing, ())
    elif going and items.end is not None:
        items.end()


def _unroll(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """Step through a Python iterable; once the test is known only at run time, capture what is left."""
    iterator = iterators.started(iterable)
    if isinstance(iterator, TaggedUnion):  # the user's __iter__ gives one of several
        return capture_for(session.over(iterator, lambda option: session.call(tuple, option)), body, live, test)
    body, test = _Flat(session, body, live), None if test is None else _going_on(session, test)
    if iterators.is_written_by_user(iterator):
        return _over_steps(session, _Rest(iterable, iterator, None, 0, None), body, live, test)
    iterations = 0
    while (test is None or not iterations or test()) and (item := iterators.step(iterator)) is not iterators.END:
        if test is None:
            body(item)
            if rests.going(session) is not True:
                return _guarded(session, _Rest(iterable, iterator, item, iterations, None), body, live)
            if session.lists.of(iterable) is not None:  # an iteration has made it grow or shrink where a tensor decides
                return _rest_of_list(session, iterable, body, live, test, iterations + 1)
        else:
            attempt = session.blocks.begin_attempt(session.frames.cells_of(body, test))
            body(item)
            if is_symbolic(test()):
                changed = [write.place for write in attempt[0].undo_log.writes().values()]
                session.blocks.roll_back(attempt)
                return _capture_rest(session, _Rest(iterable, iterator, item, iterations, changed), body, live, test)
            session.blocks.commit(attempt)
        iterations += 1
    session.site("for", "unrolled", f"{iterations} iterations over a Python {type(iterable).__name__}")
    rests.go_on(session, ())


def _over_steps(session: Session, rest: _Rest, body: Any, live: Sequence[str], test: Any) -> None:
    """Step through an iterator of the user's; once a tensor decides about its steps, capture what is left as a loop."""
    iterator, iterations, test = rest.iterator, 0, test or _going_on(session, lambda: True)
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
            return _capture_rest(session, dataclasses.replace(rest, item=item, iterations=iterations), body, live, test)
        session.blocks.commit(attempt)
        iterations += 1
    session.site("for", "unrolled", f"{iterations} iterations over a Python {type(rest.iterable).__name__}")
    rests.go_on(session, ())


class _Flat:
    """The body of a loop; what follows an iteration does not stand in a rest of the iteration."""

    def __init__(self, session: Session, body: Any, live: Sequence[str]) -> None:
        self.session, self.body, self.live = session, body, live
        if hasattr(body, "__code__"):
            self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self, item: Any) -> Any:
        return rests.flat(self.session, lambda: self.body(item), self.live, join)


def _going_on(session: Session, test: Callable[[], Any]) -> Callable[[], Any]:
    """Whether a loop goes on: not where an iteration has left an exception for a handler."""

    def again() -> Any:
        going = rests.going(session)
        return capture_if_exp(going, test, lambda: False) if is_symbolic(going) else going and test()

    return again


def _guarded(session: Session, rest: _Rest, body: Any, live: Sequence[str]) -> None:
    """Go on after an iteration that may have left an exception for a handler."""
    test = _going_on(session, lambda: True)
    if isinstance(rest.iterable, range) or type(rest.iterator) is itertools.count:
        item = iterators.step(rest.iterator)
        if item is iterators.END:
            return rests.go_on(session, ())
        rest = _Rest(rest.iterable, rest.iterator, item, rest.iterations + 1, None)
        items, cells = rest.positions(), session.frames.cells_of(body)
        if items is not None and try_loop(session, cells, lambda: _capture_positions(session, items, body, live, test, 0)):
            return session.site("for", "captured", "the loop may be left by an exception")
        capture_iteration = _Iteration(rest.iterator, body, item)
        _iteration(session, test(), capture_iteration, live)
    _check_endless(session, rest)
    _iterations(session, rest, rest.item, body, live, test)


@dataclasses.dataclass
class _Rest:
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
        """The items by position, where they are numbers at equal distances."""
        if isinstance(self.iterable, range):
            return _of_range(self.iterable[self.iterations :])
        if type(self.iterator) is itertools.count:
            first, difference = self.item, next(self.iterator) - self.item
            return RuntimeIterable(lambda: sys.maxsize, lambda k: first + k * difference, "itertools.count")
        return None


def _capture_rest(session: Session, rest: _Rest, body: Any, live: Sequence[str], test: Any) -> None:
    iterators.check_own(session, rest.iterator)
    items = rest.positions()
    cells = session.frames.cells_of(body, test)
    if items is not None and try_loop(session, cells, lambda: _capture_positions(session, items, body, live, test, 0)):
        session.site("for", "captured", "the loop may be left at run time")
        return
    _check_endless(session, rest)
    if iterators.is_written_by_user(rest.iterator):
        rest.iterator = iter(_remaining(session, rest.iterator))
    elif rest.changed is not None and iterators.reads_nothing_of(rest.iterator, rest.changed):
        rest.iterator = iter(iterators.quietly(session, rest.iterator, lambda: _at_most(session, rest.iterator)))
    _skip_iterations(session, rest, body, live, test)


def _skip_iterations(session: Session, rest: _Rest, body: Any, live: Sequence[str], test: Any) -> None:
    """Each iteration takes its item and runs the body, or does neither."""
    if isinstance(rest.iterator, UserGenerator):
        rest.iterator.step_by_step = True
    body(rest.item)
    _iterations(session, rest, rest.item, body, live, test)


def _iterations(session: Session, rest: _Rest, item: Any, body: Any, live: Sequence[str], test: Any) -> None:
    if isinstance(rest.iterator, UserGenerator):
        rest.iterator.step_by_step = True
    iterations = rest.iterations + 1
    while item is not iterators.END:
        if session.lists.of(rest.iterable) is not None:
            return _rest_of_list(session, rest.iterable, body, live, test, iterations)
        going = test()
        iteration = _Iteration(rest.iterator, body)
        if not _iteration(session, going, iteration, live):
            break
        item = iteration.item
        iterations += 1
        if iterations > _UNROLL_LIMIT and not isinstance(rest.iterable, collections.abc.Sized):
            raise _endless(session)
    if isinstance(rest.iterable, collections.abc.Iterator):
        session.iterators.spend(rest.iterable)
    session.site("for", "unrolled", f"{iterations - 1} iterations; each is skipped once the loop has been left")
    rests.go_on(session, ())


def _iteration(session: Session, going: Any, iteration: _Iteration, live: Sequence[str]) -> bool:
    """Record one iteration, where the loop goes on; whether it may."""
    if is_symbolic(going):
        rests.flat(session, lambda: capture_if(going, iteration, _nothing, live), live, join)
    elif going:
        iteration()
    return going is not False


def _check_endless(session: Session, rest: _Rest) -> None:
    if type(rest.iterator) in (itertools.cycle, itertools.repeat) and not operator.length_hint(rest.iterator):
        raise _endless(session)
    iterators.check_pure(session, rest.iterator)


def _rest_of_list(session: Session, items: list[Any], body: Any, live: Sequence[str], test: Any, iterations: int) -> None:
    """Go on over a list that has become a list of the program."""
    known = session.lists.of(items)
    assert known is not None
    session.site("for", "captured", "the list changes its length where a tensor decides")
    _capture_positions(session, lists.iterable(session, known), body, live, test, iterations)


def _remaining(session: Session, iterator: Any) -> list[Any]:
    """The items that an iterator of the user's still has; what it is then is known only at run time."""
    attempt = session.blocks.begin_attempt([])
    items = _at_most(session, iterators.over(iterator))
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


def _at_most(session: Session, iterator: Any) -> list[Any]:
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


class _Iteration:
    """One iteration as a branch, which shares the cells of the body; the item is taken once, however often it is captured."""

    def __init__(self, iterator: Any, body: Any, item: Any = _UNTAKEN) -> None:
        self.iterator, self.body, self.item = iterator, body, item
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self) -> None:
        if self.item is _UNTAKEN:
            self.item = iterators.quietly(need(), self.iterator, lambda: iterators.step(self.iterator))
        if self.item is not iterators.END:
            self.body(self.item)


def _nothing() -> None:
    """The branch of an iteration that is skipped."""


def iterated(value: Any) -> Any:
    """What code that is not a ``for`` statement steps through.

    Raises:
        CaptureError: its length is known only at run time.
    """
    session = current()
    if session is None:
        return value
    runtime = as_runtime(value)
    return over(value) if runtime is None else iter(runtime)
