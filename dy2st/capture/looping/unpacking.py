"""Targets that take a value apart: ``a, (b, *c), d = value``, also where a list in it has a length known only at run time.

The pattern of that target is ``(None, (None, "*"), None)``: a name or other place, a starred one, or a nested pattern.
"""

from __future__ import annotations

from typing import Any

import torch

from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.iterables.generators import is_given
from dy2st.capture.iterables.iterators import over
from dy2st.capture.looping import iteration
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractTable, contents
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion
from dy2st.capture.values.texts import Text

STAR = "*"
Pattern = Any
"""``None``, ``"*"``, a tuple of patterns, or the number of them where all are ``None``."""


class _Rest:
    """What a starred target gets, on its way through Python's own unpacking."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


def expanded(session: Session, value: Any, pattern: Pattern) -> Any:
    """Return a value with lists of the program taken apart where Python will, as the pattern says."""
    pattern = _access_path_of(pattern)
    if not isinstance(pattern, tuple):
        return value
    if isinstance(value, (dict, AbstractTable)):
        value = _keys(session, value)
    if isinstance(value, Columns):
        value = _columns(session, value, pattern)
    value = _taken(session, value, pattern)
    if isinstance(value, torch.Tensor) and value.dim() and not isinstance(value.shape[0], int) and STAR not in pattern:
        value = _rows(session, value, len(pattern))
    known = session.lists.of(contents(value))
    if known is not None:
        value = _parts(session, known, pattern)
    elif type(value) not in (tuple, list) or not any(part not in (None, STAR) for part in pattern):
        return value
    star = pattern.index(STAR) if STAR in pattern else len(pattern)
    after = len(pattern) - star - 1
    results = list(value)
    for position, inner in [*enumerate(pattern[:star]), *((k - after, p) for k, p in enumerate(pattern[star + 1 :]))]:
        if -len(results) <= position < len(results):
            results[position] = expanded(session, results[position], inner)
    return results


def _taken(session: Session, value: Any, pattern: tuple[Any, ...]) -> Any:
    """Return a list of what is to be taken apart, where the program steps through it; anything else as it is."""
    is_kept = is_given(value) or (isinstance(value, Stream) and value.resumes)
    if is_kept and STAR not in pattern:  # Python asks for one item more, to see that there is none
        return session.call(written_out.first_items, value, len(pattern) + 1)
    if is_kept or isinstance(value, (Text, Stream, RuntimeIterable, RuntimeRange, optional.RuntimeView, TaggedUnion)):
        return iteration.collected(value)
    return value


def _access_path_of(pattern: Pattern) -> Pattern:
    return (None,) * pattern if isinstance(pattern, int) else pattern


def _keys(session: Session, table: Any) -> Any:
    """Return the keys of a dict, or what gives them."""
    is_wide = optional.is_wide(session, table) and not (isinstance(table, dict) and has_own(table, "__iter__"))
    return optional.view(table, "keys") if is_wide else over(table)


def _columns(session: Session, columns: Columns, pattern: tuple[Pattern, ...]) -> list[Any]:
    starred = STAR in pattern
    wanted = len(pattern) - starred
    if wanted:
        check(
            session, columns.present, ValueError, f"not enough values to unpack (expected {'at least ' * starred}{wanted}, got 0)"
        )
    return [column() for column in columns.columns]


def _rows(session: Session, tensor: torch.Tensor, wanted: int) -> tuple[torch.Tensor, ...]:
    """Return the rows of a tensor whose number only the program knows, where there are as many as targets."""
    _check_length(session, tensor.shape[0], wanted, starred=False)
    return tensor.narrow(0, 0, wanted).unbind(0)


def _check_length(session: Session, length: Any, wanted: int, *, starred: bool) -> None:
    expected = f"at least {wanted}" if starred else str(wanted)
    few = Text((f"not enough values to unpack (expected {expected}, got ", (length, None, ""), ")"))
    check(session, length >= wanted, ValueError, few)
    if not starred:
        check(session, length <= wanted, ValueError, f"too many values to unpack (expected {wanted})")


def _parts(session: Session, items: RuntimeList, pattern: tuple[Pattern, ...]) -> list[Any]:
    length, starred = lists.length(session, items), STAR in pattern
    wanted = len(pattern) - starred
    _check_length(session, length, wanted, starred=starred)
    if not starred:
        return [lists.get(session, items, position) for position in range(wanted)]
    star = pattern.index(STAR)
    after = wanted - star
    rest = _Rest(lists.get(session, items, slice(star, length - after)))
    return [
        *(lists.get(session, items, position) for position in range(star)),
        rest,
        *(lists.get(session, items, position) for position in range(-after, 0)),
    ]


def rest_of(session: Session | None, items: list[Any]) -> list[Any]:
    """Return the list that a starred target gets: it is made here."""
    if len(items) == 1 and isinstance(items[0], _Rest):
        return items[0].items
    if session is not None:
        session.lists.own(items)
    return items


def taken_apart(session: Session | None, value: Any, pattern: Pattern) -> list[Any]:
    """Return what the names of a pattern get, in their order.

    Raises:
        ValueError: the value has another number of items, in Python's words.
    """
    pattern = _access_path_of(pattern)
    if not isinstance(pattern, tuple):
        return [rest_of(session, value) if pattern == STAR else value]
    parts = list(over(value if session is None else expanded(session, value, pattern)))
    wanted, starred = len(pattern) - (STAR in pattern), STAR in pattern
    if len(parts) < wanted:
        raise ValueError(f"not enough values to unpack (expected {'at least ' * starred}{wanted}, got {len(parts)})")
    if len(parts) > wanted and not starred:
        raise ValueError(f"too many values to unpack (expected {wanted})")
    if starred:
        star = pattern.index(STAR)
        end = len(parts) - (wanted - star)
        parts[star:end] = [parts[star:end]]
    return [name for part, inner in zip(parts, pattern, strict=True) for name in taken_apart(session, part, inner)]
