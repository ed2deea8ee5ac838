"""Functions and methods that a branch makes, and that are used after it: what they hold is given back by the branch.

if t:                           `fn` is the function `inner`, or another one; `y`, which only `inner`
    fn = scaled_by(x * 2)       knows, is an output of the block, and its variable holds that afterwards
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any

from dy2st.capture.session.regions import Outcome
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import options_of
from dy2st.capture.writes.places import AttributePlace, CellPlace, Place, cell_value
from dy2st_runtime.ir.flattening import children

ACTS_FOR_USER = False


def variables(
    session: Session, outcomes: Sequence[Outcome], left: Collection[tuple[Any, ...]], keep: Callable[[Any], None]
) -> Iterator[tuple[Place, Any, bool]]:
    """Yield the places in functions of the branches whose contents only their branch knows.

    An object that a method is of stays itself, wherever else it stands: what is written to it, the method is to see.

    Args:
        session: the capture.
        outcomes: of the two branches, which are closed.
        left: keys of the places that the branches have written, and leave.
        keep: told of the objects that methods are of.

    Returns:
        The place, what it holds, and whether the first branch has made it.
    """
    for outcome in outcomes:
        if outcome.dead:
            continue
        seen = set(left)
        final = [write.new for key, write in outcome.writes.items() if key in seen]
        for place, value in _held(session, outcome, [*final, outcome.value], seen, keep):
            yield place, value, outcome is outcomes[0]


def _held(
    session: Session, outcome: Outcome, values: Sequence[Any], seen: set[Any], keep: Callable[[Any], None]
) -> Iterator[tuple[Place, Any]]:
    waiting, met = [option for value in values for option in options_of(value)], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        places = _places(session, value, outcome.start)
        if places and isinstance(value, MethodType):
            keep(value.__self__)
        for place in places:
            held = outcome.final(place.key, place.read())  # what the branch has written there is undone by now
            if place.key not in seen and not session.tuples.is_known_here(held):
                seen.add(place.key)
                if isinstance(place, CellPlace):  # made in the branch: no state of the blocks around it
                    session.allocations.own(place.cell, since=outcome.start)
                yield place, held
            waiting += options_of(held)
        if not places:
            inside = storage.contents_of(value) if isinstance(value, (dict, list)) else (children(value) or ((),))[0]
            waiting += [option for part in inside for option in options_of(part)]


def _places(session: Session, value: Any, start: int) -> list[Place]:
    """Return the variables of a function that the call has made, or the attributes of the new object that a method is of."""
    if isinstance(value, FunctionType) and session.tracker.source_of(value) is None:
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())
        return [CellPlace(cell, name) for name, cell in cells if cell_value(cell) is not None]
    if isinstance(value, MethodType) and session.allocations.is_since(start, value.__self__):
        owner = value.__self__
        return [AttributePlace(owner, name) for table in storage.tables(owner) for name in table]
    return []
