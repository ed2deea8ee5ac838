"""Sorting, and the methods of lists that compare: by what is known only at run time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from dy2st.capture.attributes import access
from dy2st.capture.branching import elements, keys, lookup, unions
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import lists
from dy2st.capture.environment import written_out
from dy2st.capture.iterables import iterators
from dy2st.capture.looping import comprehensions, iteration
from dy2st.capture.looping.truth import truth
from dy2st.capture.operators import relations
from dy2st.capture.operators.comparisons import position, same
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.types import lattice, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.primitives import control, scalars

CALLS_METHODS_FOR_USER = True

_FEW = 8
"""Of how many objects each one put in order is one of all; more that nobody can change are copies out of a list of the program."""


def in_order(session: Session, items: list[Any], key: Callable[..., Any] | None, reverse: Any) -> list[Any]:
    """Return ``sorted(items, key=key, reverse=reverse)``; ``items`` is a new list that nobody else holds."""
    if session.lists.of(items) is not None:
        return _in_order(session, items, _ranked(session, _keys(session, items, key)), reverse).items
    return _by_keys(session, items, [item if key is None else session.call(key, item) for item in items], reverse)


def _by_keys(session: Session, items: list[Any], keys: list[Any], reverse: Any) -> list[Any]:
    union = next((key for key in keys if _may_be_none(key)), None)
    if union is not None:  # Python refuses to compare some of them

        def of_one(option: Any) -> Any:
            return _by_keys(session, list(items), [option if key is union else key for key in keys], reverse)

        return session.over(union, of_one)  # type: ignore[no-any-return]
    if any(map(relations.has_own_order, keys)):
        keys = _ranks(session, keys)
    if not any(map(_is_runtime, keys)) and not is_symbolic(reverse):
        results = [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)]
        session.lists.own(results)
        return results
    session.lists.own(keys)
    count = len(keys)
    is_told_apart = elements.is_changeable if len(items) > _FEW else elements.is_one_object
    if any(is_told_apart(session, item) for item in items) and not any(isinstance(item, TaggedUnion) for item in items):
        return _permuted(session, items, keys, reverse)
    taken = _in_order(session, items, keys, reverse)
    results = [lists.get(session, taken, position) for position in range(count)]
    session.lists.own(results)
    return results


def _may_be_none(key: Any) -> bool:
    """Tell whether a key is one of several, and may be ``None``, which cannot be put in order."""
    return isinstance(key, TaggedUnion) and any(option is None for option in key.options.values())


def _permuted(session: Session, items: list[Any], keys: list[Any], reverse: Any) -> list[Any]:
    """Return objects in order: each is one of those that there are, and not a copy in a list of the program."""
    order = _order(session, session.lists.of(keys) or session.lists.make(keys), reverse)
    at = dict(enumerate(items))
    results = [session.new_union(lists.get(session, order, position), at) for position in range(len(items))]
    session.lists.own(results)
    return results


def _is_runtime(key: Any) -> bool:
    return is_symbolic(key) or (isinstance(key, tuple) and any(map(_is_runtime, tuple.__iter__(key))))


def _keys(session: Session, items: list[Any], key: Callable[..., Any] | None) -> list[Any]:
    return items if key is None else comprehensions.mapped(items, lambda item: session.call(key, item))


def _ranked(session: Session, keys: list[Any]) -> list[Any]:
    """Return keys that the program can put in order: for objects with a method of the user's for that, their ranks."""
    known = session.lists.of(keys)
    kinds = () if known is None or known.element is None else lattice.options_of_type(known.element)
    return _ranks(session, keys) if any(map(_has_own_order, kinds)) else keys


def _has_own_order(kind: value_types.Type) -> bool:
    if not isinstance(kind, value_types.ContainerType):
        return False
    factory = getattr(kind.structure, "factory", None)
    return (factory is not None and relations.is_ordered_by_user(factory)) or any(map(_has_own_order, kind.items))


def _ranks(session: Session, keys: list[Any]) -> list[Any]:
    """Return how many keys are less than each one: those that are alike have the same rank, and stay in their order."""
    return comprehensions.mapped(
        keys, lambda key: session.call(sum, comprehensions.mapped(keys, functools.partial(_is_less, session, key)))
    )


def _is_less(session: Session, key: Any, other: Any) -> Any:
    return False if key is other else unions.as_number(session, truth(session, relations.related("<", other, key)))


def _in_order(session: Session, items: list[Any], keys: list[Any], reverse: Any) -> RuntimeList:
    known_keys, known_items = (session.lists.of(part) or session.lists.make(part) for part in (keys, items))
    order = _order(session, known_keys, reverse)
    result = session.lists.new(known_items.element)
    session.builder.call(control.list_take, (known_items, order), {}, result)
    return result


def _order(session: Session, keys: RuntimeList, reverse: Any) -> RuntimeList:
    """Return the positions of the items of a list in the order of its keys."""
    order = session.lists.new(value_types.NumberType("int"))
    session.builder.call(control.list_order, (keys, reverse), {}, order)
    return order


def method(session: Session, target: list[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a method of a list, called by converted code."""
    if name == "extend" and len(args) == 1:
        if isinstance(args[0], TaggedUnion):
            return session.over(args[0], lambda option: method(session, target, name, (option,), kwargs))
        if iterators.gives_by_steps(args[0]):
            return session.call(written_out.extended, target, args[0])  # what it gives before it raises is put in
        args = (_with_known_end(session, args[0]),)
        if session.lists.of(args[0]) is not None:
            _known(session, target)
    handler = _COMPARING.get(name)
    is_known = session.lists.of(target) is None
    parts = (*storage.plain(target), *args)
    is_searched = name in ("index", "count", "remove") and is_known
    if is_searched and any(keys.has_union(part) or session.lists.of(part) is not None for part in parts):
        return search(session, target, name, *args)
    runtime = not is_known or any(map(_is_runtime, parts))
    if handler is None or not (runtime or name == "sort"):
        return lists.method(session, target, name, args, kwargs)
    return handler(session, target, *args, **kwargs)


def search(session: Session, items: Any, name: str, value: Any, *bounds: Any) -> Any:
    """Return ``items.index(value)``, ``items.count(value)`` and ``items.remove(value)`` of Python's lists and tuples, item by
    item.
    """
    first, last, _ = slice(*(bounds or (None,)), *((None,) if len(bounds) == 1 else ())).indices(len(items))
    alike: Any = lambda index: same(session, value, items[index])  # noqa: E731
    places = range(first, last)
    if name == "count":
        return sum(unions.as_number(session, alike(index)) for index in places)
    use = (lambda index: access.del_item(items, index)) if name == "remove" else lambda index: index
    return lookup.first(places, alike, use, lambda: _not_there(session, items, name, value))


def is_in(session: Session, items: list[Any], value: Any) -> Any:
    """Tell whether a value is in a list of the program."""
    return position(session, items, value) >= 0


def _not_there(session: Session, items: Any, name: str, value: Any) -> NoReturn:
    if name == "remove":
        raise raised(ValueError("list.remove(x): x not in list"))
    if isinstance(items, tuple):
        raise raised(ValueError("tuple.index(x): x not in tuple"))
    raise raised(session.call(ValueError, text.fstring((value, "r", ""), " is not in list")))


def _with_known_end(session: Session, values: Any) -> Any:
    """Return what a list is extended by: if its length is known only at run time, a list of the program."""
    values = contents(values)
    runtime = iteration.is_of_runtime_length(values)
    return iteration.collected(values) if runtime and session.lists.of(values) is None else values


def _known(session: Session, target: list[Any]) -> RuntimeList:
    """Return the list of the program that a list is, or has to become."""
    known = session.lists.of(target)
    if known is None and not session.lists.owner_is_here(target):
        raise NeedsRuntimeList(target)
    return known or session.lists.make(target)


def _index(session: Session, target: list[Any], value: Any, *bounds: Any) -> Any:
    if bounds:
        return session.call(written_out.index_between, target, value, *bounds)
    result = position(session, target, value) if session.lists.of(target) is not None else _first(session, value, target, 0)
    message = Text(((value, "r", ""), " is not in list"))
    check(session, result >= 0, ValueError, message)
    return result


def _first(session: Session, value: Any, items: list[Any], start: int) -> Any:
    """Return the first position from ``start`` at which a value stands; -1 if there is none."""
    for index in range(start, len(items)):
        test = same(session, value, items[index])
        if is_symbolic(test):
            return capture_if_exp(test, lambda: index, functools.partial(_first, session, value, items, index + 1))  # noqa: B023
        if test:
            return index
    return -1


def _count(session: Session, target: list[Any], value: Any) -> Any:
    count: Any = 0

    def look(item: Any) -> None:
        nonlocal count
        count = count + session.number(scalars.to_int, (truth(session, same(session, value, item)),), "int")

    session.allocations.own_variables(look)
    iteration.capture_for(target, look, ("count",), None)
    return count


def _remove(session: Session, target: list[Any], value: Any) -> None:
    known = _known(session, target)
    result = position(session, target, value)
    check(session, result >= 0, ValueError, "list.remove(x): x not in list")
    lists.del_item(session, known, result)


def _sort(session: Session, target: list[Any], *, key: Callable[..., Any] | None = None, reverse: Any = False) -> None:
    result = in_order(session, iteration.collected(target), key, reverse)
    known = session.lists.of(target)
    if known is not None:
        lists.set_item(session, known, slice(None), result)
        return
    session.places.write(ContentsPlace(target))
    list.__setitem__(target, slice(None), result)


_COMPARING: dict[str, Callable[..., Any]] = {"index": _index, "count": _count, "remove": _remove, "sort": _sort}
