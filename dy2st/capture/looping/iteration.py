"""``for`` loops, and iterables whose length is known only at run time.

A Python iterable is unrolled, as Python would step through it. A range, tensor or list whose length a tensor decides becomes a
loop of the program: position ``k`` runs from 0, the item is looked up by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import config
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if
from dy2st.capture.containers import lists, ranges
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.iterables import iterators
from dy2st.capture.iterables.generators import UserGenerator, is_given
from dy2st.capture.iterables.iterators import over
from dy2st.capture.iterables.runtime_iterables import as_runtime, of_range
from dy2st.capture.iterables.watching import LoopedView, Watched, is_watchable, of_program, watched
from dy2st.capture.looping.loop import try_loop
from dy2st.capture.looping.positions import capture_positions, nothing
from dy2st.capture.looping.truth import logical_not
from dy2st.capture.looping.unrolled import Flat, Rest, capture_rest, going_on, guarded, over_steps, rest_of_list
from dy2st.capture.raising import rests
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values import dict_views
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion
from dy2st.capture.writes.places import CellPlace

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
    return is_given(iterable) or isinstance(iterable, (Stream, optional.RuntimeView)) or as_runtime(iterable) is not None


def capture_for(iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """Capture a ``for`` statement.

    Args:
        iterable: what it loops over.
        body: a function of the item.
        live: the names that are read after an iteration or after the loop.
        test: ``None``, or whether the loop goes on, asked before each step but the first (false after a ``break``).
    """
    session = need()
    if is_given(iterable):
        return _over_given(session, iterable, body, live, test)
    iterable, body = watched(session, iterable, body)
    iterable = contents(iterable)
    if isinstance(iterable, Stream):
        iterators.take(session, iterable)
        session.frames.cells_of(*(function for function in (body, test) if hasattr(function, "__code__")))  # that are made here
        through, live = iterable.through, (*live, *iterable.bound)
        capture_for(iterable.consume(), lambda item: through(item, body, live, test), live, test)
        return
    if isinstance(iterable, Columns):
        return _over_columns(iterable, body, live, test)
    iterable = optional.now(session, iterable)
    if isinstance(iterable, TaggedUnion):
        return _over_each(session, iterable, body, live, test)
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


def _over_given(session: Session, generator: UserGenerator, body: Any, live: Sequence[str], test: Any) -> None:
    """Go over what a generator gives: its code runs, with the body of the loop in it."""
    places = session.frames.cells_of(*(function for function in (body, test) if hasattr(function, "__code__")))
    cells = {id(place.cell) for place in places if isinstance(place, CellPlace) and place.name in live}
    shared = session.frames.shared_cells
    added = cells - shared  # the code of the generator knows no names of the code around the loop
    shared |= added
    session.site("for", "captured", "a tensor decides what a generator gives")

    frame = session.frames.open[-1]

    def take(item: Any) -> Any:
        with session.frames.resumed(frame):
            body(item)
            return False if test is None else logical_not(test())

    try:
        generator.give_to(take)
    finally:
        shared -= added
    if test is not None:
        session.iterators.spend(generator)  # it may have been left at any item


def _over_each(session: Session, union: TaggedUnion, body: Any, live: Sequence[str], test: Any) -> None:
    """Go over one of several: a branch may be looked at more than once, so that an iterator is not stepped through itself."""
    copies = {id(option): iterators.copied(option) for option in union.options.values()}

    def each(option: Any) -> None:
        shown = dict_views.of_one(session.places.views, option)
        if shown is not None:  # of the dict itself, also where a copy of it shows what there is on one way
            return capture_for(LoopedView(optional.original(session, shown[0]), shown[1]), body, live, test)
        copy = copies[id(option)] and iterators.copied(option)
        return capture_for(option if copy is None else copy, body, live, test)

    session.over(union, each)
    for option in union.options.values():
        if copies[id(option)] is not None:
            session.iterators.spend(option)


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
        is_watched = is_watchable(iterable, body) and isinstance(table, (dict, set))
        _unroll(session, table, body, live, test, iterable) if is_watched else capture_for(table, body, live, test)

    return again


def _unroll(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any, whole: Any = None) -> None:
    """Step through a Python iterable; once the test is known only at run time, capture what is left.

    ``whole`` is what the iterable is a copy of, in one of the ways in which it may be.
    """
    is_watched = whole is not None or is_watchable(iterable, body)
    steps = Watched(session, iterable, iterable if whole is None else whole, body) if is_watched else None
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
    if is_given(value):
        value = collected(value)
    runtime = as_runtime(value)
    if runtime is None:
        items = over(value)
        is_kept = session.iterators.running and id(items) in session.iterators.made
        return iterators.steps(items) if is_kept else items  # the code of a generator takes each step where somebody asks for it
    session.iterators.ask_running_to_give()
    return iter(runtime)
