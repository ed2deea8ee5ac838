"""What an iteration leaves of objects that were there before the loop: where that is unclear, it keeps them as objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dy2st.capture.looping.carries import Carries
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.symbolic import TaggedUnion, is_out_of_date, options_of
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.ir.flattening import children

ACTS_FOR_USER = False


def holds_out_of_date(value: Any) -> bool:
    """Tell whether an iteration leaves an object that may be another one, which it has changed."""
    return any(is_out_of_date(part) for option in options_of(value) for part in (option, *(children(option) or ((),))[0]))


def moves_outside(carries: Carries) -> bool:
    """Tell whether an iteration leaves an object from outside, of which a place holds an abstract value, in another place than
    that.
    """
    held = [(carry, part) for carry in carries.values() if carry.from_outside is not None for part in options_of(carry.start)]
    starts = {id(part): carry for carry, part in held if is_mutable(part)}
    if not starts:
        return False
    waiting = [(carry, option) for carry in carries.values() for option in options_of(carry.final)]
    waiting = [(carry, option) for carry, option in waiting if starts.get(id(option)) is not carry]
    while waiting:
        carry, value = waiting.pop()
        if id(value) in starts:
            return True
        parts = value.options.values() if isinstance(value, TaggedUnion) else (children(value) or ((),))[0]
        waiting += [(carry, part) for part in parts]
    return False


def moves_older(session: Session, carries: Carries) -> bool:
    """Tell whether an iteration may leave a container that is older than the loop in another place than it was before, where it
    may leave a new one too.
    """
    start = session.blocks.region.start
    for carry in carries.values():
        if carry.by_identity or carry.keeps_older or isinstance(carry.place, ContentsPlace):
            continue
        before = options_of(carry.initial)
        moved = (option for option in options_of(carry.final) if is_mutable(option) and session.ownership.is_older(option, start))
        if any(not any(option is known for known in before) for option in moved):
            return True
    return False


def leaves_unclear(carries: Carries, unclear: Sequence[Any]) -> bool:
    """Tell whether an iteration leaves one object in several places, in one of which nobody can tell it from what was there
    before.
    """
    ids = {id(option) for option in unclear}
    left = [id(option) for carry in carries.values() for option in options_of(carry.final)] if ids else []
    return any(left.count(option) > 1 for option in ids)
