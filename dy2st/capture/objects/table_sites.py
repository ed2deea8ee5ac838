"""Where the code makes dicts and sets: one that gets a key of which nobody knows more is one of the program from there on.

counts = {}                     the capture begins again, and what is made here is two lists of the program
for v in x.tolist():            (see :mod:`~dy2st.capture.collections.runtime_tables`)
    counts[v] = 1
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any, NoReturn

from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractSet, AbstractTable, example_of
from dy2st.capture.values.signals import NeedsApart, NeedsTable
from dy2st.capture.values.symbolic import options_of

STOOD_IN_FOR = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter, set)
"""The classes of what may be one of the program: a class of the user's has methods that know Python's own."""


def note(session: Session, made: Any) -> None:
    """Note where a dict or set has been made, which is made now."""
    trait = _here(session, made)
    if trait is not None:
        session.allocations.sites[id(made)] = made, (trait,)


def is_wanted(session: Session, made: Any) -> bool:
    """Tell whether what is made here has to be one of the program."""
    return bool(session.traits.apart) and _here(session, made) in session.traits.apart


def require(session: Session, table: Any, error: Exception) -> NoReturn:
    """Have a dict or set be one of the program.

    Args:
        table: the dict, or the set.
        error: what is wrong where that cannot be.

    Raises:
        NeedsApart: the capture has to begin again, for it is made otherwise.
        NeedsTable: the same of one from outside.
        Exception: nobody knows where it is made.
    """
    source = session.tracker.source_of(table)
    has_stand_in = type(example_of(table)) in STOOD_IN_FOR
    if has_stand_in and source is not None and source.name not in session.outside.tables and id(table) not in session.tracker.given:
        raise NeedsTable(source.name, None, error)
    _, traits = session.allocations.sites.get(id(table), (None, ()))
    wanted = next((trait for trait in traits if trait not in session.traits.apart), None)
    if wanted is None:
        raise error
    raise NeedsApart(wanted)


def unite(session: Session, values: Iterable[Any]) -> None:
    """Have dicts and sets be those of the program where one value cannot stand for all of some values otherwise.

    Raises:
        NeedsApart: the capture has to begin again, for one is made otherwise.
    """
    options = [option for value in values for option in options_of(value)]
    has_table = any(isinstance(option, AbstractTable) for option in options)
    for option in options:
        if isinstance(option, AbstractSet) or (has_table and isinstance(option, dict)):
            _, traits = session.allocations.sites.get(id(option), (None, ()))
            for trait in traits:
                if trait not in session.traits.apart:
                    raise NeedsApart(trait)


def _here(session: Session, made: Any) -> str | None:
    location = session.position.locate()
    kind = type(example_of(made)).__name__
    return None if location is None else f"a {kind} of the program: {location.file}:{location.line}"
