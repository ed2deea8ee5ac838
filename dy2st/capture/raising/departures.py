"""Exceptions on their way out of a block of the program, to a handler of the user's around the block.

A branch that raises what a ``try`` statement around it catches leaves behind which exception it was, in a variable of the capture:
nothing, or one of several departures. What follows runs where there is none (see rests.py), and the handler where there is one.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st.capture.raising.unwinding import Handlers, matches, refused
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.values.symbolic import Stale, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.call.tracebacks import steps
from dy2st_runtime.primitives.raising import Recipe

Handler = Callable[[BaseException], None]


class Attempt(Handlers):
    """The body of one ``try`` statement, whose handlers are functions.

    Args:
        session: the capture.
        handlers: for each ``except`` clause what gives the kinds that it catches, and what it does.
        cells: the variables that the statement shares with the code around it.
        caught: the names of those that a handler, or what follows it, may see as they were.
    """

    def __init__(
        self, session: Session, handlers: Sequence[tuple[Callable[[], Any] | None, Handler]], cells: Sequence[Place],
        caught: Sequence[str],
    ) -> None:  # fmt: skip
        super().__init__(lambda: tuple(kind and kind() for kind, _ in handlers))
        self.handlers, self.cells = handlers, cells
        self._forgotten = {id(place.cell) for place in cells if isinstance(place, CellPlace) and place.name not in caught}
        self._allocated_at, self._start = session.allocations.allocated_at, session.allocations.now()
        self.depth = session.blocks.nesting
        self._grad, self._autocasts = torch.is_grad_enabled(), len(session.open_autocasts)

    def keeps(self, place: CellPlace) -> bool:
        """Tell whether a variable is what it was when the exception was raised, for a handler or what follows."""
        allocated = self._allocated_at(place.cell)
        is_outside = allocated is None or allocated < self._start  # and no variable of a function that was called
        return is_outside and id(place.cell) not in self._forgotten

    def unwind(self, session: Session, error: BaseException) -> Attempt | None:  # type: ignore[override]
        """Return an exception ends in it, or passes."""
        return self if self.catches(error) else None

    def handler(self, error: BaseException) -> Handler | None:
        """Return the one that is for an exception."""
        return next((handler for kind, handler in self.handlers if kind is None or matches(error, kind())), None)

    def restore_modes(self, session: Session, error: BaseException) -> None:
        """Record that modes which a block around the exception has switched are as they were here.

        Raises:
            Refused: they are of a kind that the program cannot leave there.
        """
        if len(session.open_autocasts) != self._autocasts:
            raise refused(session, error, "an except clause, past torch.autocast,")
        if torch.is_grad_enabled() is not self._grad:
            session.builder.call(torch._C._set_grad_enabled, (self._grad,))


class Departure:
    """One exception that is on its way to the handlers of one ``try`` statement; the same for all ways to one ``raise``.

    Attributes:
        attempt: the statement.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._error: BaseException | None = None
        self._recipe: Recipe | None = None
        self._kind: Any = None

    def left(self, error: BaseException, recipe: Recipe, values: Sequence[Any]) -> Any:
        """Return what the program passes along: the values that the exception is made of, if there are any."""
        self._error, self._recipe = error.with_traceback(None), recipe
        if not values:
            return self
        if self._kind is None:
            self._kind = _kind_of(self, len(values))
        return self._kind(*values)

    def error(self, given: Any) -> BaseException:
        """Return the exception, from what the program has passed along."""
        assert self._error is not None and self._recipe is not None
        return self._error if given is self else self._recipe(*given)


def _kind_of(departure: Departure, count: int) -> Any:
    """Return a class of tuples of its own: the values of one departure are joined with those of the same."""
    names = [f"value_{n}" for n in range(count)]
    return type("Left", (collections.namedtuple("Left", names),), {"departure": departure, "__slots__": ()})


def _is_alone(error: BaseException) -> bool:
    """Tell whether an exception has no other by it: which ones it has differs from way to way."""
    return error.__cause__ is None and error.__context__ is None and not error.__suppress_context__


def leave(session: Session, attempt: Attempt, error: BaseException, recipe: Recipe, values: Sequence[Any]) -> None:
    """Note that an exception leaves the block that is recorded now for the handlers of a ``try`` statement."""
    attempt.restore_modes(session, error)
    if recipe.itself is not None or (_is_alone(error) and session.blocks.is_older(error, attempt.depth)):
        known = session.in_flight.departures.setdefault((id(attempt), id(error)), Departure(attempt))
        session.places.put(session.in_flight.left, known.left(error, recipe, ()))  # it is there where the handler is
        return
    known = session.in_flight.departures.setdefault(_key(attempt, error, recipe), Departure(attempt))
    session.places.put(session.in_flight.left, known.left(error, recipe, [_passed(session, value) for value in values]))


def departure(option: Any) -> Departure | None:
    """Return the departure that an option of what was left stands for."""
    return option if option is None or isinstance(option, Departure) else option.departure


def attempts(left: Any) -> list[Attempt]:
    """Return the statements to whose handlers an exception may be on its way."""
    options = left.options.values() if isinstance(left, TaggedUnion) else (left,)
    results = [results.attempt for option in options if (results := departure(option)) is not None]
    return list(dict.fromkeys(results))


def without(left: TaggedUnion, tag: int) -> Any:
    """Return what may have been left where it is not one of the options."""
    rest = {other: option for other, option in left.options.items() if other != tag}
    return next(iter(rest.values())) if len(rest) == 1 else TaggedUnion(left.session, left.tag, rest)


def _passed(session: Session, value: Any) -> Any:
    return Text.of(text.as_runtime_string(session, value)) if isinstance(value, Text) else value


def _key(attempt: Attempt, error: BaseException, recipe: Recipe) -> tuple[Any, ...]:
    """Return what is the same each time that one ``raise`` is captured."""
    way = tuple((step.tb_frame.f_code, step.tb_lasti) for step in steps(error))
    return id(attempt), way, _key_of(recipe)


def _key_of(recipe: Recipe) -> tuple[Any, ...]:
    """Return what is the same for exceptions that the same values make alike."""
    args = tuple(map(_key_of_value, recipe.args))
    fixed = tuple((name, _key_of_value(value)) for name, value in recipe.fixed.items())
    links = tuple((name, _key_of(link)) for name, link in recipe.links)
    about = tuple((name, id(value)) for name, value in recipe.about.items() if not isinstance(value, Stale))
    return recipe.kind, recipe.takes, args, recipe.names, fixed, about, links, recipe.shares, recipe.suppress, id(recipe.itself)


def _key_of_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_key_of_value, value))
    return (type(value), value) if isinstance(value, _PLAIN) else id(value)


_PLAIN = (str, int, float, bytes, type, types.NoneType)
