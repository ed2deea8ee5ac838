"""Comprehensions and generator expressions: loops that append, add or set items.

[f(x) for x in xs if c]     →   made = []
                                for x in xs:        captured where a tensor decides how many there are
                                    if c:           or whether this one has an element
                                        made.append(f(x))
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dy2st.capture.branching.branch import capture_if
from dy2st.capture.containers.iterables import Stream
from dy2st.capture.iterables.generators import is_given
from dy2st.capture.iterables.iterators import over
from dy2st.capture.iterables.runtime_iterables import as_runtime
from dy2st.capture.iterables.watching import stepped
from dy2st.capture.looping import unpacking, zipped
from dy2st.capture.looping.iteration import capture_for
from dy2st.capture.looping.truth import condition
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values.abstract_objects import representing
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion


@dataclasses.dataclass(frozen=True, eq=False)
class Clause:
    """One ``for`` of a comprehension.

    Attributes:
        iterable: what it loops over.
        pattern: how an item is taken apart; ``None`` for one name that takes the item.
        bound: names outside that the comprehension binds.
        element: gives an element, from the item or its parts; or the next clause.
        conditions: whether an item has an element.
    """

    iterable: Any
    pattern: unpacking.Pattern
    bound: tuple[str, ...]
    element: Callable[..., Any]
    conditions: Sequence[Callable[..., Any]] = ()


def new_list(clause: Clause) -> list[Any]:
    """Return a list comprehension."""
    results: list[Any] = []
    session = current()
    if session is None:
        _each(clause, results.append, ())
    else:
        session.lists.own(results)
        _each(clause, lambda item: session.call(results.append, item), ())
    return results


def mapped(items: Any, function: Callable[[Any], Any]) -> list[Any]:
    """Return ``[function(item) for item in items]``."""
    return new_list(Clause(items, None, (), function))


def fill(value: Any, add: Callable[[Any], Any], clause: Clause) -> None:
    """Put what a comprehension gives into a new dict or set."""
    session = current()
    if session is not None:
        session.allocations.own(value)
    _each(clause, add, ())


def generator(clause: Clause) -> Iterator[Any]:
    """Return a generator expression."""
    session = current()
    if session is None:
        return iter(new_list(clause))  # a generator that leaves the capture unconsumed

    is_alone = session.iterators.is_of_program()
    if is_alone and not clause.conditions and not clause.bound:
        return zipped.mapped(session, types.GeneratorType, lambda item: _element(session, clause, item), clause.iterable)  # type: ignore[no-any-return]
    functions, source = (clause.element, *clause.conditions), source_of(clause.iterable)
    clause = dataclasses.replace(clause, iterable=None)  # a view is not held

    def through(item: Any, then: Callable[[Any], Any], live: Sequence[str], test: Any) -> None:
        _give(item, clause, functions, then, live, test, is_alone)

    result: Stream = representing(Stream, types.GeneratorType)(source, through, clause.bound, resumes=is_alone)
    return session.iterators.note_made(result)  # type: ignore[no-any-return]


def _element(session: Session, clause: Clause, item: Any) -> Any:
    """Return the one element of an item."""
    value = clause.element(*unpacking.taken_apart(session, item, clause.pattern))
    if isinstance(value, Clause):
        raise session.iterators.spent_error()
    return value


def source_of(iterable: Any) -> Any:
    """Return what a stream goes through."""
    if isinstance(iterable, Stream) or is_given(iterable):
        return iterable
    runtime = as_runtime(iterable)
    if runtime is not None:
        return runtime
    if isinstance(iterable, TaggedUnion) and any(isinstance(option, Iterator) for option in iterable.options.values()):
        return iterable  # looking at what they give would take it
    session = current()
    if session is not None and session.iterators.is_of_program():
        return iterable if isinstance(iterable, Iterator) else zipped.positions_of(session, iterable)
    items = over(iterable)
    if isinstance(items, TaggedUnion):  # one has more items than another: a loop goes through each in its branch
        return iterable
    return as_runtime(items) or iter(stepped(items))


def _give(
    item: Any, clause: Clause, functions: Sequence[Callable[..., Any]], then: Callable[[Any], Any], live: Sequence[str],
    test: Any = None, is_alone: bool = False,
) -> None:  # fmt: skip
    """Call ``then`` with the element of an item, or with each that a further clause gives, if the conditions hold.

    Args:
        test: whether there is to be a further element; ``None`` if all are wanted.
        is_alone: whether an item may have no more than one element.

    Raises:
        CaptureError: an item has more than it may have.
    """
    parts = tuple(unpacking.taken_apart(current(), item, clause.pattern))
    live, element = (*live, *clause.bound), functions[0]

    def give() -> None:
        value = element(*parts)
        if isinstance(value, Clause) and is_alone:
            raise need().iterators.spent_error()
        if isinstance(value, Clause):
            _each(value, then, live, test)
        else:
            then(value)

    when(functions[1:], parts, give, live)


def _each(clause: Clause, then: Callable[[Any], Any], live: Sequence[str], test: Any = None) -> None:
    live = (*live, *clause.bound)
    functions = (clause.element, *clause.conditions)  # so that their variables are found in the closure of the iteration

    def iteration(item: Any) -> None:
        _give(item, clause, functions, then, live, test)

    if current() is not None:
        return capture_for(clause.iterable, iteration, live, test)
    for item in clause.iterable:
        iteration(item)
    return None


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


def _nothing() -> None:
    """Do what there is to do for an item without an element."""
