"""Loops that begin with what an earlier look at the code around them has shown (see loop_histories.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dy2st.capture.containers import grown_lists
from dy2st.capture.looping.carries import Carries, Carry, join_kinds, seen_in
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches
from dy2st.capture.types.loop_histories import (
    LoopHistory,
    Reached,
    after,
    holds_nothing,
    in_terms_of,
    is_the_same_anywhere,
    of_any_size,
)  # fmt: skip
from dy2st.capture.values.symbolic import options_of
from dy2st.capture.writes.places import CellPlace, ContentsPlace, Place

ACTS_FOR_USER = False


def begin(session: Session, carries: Carries, cells: Sequence[Place], history: LoopHistory) -> None:
    """Have a loop carry what it came to carry, and lists be of the program that came to be, where that fits what is there now."""
    if history.keeps_older and not carries.keep_older:
        carries.begin_again()
    for position, name, option in history.lists:
        _make_list(session, _variable(cells, position, name), option)
    for position, name, path in history.grown:
        place = _variable(cells, position, name)
        if place is not None:
            grown_lists.make(session, place.read(), path)
            carries.grown.append((place.key, path))
    for reached in history.reached:
        held_in = _variable(cells, *reached.place) if isinstance(reached.place, tuple) else reached.place
        carry = None if held_in is None else _carry(session, held_in, reached)
        if carry is not None:
            carries[carry.place.key] = carry


def note(session: Session, history: LoopHistory, cells: Sequence[Place], carries: Carries) -> None:
    """Note what a loop has come to carry."""
    history.keeps_older = carries.keep_older
    variables = {place.key: (number, place.name) for number, place in enumerate(cells) if isinstance(place, CellPlace)}
    history.grown = [(*variables[key], path) for key, path in carries.grown if key in variables]
    history.reached = []
    for key, carry in carries.items():
        is_followed = carry.tuples or carry.keeps_older or carry.from_outside is not None or not carry.keeps_parts
        if is_followed or isinstance(carry.place, ContentsPlace):
            continue
        before = lattice.type_of(carry.initial)
        initial, kind = of_any_size(before), in_terms_of(carry.kind, before)
        if is_the_same_anywhere(initial) and holds_nothing(initial) and is_the_same_anywhere(kind):
            made_at = None if key in variables else session.allocations.allocated_at(_owner(carry.place))
            history.reached.append(Reached(variables.get(key, carry.place), made_at, carry.by_identity, initial, kind))


def _owner(place: Place) -> Any:
    return place.cell if isinstance(place, CellPlace) else place.owner


def note_list(history: LoopHistory, cells: Sequence[Place], items: list[Any]) -> None:
    """Note that a list which a variable holds before the loop has to be one of the program."""
    for position, place in enumerate(cells):
        for number, option in enumerate(options_of(place.read()) if isinstance(place, CellPlace) else ()):
            if option is items:
                history.lists.append((position, str(place), number))
                return


def _variable(cells: Sequence[Place], position: int, name: str) -> CellPlace | None:
    place = cells[position] if position < len(cells) else None
    return place if isinstance(place, CellPlace) and place.name == name else None


def _make_list(session: Session, place: CellPlace | None, number: int) -> None:
    options = () if place is None else tuple(options_of(place.read()))
    items = options[number] if number < len(options) else None
    if isinstance(items, list) and session.lists.of(items) is None and session.lists.owner_is_here(items):
        session.lists.make(items)


def _carry(session: Session, place: Place, reached: Reached) -> Carry | None:
    """Return what a variable is carried as, if what it is before the loop is no less than it was."""
    carry = Carry(place, place.read(), reached.kind, reached.by_identity, is_recalled=True)
    carry.initial = seen_in(session, carry, carry.initial)
    try:
        before = lattice.type_of(carry.initial)
        initial, kind = of_any_size(before), after(reached.kind, before)
        if kind is None or not (is_the_same_anywhere(initial) and holds_nothing(initial)):
            return None
        with lattice.telling_apart(session.traits.apart):
            if join_kinds(carry, initial, reached.initial) != initial:
                return None
        carry.kind = join_kinds(carry, before, kind)
    except mismatches.Mismatch:
        return None
    return carry
