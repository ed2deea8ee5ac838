"""What ``try`` and ``with`` statements have in common: the body, and the handlers that are branches after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dy2st.capture.branching.branch import capture_if, join
from dy2st.capture.objects.construction import registered
from dy2st.capture.raising import departures, rests
from dy2st.capture.raising.departures import Attempt, Handler, departure
from dy2st.capture.raising.unwinding import check_handled, matches
from dy2st.capture.session.session import Session, current
from dy2st.capture.types import abstract_values
from dy2st.capture.values.signals import Signal
from dy2st.capture.values.symbolic import TaggedUnion

SIGNALS = (Signal,)
Handlers = Sequence[tuple[Callable[[], Any] | None, Handler]]


def capture_try(body: Any, handlers: Handlers, orelse: Any, live: Sequence[str], caught: Sequence[str]) -> None:
    """Capture a ``try`` statement with handlers.

    Args:
        body: a function without arguments.
        handlers: for each ``except`` clause what gives the kinds that it catches, and what it does.
        orelse: the same for ``else``, or ``None``.
        live: the names that are read afterwards.
        caught: the names that a handler, or what follows it, may see as they were.
    """
    session = current()
    if session is None:
        return _plainly(body, handlers, orelse)
    functions: list[Any] = [function for pair in handlers for function in pair if function is not None]
    cells = session.frames.cells_of(body, *functions, *([] if orelse is None else [orelse]))
    attempt, depth = Attempt(session, handlers, cells, caught), session.blocks.nesting
    try:
        with session.in_flight.around(attempt):
            value, dead = rests.run(session, depth, body)
    except SIGNALS:
        raise
    except BaseException as error:
        check_handled(session, error)
        handler = attempt.handler(error)
        if handler is None:
            raise
        session.blocks.commit_above(depth)
        handler(error)
        return
    if orelse is not None and value is not abstract_values.ABSENT:
        value, dead = rests.run(session, depth, orelse)
    if session.blocks.has_rest(depth):
        rests.joined(session, depth, value, dead, live, join)
        handle(session, attempt, handlers, live)
        rests.go_on(session, cells)


def handle(session: Session, attempt: Attempt, handlers: Handlers, live: Sequence[str]) -> None:
    """Note that where an exception has been left for a ``try`` statement, do what its handler does."""
    left = session.in_flight.left.read()
    if not isinstance(left, TaggedUnion):
        if attempt in departures.attempts(left):
            _enter(session, attempt, left)
        return
    tag = next((tag for tag, option in left.options.items() if attempt in departures.attempts(option)), None)
    if tag is None:
        return

    def then() -> None:
        _enter(session, attempt, left.options[tag])

    def otherwise() -> None:
        session.places.put(session.in_flight.left, departures.without(left, tag))
        handle(session, attempt, handlers, live)

    capture_if(left.tag == tag, then, otherwise, live)


def _enter(session: Session, attempt: Attempt, left: Any) -> None:
    session.places.put(session.in_flight.left, None)
    result = departure(left)
    assert result is not None
    error = registered(session, result.error(left))
    session.in_flight.raised.append(error)
    try:
        raise error
    except BaseException as raised:
        handler = attempt.handler(raised)
        assert handler is not None
        handler(raised)


def _plainly(body: Any, handlers: Handlers, orelse: Any) -> None:
    try:
        body()
    except SIGNALS:
        raise
    except BaseException as error:
        handler = next((handler for kind, handler in handlers if kind is None or matches(error, kind())), None)
        if handler is None:
            raise
        handler(error)
        return
    if orelse is not None:
        orelse()
