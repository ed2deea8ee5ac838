"""Two names of one list, after a branch or loop that has made it.

    while n > 0:            after the loop, `a` and `b` are one list, too: each is what it was
        a = [x]             before the loop, or what the last iteration left
        b = a

Blocks pass on what is in containers, and the capture makes an object for each. Objects that stand for the same one before the
loop (or for none) and for the same one at the end of an iteration are made the same again; so are those of two branches.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, options_of
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import CollectionOf, DictOf, ObjectOf, Structure
from dy2st_runtime.ir.unflattening import unflatten

Position = tuple[Hashable, ...]


class Uniting:
    """Makes objects the same that a loop carries, or that branches leave.

    Args:
        session: the capture.
        start: where containers that are older than a loop stay the objects that they are, when it began: those are left alone, and
            dicts of several structures may be new ones.

    Attributes:
        positions: the positions that hold one object: the carried value, and the way in it.
        unclear: objects of which nobody can tell which option of a tagged union they are.
    """

    def __init__(self, session: Session, start: int | None = None) -> None:
        self._session, self._start = session, start
        self._first: dict[int, list[tuple[Any, Position, Any, Any]]] = {}
        """What is met already, by what it stands for at the end."""
        self.positions: set[tuple[Position, Position]] = set()
        self.unclear: list[Any] = []

    def __call__(self, value: Any, initial: Any, final: Any, position: Position, *, is_object: bool = True) -> Any:
        """Return a carried value, with the objects in it that are met already.

        Args:
            value: the value.
            initial: what it stands for before the loop, or on the other branch.
            final: what it stands for at the end of an iteration, or on one branch.
            position: where it is.
            is_object: whether it is an object itself; else what is in one.
        """
        if isinstance(value, TaggedUnion):
            return self._union(value, initial, final, position)
        if self._start is not None and isinstance(value, dict):
            structure = shallow(value)[1]
            position, final = (*position, structure), self._of_structure(structure, final)
        initial, final = self._sole(initial), self._sole(final)
        if not _alike(value, final):
            self.unclear += filter(_is_container, options_of(final))
            return value
        if is_object and not isinstance(value, tuple):
            known, first = self._known(value, initial, final, position)
            if first != position:
                self.positions.add((first, position))
                return known
        return value if self._session.lists.of(value) else self._parts(value, initial, final, position)

    def _known(self, value: Any, initial: Any, final: Any, position: Position) -> tuple[Any, Position]:
        """Return the object that is met already for what a value stands for, and where; else itself."""
        initial = initial if _is_object(initial) or isinstance(initial, TaggedUnion) else None
        met = self._first.setdefault(id(final), [])
        for known, first, _, before in met:
            if initial is None or before is initial:  # what was no object before is from the first iteration on what the others are
                return known, first
        met.append((value, position, final, initial))  # which must not go and leave its id
        return value, position

    def _union(self, value: TaggedUnion, initial: Any, final: Any, position: Position) -> Any:
        """Return the options that are containers, each with what it alone stands for.

        The only one, or the only one of its structure.
        """
        structures = {tag: shallow(option)[1] for tag, option in value.options.items() if self._is_new_container(option)}
        results = dict(value.options)
        for tag, structure in structures.items():
            if len(structures) == 1:
                results[tag] = self(value.options[tag], initial, final, position)
            elif [*structures.values()].count(structure) == 1:
                before, after = (self._of_structure(structure, given) for given in (initial, final))
                results[tag] = self(value.options[tag], before, after, (*position, structure))
            else:
                self.unclear += [option for option in options_of(final) if _is_container(option)]
        return (
            value
            if all(results[tag] is option for tag, option in value.options.items())
            else TaggedUnion(value.session, value.tag, results)
        )

    def _is_new_container(self, value: Any) -> bool:
        return _is_container(value) and (self._start is None or not self._session.ownership.is_older(value, self._start))

    def _of_structure(self, structure: Structure, value: Any) -> Any:
        """Return the dict of a structure that a value is or may be; the value itself if there are several."""
        results = [option for option in options_of(value) if self._is_new_container(option) and shallow(option)[1] == structure]
        return value if len(results) > 1 else results[0] if results else None

    def _sole(self, value: Any) -> Any:
        """Return the container among the options of a tagged union, if there is only one."""
        if not isinstance(value, TaggedUnion):
            return value if self._start is None or not _is_container(value) or self._is_new_container(value) else None
        results = [option for option in value.options.values() if isinstance(option, RuntimeList) or self._is_new_container(option)]
        return value if len(results) > 1 else results[0] if results else None

    def _parts(self, value: Any, initial: Any, final: Any, position: Position) -> Any:
        parts = (children(value) or ((),))[0]
        finals = (children(final) or ((),))[0]
        initials: Sequence[Any] = (children(initial) or ((),))[0] if _alike(value, initial) else ()
        if len(finals) != len(parts):
            return value
        before = initials if len(initials) == len(parts) else [None] * len(parts)
        results = [self(part, b, f, (*position, i)) for i, (part, b, f) in enumerate(zip(parts, before, finals))]
        if all(new is old for new, old in zip(results, parts)):
            return value
        return with_parts(value, results)


def with_parts(value: Any, results: Sequence[Any]) -> Any:
    """Return a container with other parts, in the order of :func:`shallow`: the same object unless it is a tuple."""
    if isinstance(value, tuple):
        return unflatten(shallow(value)[1], results)
    if isinstance(value, list):
        list.__setitem__(value, slice(None), results)
        return value
    match shallow(value)[1]:
        case ObjectOf(_, fields):
            for name, part in zip(fields, results):
                storage.keep(value, name, part)
        case DictOf(keys) | CollectionOf(_, (DictOf(keys),)):
            for key, part in zip(keys, results):
                storage.base_of(value).__setitem__(value, key, part)
        case _:  # a cell, or what stands for a deque or set from outside
            (value.items,) = results
    return value


def _is_container(value: Any) -> bool:
    return children(value) is not None


def _is_object(value: Any) -> bool:
    return _is_container(value) or isinstance(value, RuntimeList)


def _alike(value: Any, other: Any) -> bool:
    return _is_container(value) and type(value) is type(other)


def with_others(value: Any, others: Mapping[int, Any]) -> Any:
    """Return a value with others for some of the objects in it, by their identity."""
    if id(value) in others:
        return others[id(value)]
    parts = (children(value) or ((),))[0]
    collected = [with_others(part, others) for part in parts]
    return value if all(new is old for new, old in zip(collected, parts)) else with_parts(value, collected)
