"""Dicts and sets as the code makes them: of Python, or of the program where keys are put in that only that knows."""

from __future__ import annotations

import collections
import operator
from collections.abc import Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import elements, keys
from dy2st.capture.branching.assertions import check
from dy2st.capture.collections import runtime_counters, runtime_sets, runtime_tables
from dy2st.capture.containers import lists, outside_tables
from dy2st.capture.objects import construction, table_sites
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, need
from dy2st.capture.types import value_types
from dy2st.capture.values.abstract_objects import AbstractSet, AbstractTable, example_of
from dy2st.capture.values.kinds import is_number, is_symbolic
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.structure import TupleOf
from dy2st_runtime.primitives import control

_STAND_INS = (
    runtime_tables.RuntimeDict, runtime_tables.RuntimeOrderedDict, runtime_tables.RuntimeDefaultDict,
    runtime_counters.RuntimeCounter, runtime_sets.RuntimeSet,
)  # fmt: skip
_KINDS: dict[type, type[AbstractTable]] = dict(zip(table_sites.STOOD_IN_FOR, _STAND_INS))


def followed(session: Session, made: Any) -> Any:
    """Return a dict or set that has just been made, or what stands for it where it has to be one of the program."""
    kind = _KINDS.get(type(example_of(made)))
    if kind is None or not table_sites.is_wanted(session, made):
        table_sites.note(session, made)
        return made
    result = empty(session, kind)
    if isinstance(made, collections.defaultdict):
        result.default_factory = made.default_factory
    if isinstance(made, AbstractSet):
        for member in made.table:
            session.call(result.add, member)
    else:
        for key, value in made.items():
            session.call(result.__setitem__, key, value)
    return result


def constructed(session: Session, kind: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return a dict or set of the program that a call of a class makes; ``None`` for any other."""
    wanted = _KINDS.get(kind) if isinstance(kind, type) else None
    given = any(isinstance(value, AbstractTable) for value in args)
    if wanted is None or not (given or table_sites.is_wanted(session, kind())):
        return None
    result = empty(session, wanted)
    if kind is collections.defaultdict:
        result.default_factory, args = (args[0], args[1:]) if args else (None, ())
    if len(args) > 1:
        raise raised(TypeError(f"{kind.__name__} expected at most 1 argument, got {len(args)}"))
    if args or kwargs:
        session.call(result.update, *args, **kwargs)
    return result


def empty(session: Session, kind: type[AbstractTable]) -> Any:
    """Return a new table of the program."""
    session.traits.has_tables = True
    result: Any = kind.__new__(kind)
    for name in ("_dy2st_keys",) if kind is runtime_sets.RuntimeSet else ("_dy2st_keys", "_dy2st_values"):
        items: list[Any] = []
        session.lists.own(items)
        session.lists.make(items)
        setattr(result, name, items)
    return construction.registered(session, result)


def of_outside(value: Any) -> AbstractTable:
    """Return what stands for a dict or set that was there before the capture."""
    kind: Any = _KINDS[type(value)]
    session, result = need(), kind.__new__(kind)
    session.traits.has_tables = True
    outside_tables.take(session, result, value)
    if isinstance(value, collections.defaultdict):
        result.default_factory = value.default_factory
    session.allocations.followed[id(result)] = result
    session.tracker.met(kind)
    return result  # type: ignore[no-any-return]


def find(session: Session, known: list[Any], key: Any) -> Any:
    """Return the position of a key among the keys of a table; -1 if it is not there."""
    if keys.has_union(key):
        return keys.over_unions(session, key, lambda one: find(session, known, one))
    _check_hashable(key)
    items = session.lists.required(known)
    normalized = elements.normalized(session, key)
    kind = elements.type_of(session, normalized)
    if not _is_found(kind):
        raise _refused(session, key)
    _check_numbers(session, key)
    if items.element is None and items.alone:
        return -1
    return _find(session, items, elements.item_node(session, key, normalized))


def under(session: Session, values: list[Any], position: Any) -> Any:
    """Return what is under a key; where this name has put nothing into the dict, the program checks that nothing is there."""
    known = session.lists.of(values)
    if known is None or known.element is not None or known.alone:
        return session.call(operator.getitem, values, position)
    unknown = "something was put into a dict by another name for it, of which nothing was known at the capture"
    check(session, lists.length(session, known) == 0, errors.TableError, unknown)
    lists.raise_empty(session, "list index out of range")


def _find(session: Session, items: RuntimeList, key: Any) -> Any:
    result = session.new_value(value_types.NumberType("int"))
    session.builder.bind(result, session.builder.call_raw(control.list_find, (session.builder.argument(items), key)))
    return result


def _check_hashable(key: Any) -> None:
    """Raise what Python raises for a key that has no hash."""
    if isinstance(key, (list, dict, set)):
        try:
            hash(key)
        except TypeError as error:
            raise raised(TypeError(*error.args)) from None


def _check_numbers(session: Session, key: Any) -> None:
    """Check numbers in a key: one that is none is found by its identity, which the program has not."""
    for part in tuple.__iter__(key) if isinstance(key, tuple) else (key,):
        if isinstance(part, tuple):
            _check_numbers(session, part)
        elif isinstance(part, (float, torch.SymFloat)):
            message = "a NaN is a key of a dict or a member of a set, which find it by its identity"
            holds = part == part
            if is_symbolic(holds):
                check(session, holds, errors.TableError, message)
            elif not holds:
                raise errors.CaptureError(message, session.here(), fix="replace it before: x.nan_to_num()")


def _is_found(kind: value_types.Type) -> bool:
    """Tell whether the program finds keys of a type by their value."""
    match kind:
        case value_types.NumberType() | value_types.StringType():
            return True
        case value_types.SameType(value):
            return value is None or type(value) in (str, bytes) or is_number(value)
        case value_types.ContainerType(TupleOf(_, None), items):
            return all(map(_is_found, items))
        case value_types.TaggedUnionType(options):
            return all(map(_is_found, options))
    return False


def _refused(session: Session, key: Any) -> errors.CaptureError:
    kind = "tensor" if isinstance(key, torch.Tensor) else type(example_of(key)).__name__
    return errors.CaptureError(
        f"a {kind} is the key of a dict, or a member of a set, of which only the program knows the keys",
        session.here(),
        fix="use numbers, texts and tuples of them: x.item() is the number in a tensor",
    )


def check_unknown(session: Session, function: Any, *values: Any) -> None:
    """Check what a function gets that is called as it is: it knows no dict or set of which only the program knows the keys.

    Raises:
        CaptureError: it gets one.
    """
    table = _table_in(values, 0) if session.traits.has_tables else None
    if table is not None:
        raise errors.CaptureError(
            f"{getattr(function, '__qualname__', function)}() gets a {type(table.example).__name__} of which only the program "
            "knows the keys",
            session.here(),
            fix="loop over it in converted code, or call the function outside of the static function, with the result",
        )


def _table_in(value: Any, depth: int) -> AbstractTable | None:
    """Return the first such dict or set in a value."""
    if isinstance(value, AbstractTable):
        return value
    parts = children(value) if depth < _DEEP and isinstance(value, (tuple, list, dict)) else None
    return next((found for part in (parts or ((),))[0] if (found := _table_in(part, depth + 1)) is not None), None)


_DEEP = 6
"""So deep are values in the arguments of functions looked for that these do not know."""
