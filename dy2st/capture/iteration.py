"""``for`` loops, and iterables whose length is known only at run time.

A Python iterable is unrolled, as Python would step through it. A range, tensor or list whose length a tensor decides becomes a
loop of the program: position ``k`` runs from 0, the item is looked up by position.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import CellType
from typing import Any

import torch

from dy2st import errors
from dy2st.capture import lists, optional
from dy2st.capture.branch import capture_if, capture_if_exp
from dy2st.capture.iterables import RuntimeIterable, Stream
from dy2st.capture.journal import CellPlace
from dy2st.capture.loop import capture_loop
from dy2st.capture.session import Session, current, need
from dy2st.capture.truth import condition
from dy2st.capture.values import SYMBOLIC_NUMBERS, Choice, is_symbolic
from dy2st_runtime import scalars

_UNROLL_LIMIT = 4096
"""How many items are taken from an iterator, which may be endless, to be skipped once its loop has been left."""

_POSITION = "<position>"


def range_(*bounds: Any) -> Any:
    """``range`` of numbers of which some are known only at run time."""
    session = need()
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    start, stop, step = (session.to_number(bound) for bound in (start, stop, step))
    if not any(isinstance(bound, SYMBOLIC_NUMBERS) for bound in (start, stop, step)):
        return range(start, stop, step)
    length = session.number(scalars.range_length, (start, stop, step), "int")
    session.shapes.constrain_size(length)
    return RuntimeIterable(lambda: length, lambda k: start + k * step, "a range")


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``."""
    items = by_position(need(), iterable) if isinstance(iterable, Stream) else as_runtime(iterable)
    if items is None:
        return (
            enumerate(over(iterable), start) if not is_symbolic(start) else ((start + k, x) for k, x in enumerate(over(iterable)))
        )
    return RuntimeIterable(items.length, lambda k: (start + k, items.at(k)), f"enumerate of {items.what}")


def zip_(*iterables: Any, strict: bool = False) -> Any:
    """``zip``; as long as the shortest."""
    parts = [by_position(need(), part) if isinstance(part, Stream) else as_runtime(part) for part in iterables]
    if not any(part is not None for part in parts):
        return zip(*(over(iterable) for iterable in iterables), strict=strict)
    session = need()
    made = [part or by_position(session, given) for part, given in zip(parts, iterables)]
    if strict:
        first, *others = (part.length() for part in made)
        for other in others:
            session.check(first == other, ValueError, "zip() arguments have different lengths")

    def length() -> Any:
        return session.number(scalars.minimum, [part.length() for part in made], "int")

    return RuntimeIterable(length, lambda k: tuple(part.at(k) for part in made), "zip")


def reversed_(iterable: Any) -> Any:
    """``reversed``."""
    items = as_runtime(iterable)
    if items is None:
        return reversed(iterable) if not isinstance(iterable, torch.Tensor) else reversed(iterable.unbind(0))
    return RuntimeIterable(items.length, lambda k: items.at(items.length() - 1 - k), f"reversed {items.what}")


def as_runtime(iterable: Any) -> RuntimeIterable | None:
    """The iterable as one whose length is known only at run time; ``None`` if Python knows it."""
    session = need()
    if isinstance(iterable, RuntimeIterable):
        return iterable
    known = session.runtime_list(iterable)
    if known is not None:
        return lists.iterable(session, known)
    if isinstance(iterable, torch.Tensor) and iterable.dim() and not isinstance(iterable.shape[0], int):
        rows = lists.unbind(session, iterable)
        return lists.iterable(session, rows)
    return None


def over(iterable: Any) -> Any:
    """What Python iterates over: a tensor by its rows."""
    session = current()
    if session is not None:
        session.check_unspent(iterable)
        if isinstance(iterable, Choice):  # what is in either, now
            iterable = session.over(iterable, tuple)
    return iterable.unbind(0) if isinstance(iterable, torch.Tensor) and iterable.dim() else iterable


def by_position(session: Session, iterable: Any) -> RuntimeIterable:
    """Any iterable as one whose items are looked up by a position known only at run time."""
    runtime = as_runtime(iterable)
    if runtime is not None:
        return runtime
    if isinstance(iterable, range):
        return RuntimeIterable(lambda: len(iterable), lambda k: iterable.start + k * iterable.step, "a range")
    items = collected(iterable)
    return lists.iterable(session, session.runtime_list(items) or session.make_runtime_list(items))


def collected(iterable: Any) -> list[Any]:
    """A new list of the items: of Python, or if their number is known only at run time, of the program."""
    session = need()
    known = session.runtime_list(iterable)
    if known is not None:
        return lists.copy(session, known)  # type: ignore[no-any-return]
    if not isinstance(iterable, (RuntimeIterable, Stream)) and as_runtime(iterable) is None:
        made = list(over(iterable))
        session.own_list(made)
        return made
    made = []
    session.own_list(made)
    capture_for(iterable, lambda item: session.call(made.append, item), (), None)
    return made


def capture_for(iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """A ``for`` statement.

    Args:
        iterable: what it loops over.
        body: a function of the item.
        live: the names that are read after a trip or after the loop.
        test: ``None``, or whether the loop goes on, asked before each step (false after a ``break``).
    """
    session = need()
    if isinstance(iterable, Stream):
        through = iterable.through
        capture_for(iterable.consume(), lambda item: through(item, body, live), live, test)
        return
    if isinstance(iterable, Choice):
        return session.over(iterable, lambda option: capture_for(option, body, live, test))  # type: ignore[no-any-return]
    if optional.has_optional(iterable):
        return optional.settled(session, iterable, lambda table: capture_for(table, body, live, test))  # type: ignore[no-any-return]
    items = as_runtime(iterable)
    if items is not None:
        session.site("for", "captured", f"the length of {items.what} is known only at run time")
        _capture_positions(session, items, body, live, test, 0)
    elif test is None:
        trips = 0
        for trips, item in enumerate(over(iterable), 1):  # noqa: B007
            body(item)
        session.site("for", "unrolled", f"{trips} trips over a Python {type(iterable).__name__}")
    else:
        _unroll(session, over(iterable), body, live, test)


def _capture_positions(session: Session, items: RuntimeIterable, body: Any, live: Sequence[str], test: Any, start: int) -> None:
    position = CellType(start)
    session.own(position)
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

    def trip() -> None:
        k = position.cell_contents
        item = items.at(k)
        position.cell_contents = k + 1
        body(item)

    cells = [*session.cells_of(body, *([test] if test is not None else [])), place]
    capture_loop(session, again(), again, trip, cells, [*live, _POSITION])


def _unroll(session: Session, iterable: Any, body: Any, live: Sequence[str], test: Any) -> None:
    """Step through a Python iterable; once the test is known only at run time, capture what is left."""
    iterator = iter(iterable)
    cells = session.cells_of(body, test)
    for trips in itertools.count():
        if not test():
            break
        item = next(iterator, _END)
        if item is _END:
            break
        attempt = session.begin_attempt(cells)
        body(item)
        if is_symbolic(test()):
            session.roll_back(attempt)
            _capture_rest(session, iterable, iterator, item, trips, body, live, test)
            return
        session.commit(attempt)
    session.site("for", "unrolled", f"{trips} trips over a Python {type(iterable).__name__}")


_END = object()


def _capture_rest(
    session: Session, iterable: Any, iterator: Any, item: Any, trips: int, body: Any, live: Sequence[str], test: Any
) -> None:
    if isinstance(iterable, range) and _try_range(session, iterable[trips:], body, live, test):
        return
    rest = [item, *itertools.islice(iterator, _UNROLL_LIMIT)]
    if iterator is not iterable:
        rest += iterator
    else:
        session.spend(iterable)
        if len(rest) > _UNROLL_LIMIT:
            raise errors.CaptureError(
                "this loop over an endless iterator is left at a trip that is known only at run time",
                session.here(),
                fix="write a while loop",
            )
    session.site("for", "unrolled", f"{trips + len(rest)} trips; each is skipped once the loop has been left")
    for item in rest:
        going = test()
        if not is_symbolic(going):
            if not going:
                return
            body(item)
        else:
            capture_if(going, _Trip(body, item), _nothing, live)


def _try_range(session: Session, rest: range, body: Any, live: Sequence[str], test: Any) -> bool:
    attempt = session.begin_attempt(session.cells_of(body, test))
    try:
        _capture_positions(session, by_position(session, rest), body, live, test, 0)
    except (errors.CaptureError, TypeError):
        session.roll_back(attempt)
        return False
    session.commit(attempt)
    session.site("for", "captured", "the loop may be left at run time")
    return True


class _Trip:
    """One trip as a branch: shares the cells of the body."""

    def __init__(self, body: Any, item: Any) -> None:
        self.body, self.item = body, item
        self.__code__, self.__closure__ = body.__code__, body.__closure__

    def __call__(self) -> None:
        self.body(self.item)


def _nothing() -> None:
    """The branch of a trip that is skipped."""


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


def list_comprehension(
    iterable: Any, spread: int | None, element: Callable[..., Any], conditions: Sequence[Callable[..., Any]]
) -> list[Any]:
    """A list comprehension: a loop that appends.

    Args:
        iterable: what it loops over.
        spread: the number of names that an item is unpacked to; ``None`` for one name that takes the item.
        element: gives an element of the list, from the item or its parts.
        conditions: whether an item has an element.
    """
    made: list[Any] = []
    session = current()
    append = made.append if session is None else lambda item: session.call(made.append, item)
    fill(made, append, iterable, spread, element, conditions)
    return made


def fill(
    made: Any, add: Callable[[Any], Any], iterable: Any, spread: int | None, element: Callable[..., Any],
    conditions: Sequence[Callable[..., Any]],
) -> None:  # fmt: skip
    """Put what a comprehension gives into a new container; see :func:`list_comprehension`."""
    session = current()
    if isinstance(made, list) and session is not None:
        session.own_list(made)
    elif session is not None:
        session.own(made)
        if as_runtime(iterable) is not None:
            raise errors.CaptureError(
                f"a {type(made).__name__} of a size that is known only at run time",
                session.here(),
                fix="keep the items in a list; torch.unique gives distinct numbers",
            )
    _each(iterable, spread, element, conditions, add, ())


@dataclasses.dataclass(frozen=True, eq=False)
class Clause:
    """A further ``for`` of a comprehension: what stands for the element of the one before."""

    iterable: Any
    spread: int | None
    element: Callable[..., Any]
    conditions: Sequence[Callable[..., Any]]


def generator(
    iterable: Any, spread: int | None, element: Callable[..., Any], conditions: Sequence[Callable[..., Any]]
) -> Iterator[Any]:
    """A generator expression; the arguments are those of a list comprehension."""
    if current() is None:
        return iter(list_comprehension(iterable, spread, element, conditions))  # a generator that leaves the capture unconsumed

    def through(item: Any, then: Callable[[Any], Any], live: Sequence[str]) -> None:
        _give(item, spread, element, conditions, then, live)

    return Stream(source_of(iterable), through)


def source_of(iterable: Any) -> Any:
    """What a stream goes through."""
    if isinstance(iterable, Stream):
        return iterable
    return as_runtime(iterable) or iter(over(iterable))


def _give(
    item: Any, spread: int | None, element: Callable[..., Any], conditions: Sequence[Callable[..., Any]],
    then: Callable[[Any], Any], live: Sequence[str],
) -> None:  # fmt: skip
    """Call ``then`` with the element of an item, or with each that a further clause gives, if the conditions hold."""
    parts = _parts(item, spread)

    def give() -> None:
        value = element(*parts)
        if isinstance(value, Clause):
            _each(value.iterable, value.spread, value.element, value.conditions, then, live)
        else:
            then(value)

    when(conditions, parts, give, live)


def _each(
    iterable: Any, spread: int | None, element: Callable[..., Any], conditions: Sequence[Callable[..., Any]],
    then: Callable[[Any], Any], live: Sequence[str],
) -> None:  # fmt: skip
    if current() is None:
        for item in iterable:
            _give(item, spread, element, conditions, then, live)
    else:
        capture_for(iterable, lambda item: _give(item, spread, element, conditions, then, live), live, None)


def _parts(item: Any, spread: int | None) -> tuple[Any, ...]:
    if spread is None:
        return (item,)
    parts = tuple(over(item))
    if len(parts) != spread:
        few = len(parts) < spread
        raise ValueError(
            f"not enough values to unpack (expected {spread}, got {len(parts)})"
            if few
            else f"too many values to unpack (expected {spread})"
        )
    return parts


def when(conditions: Sequence[Callable[..., Any]], parts: tuple[Any, ...], do: Callable[[], Any], live: Sequence[str]) -> None:
    """Do something if conditions hold; each is asked only if those before it hold."""
    if not conditions:
        do()
        return
    test = condition(conditions[0](*parts))
    if is_symbolic(test):
        capture_if(test, lambda: when(conditions[1:], parts, do, live), _nothing, live)
    elif test:
        when(conditions[1:], parts, do, live)
