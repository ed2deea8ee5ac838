"""What follows an exception that may be on its way to a handler: a block for the way on which there is none.

Such a rest begins where a branch or loop may have left an exception (see departures.py), and stays open while the code after it is
captured: up to the end of the branch, iteration or ``try`` statement that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st.capture.raising import departures
from dy2st.capture.raising.exceptions import records
from dy2st.capture.session.regions import Outcome, Rest
from dy2st.capture.session.session import Session
from dy2st.capture.types import abstract_values
from dy2st.capture.values.signals import NeedsRuntimeList, Unreachable
from dy2st.capture.values.symbolic import Stale, TaggedUnion
from dy2st.capture.writes.places import CellPlace, ContentsPlace, Place
from dy2st.capture.writes.undo_log import Write
from dy2st_runtime.primitives import scalars

Join = Callable[..., Any]


def going(session: Session) -> Any:
    """Tell whether no exception is on its way to a handler: a Python bool, or a symbolic one."""
    left = session.in_flight.left.read()
    if not isinstance(left, TaggedUnion):
        return left is None
    tag = next((tag for tag, option in left.options.items() if option is None), None)
    if tag is None:
        return False
    test = left.tag == tag
    known = session.shapes.known(test)
    return test if known is None else known


def go_on(session: Session, cells: Sequence[Place]) -> None:
    """Capture what comes from now on for the way on which no exception has been left.

    Args:
        cells: variables that may be written.

    Raises:
        Unreachable: there is no such way.
    """
    test = going(session)
    if test is True:
        return
    session.checks.emit()
    session.blocks.open_rest(test, cells)
    session.places.put(session.in_flight.left, None)
    if test is False:
        raise Unreachable


def run(session: Session, depth: int, function: Callable[[], Any]) -> tuple[Any, bool]:
    """Run code after which the rests that it opens are to be closed.

    Args:
        depth: how many blocks were open before it.
        function: the code.

    Returns:
        Its value, ``ABSENT`` where it does not get to its end; and whether it raises there.
    """
    try:
        return function(), False
    except Unreachable:
        if not session.blocks.has_rest(depth):
            raise
        return abstract_values.ABSENT, True
    except BaseException as error:
        if not session.blocks.has_rest(depth) or not records(session, error):
            raise
        return abstract_values.ABSENT, session.in_flight.left.read() is None


def flat(session: Session, iteration: Callable[[], Any], live: Sequence[str], join: Join) -> Any:
    """Run one iteration of a loop and close the rests that it opens; its value, false where an exception has been left."""
    depth = session.blocks.nesting
    value, dead = run(session, depth, iteration)
    return joined(session, depth, value, dead, live, join, False)[0] if session.blocks.has_rest(depth) else value


def joined(
    session: Session,
    depth: int,
    value: Any,
    dead: bool,
    live: Sequence[str] | None,
    join: Join,
    otherwise: Any = abstract_values.ABSENT,
) -> tuple[Any, bool]:
    """Close the rests that have been opened since a number of blocks were open; the value then, and whether there is none."""
    while session.blocks.nesting > depth:
        if isinstance(session.blocks.region, Rest):
            value, dead = _closed(session, session.blocks.region, value, dead, live, join, otherwise), False
        else:  # an attempt that an exception has left open
            session.blocks.commit((session.blocks.region, None))
    return value, dead


def _closed(session: Session, rest: Rest, value: Any, dead: bool, live: Sequence[str] | None, join: Join, otherwise: Any) -> Any:
    if otherwise is False and isinstance(value, torch.Tensor):
        value = session.number(scalars.to_bool, (value,), "bool")
    session.checks.emit()
    writes = session.places.of(rest)
    session.blocks.close(rest)
    if rest.test is False:
        return otherwise
    here = Outcome(rest.start, rest.builder, writes, value, dead)
    if (
        not dead
        and value is not abstract_values.ABSENT
        and _is_empty(session, rest, writes)
        and value is (otherwise is False or None)
    ):
        return rest.test if otherwise is False else value
    _lists(session, here)
    result = join(session, rest.test, [here, _skipped(session, here, otherwise)], live)
    return abstract_values.ABSENT if otherwise is abstract_values.ABSENT and (dead or value is abstract_values.ABSENT) else result


def _is_empty(session: Session, rest: Rest, writes: dict[tuple[Any, ...], Write]) -> bool:
    calls = any(node.op == "call_function" for node in rest.builder.graph.nodes)
    return not calls and writes.keys() <= {session.in_flight.left.key} and session.in_flight.left.read() is not None


def _skipped(session: Session, rest: Outcome, value: Any) -> Outcome:
    """Return the way on which there is an exception: what no handler of it sees may hold anything."""
    with session.blocks.nested(()) as region:
        left = session.in_flight.left.read()
        going_on = next(tag for tag, option in left.options.items() if option is None)
        session.places.put(session.in_flight.left, departures.without(left, going_on))
        writes = session.places.of(region)
        attempts = departures.attempts(left)
        for key, write in rest.writes.items():
            if _is_forgotten(session, write.place, attempts):
                writes[key] = Write(write.place, write.old, abstract_values.ABSENT)
        return Outcome(region.start, region.builder, writes, value, dead=False)


def _is_forgotten(session: Session, place: Place, attempts: Sequence[departures.Attempt]) -> bool:
    if not isinstance(place, CellPlace) or not session.places.is_local(place) or id(place.cell) in session.frames.shared_cells:
        return False
    return not any(attempt.keeps(place) for attempt in attempts)


def _lists(session: Session, rest: Outcome) -> None:
    """Note that lists that a rest has made longer or shorter are lists of the program from here on, and the rest changes these.

    Raises:
        NeedsRuntimeList: one was made in a block around this one.
    """
    for key, write in list(rest.writes.items()):
        if rest.dead or not isinstance(write.place, ContentsPlace) or not isinstance(write.place.owner, list):
            continue
        first = write.new[0] if write.new else None
        runtime = first.runtime if isinstance(first, Stale) else None
        if runtime is None and len(write.new) == len(write.old):
            continue
        items = write.place.owner
        if not session.lists.owner_is_here(items):
            raise NeedsRuntimeList(items)
        session.lists.make(items)
        with session.blocks.recording_into(rest.builder):
            new = write.new if runtime is None else session.lists.copy(runtime)
            session.call(items.clear)
            session.call(items.extend, new)
        del rest.writes[key]
