"""One value for what the two ways of a branch leave in a place."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching.sides import Sides
from dy2st.capture.diagnostics.access_path import access_path
from dy2st.capture.objects import table_sites
from dy2st.capture.objects.uniting import with_parts
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.session.chosen_tuples import part_of
from dy2st.capture.session.session import Session
from dy2st.capture.types import abstract_values, lattice, mismatches, value_types
from dy2st.capture.types.abstract_values import ABSENT
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractTuple
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import CAPTURE_VALUES, TaggedUnion, Undefined, options_of, runtime_list, unpack_list
from dy2st.capture.writes.places import ContentsPlace, Place
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.unflattening import unflatten

ACTS_FOR_USER = False

ZEROS = {"bool": False, "int": 0, "float": 0.0}


class Joiner:
    """Joins values pair by pair; collects the leaves that each branch gives and the fresh values that stand for them.

    A list, dict or dataclass that is older than the branches is passed on as the object that it is, since others may hold
    it. Of two that the branches have made, one is made afresh, the same wherever these two stand.
    """

    def __init__(self, session: Session, builders: tuple[BlockBuilder, BlockBuilder], start: int) -> None:
        self.session, self.builders, self._start = session, builders, start
        self._joined: dict[tuple[int, ...], Any] = {}
        """What stands for objects of the branches, by their identities."""
        self._stands_for: dict[int, Any] = {}
        self._ordered: dict[int, tuple[Any, Any]] = {}
        """Dicts of the branches as what tells the order of their keys."""
        self._kept: set[int] = set()
        self._apart: set[int] = set()
        self.leaves: tuple[list[Any], list[Any]] = ([], [])
        self.fresh: list[Any] = []
        self.replaced: list[tuple[Any, Any]] = []
        """Objects of the branches, with what stands for them."""

    def keep(self, values: Iterable[Any]) -> None:
        """Note the containers in those objects of the branches that are passed on as they are: these are, too."""
        waiting, seen = [(option, False) for value in values for option in options_of(value)], set[tuple[int, bool]]()
        while waiting:
            value, is_kept = waiting.pop()
            parts = children(value)
            if (id(value), is_kept) in seen or (parts is None and not isinstance(value, (dict, list))):
                continue
            seen.add((id(value), is_kept))
            if is_kept:
                self._kept.add(id(value))
            elif self._is_older(value):
                continue
            if parts is None:
                inside: Sequence[Any] = storage.contents_of(value)
                is_kept = True
            else:
                inside = parts[0]
            waiting += [(option, is_kept) for part in inside for option in options_of(part)]

    def keep_itself(self, value: Any) -> None:
        """Pass an object of a branch on as it is; what it holds is given back in other ways."""
        self._kept.add(id(value))

    def turn(self, a: Any, b: Any, place: Place | None) -> int:
        """Tell when to join two values: first those where each branch leaves an object of its own, then those that hold such.

        What stands for both stands for one where the other branch has none.
        """
        if not isinstance(place, ContentsPlace) and self._is_object(a) and self._is_object(b):
            return 0
        return 1 if self._holds_object(a) and self._holds_object(b) else 2

    def _holds_object(self, value: Any) -> bool:
        waiting, seen = [*options_of(value)], set[int]()
        while waiting:
            one = waiting.pop()
            if self._is_object(one):
                return True
            if id(one) not in seen and self._has_parts(one):
                waiting += [option for part in shallow(one)[0] for option in options_of(part)]
            seen.add(id(one))
        return False

    def tell_apart(self, pairs: Iterable[tuple[Any, Any, Place | None]]) -> None:
        """Find the objects of the branches of which none can stand for two: they are one in some places, and not in others.

        if t: p = q = [x]       `p` and `q` hold one list on one way and two on the other: of the three lists each stays
        else: p, q = [x], [x]   itself, and each of the names has one of two
        """
        sides = Sides(self._is_object)
        for a, b, place in pairs:
            sides.meet(a, b, is_object=not isinstance(place, ContentsPlace))
        self._apart = sides.mixed()

    def _is_object(self, value: Any) -> bool:
        """Tell whether a branch has made an object that others may change."""
        return is_mutable(unpack_list(value)) and not self._is_older(value)

    def _are_apart(self, a: Any, b: Any) -> bool:
        is_alone = any(value is ABSENT for value in (a, b)) and not isinstance(a, TaggedUnion) and not isinstance(b, TaggedUnion)
        options = () if is_alone or not self._apart else (*options_of(a), *options_of(b))
        return any(id(unpack_list(option)) in self._apart for option in options)

    def _one_of_objects(self, a: Any, b: Any) -> TaggedUnion:
        """Return one of the objects that the branches leave in a place, each of which stays itself."""
        results: list[Any] = []
        tags: list[Any] = []
        for value, builder, is_first in ((a, self.builders[0], True), (b, self.builders[1], False)):
            options = value.options if isinstance(value, TaggedUnion) else {} if value is ABSENT else {0: value}
            places = {}
            for tag, option in options.items():
                alone = self._alone(option, is_first)
                places[tag] = next((place for place, other in enumerate(results) if _is_one(other, alone)), len(results))
                results += [alone] * (places[tag] == len(results))
            with self.session.blocks.recording_into(builder):
                tags.append(value.retagged(places) if isinstance(value, TaggedUnion) else places.get(0))
        self.fresh.append(self.session.new_value(value_types.NumberType("int")))
        for leaves, tag in zip(self.leaves, tags):
            leaves.append(tag)
        return self.session.new_union(self.fresh[-1], dict(enumerate(results)))

    def _alone(self, value: Any, is_first: bool) -> Any:
        """Return what stands for a value of one branch, and for nothing of the other."""
        return self.join(value, ABSENT) if is_first else self.join(ABSENT, value)

    def join(self, a: Any, b: Any, place: Place | None = None) -> Any:
        """Return one value for both.

        Raises:
            BranchMismatchError: there is none.
        """
        a, b = (abstract_values.absent(place) if value is MISSING else value for value in (a, b))
        if a is b:
            return None if a is ABSENT else a
        if self._are_apart(a, b):
            return self._one_of_objects(a, b)
        ways = a, b
        if (id(a), id(b)) in self._joined:
            return self._joined[id(a), id(b)]
        a, b = (self._told(builder, value, place) for builder, value in zip(self.builders, (a, b)))
        if (id(a), id(b)) in self._joined:
            return self._joined[id(a), id(b)]
        self._give_deques_lists(a, b)
        are_alike = self._are_alike(a, b) or self._is_taken_apart(a, b, ways)
        value = self._alike(a, b, place) if are_alike else self._fresh(a, b, place)
        if not self._is_older(value):
            self.session.ownership.own_all(value)
        self.session.places.copies.follow(value, a, b)
        self.session.allocations.stands_for(value, a, b)
        self._replace(ways, value)
        self._choose_tuple(value, ways)
        if not are_alike:
            self._choose_parts(value, ways)
        if not isinstance(place, ContentsPlace) and is_mutable(a) and is_mutable(b):  # those contents are a copy made to be joined
            self._first((id(a), id(b)), value)
        if any(way is ABSENT for way in ways):
            self._joined[id(ways[0]), id(ways[1])] = value
        return value

    def _choose_tuple(self, value: Any, ways: tuple[Any, Any]) -> None:
        """Note that a value may be one of the tuples from before the branches."""
        if not any(isinstance(option, (tuple, AbstractTuple)) for option in options_of(value)):
            return
        tuples, tag = self.session.tuples, None
        others = tuples.given(ways, self._start)
        if others and tuples.are_told:
            for builder, way, leaves in zip(self.builders, ways, self.leaves):
                with self.session.blocks.recording_into(builder):
                    leaves.append(tuples.number(way, others))
            tag = self.session.new_value(value_types.NumberType("int"))
            self.fresh.append(tag)
        tuples.link(value, others, tag)

    def _choose_parts(self, value: Any, ways: tuple[Any, Any]) -> None:
        """Do the same of what is in it."""
        for option in options_of(value):
            if isinstance(option, CAPTURE_VALUES) or self._is_older(option) or children(option) is None:
                continue
            for index, part in enumerate(shallow(option)[0]):
                if any(children(one) is not None for one in options_of(part)):
                    first, second = (part_of(way, option, index) for way in ways)
                    self._choose_tuple(part, (first, second))
                    self._choose_parts(part, (first, second))

    def _told(self, builder: BlockBuilder, value: Any, place: Place | None) -> Any:
        """Return what the program can pass on of a value: of a dict that a branch has made its keys in their order."""
        if not isinstance(place, ContentsPlace):
            with self.session.blocks.recording_into(builder):
                value = self.session.blocks.key_orders.told(self.session, value, self._is_older, self._ordered)
        return value

    def _are_alike(self, a: Any, b: Any) -> bool:
        """Tell whether two values are containers of one structure, to be joined part by part."""
        if not (self._has_parts(a) and self._has_parts(b) and shallow(a)[1] == shallow(b)[1]):
            return False
        arrays = [value.items for value in (a, b) if isinstance(value, AbstractArray)]  # of another dtype or rank, they are two
        return len(arrays) < 2 or (arrays[0].dtype, arrays[0].dim()) == (arrays[1].dtype, arrays[1].dim())

    def _is_taken_apart(self, a: Any, b: Any, ways: tuple[Any, Any]) -> bool:
        """Tell whether there is only one value, with objects in it that stay themselves."""
        if a is not ABSENT and b is not ABSENT:
            return False
        return any(id(way) in self._apart and self._has_parts(value) for value, way in zip((a, b), ways))

    def _has_parts(self, value: Any) -> bool:
        return children(value) is not None and not self._is_older(value) and self._lists(value) is value

    def _alike(self, a: Any, b: Any, place: Place | None) -> Any:
        structure = shallow(b if a is ABSENT else a)[1]
        parts, others = (itertools.repeat(ABSENT) if value is ABSENT else shallow(value)[0] for value in (a, b))
        inside = None if isinstance(place, ContentsPlace) else place
        return unflatten(structure, [self.join(x, y, inside) for x, y in zip(parts, others)])

    def _give_deques_lists(self, *values: Any) -> None:
        """Deques that branches make differ in their length: they have lists of the program in them then."""
        results = [
            (builder, option.items)
            for builder, value in zip(self.builders, values)
            for option in options_of(value)
            if isinstance(option, AbstractDeque) and not self._is_older(option)
        ]
        kinds = {None if self.session.lists.of(items) is not None else len(items) for _, items in results}
        for builder, items in results if len(kinds) > 1 else ():
            if self.session.lists.of(items) is None:
                with self.session.blocks.recording_into(builder):
                    self.session.lists.make(items)

    def _fresh(self, a: Any, b: Any, place: Place | None) -> Any:
        a, b = self._lists(a), self._lists(b)
        try:
            kind = self._kind(a, b, value_types.VALUES if isinstance(place, ContentsPlace) else ())
        except mismatches.LengthMismatch as error:
            self._need_list(place, a, b)
            raise self._mismatch(place, a, b, error) from None
        except mismatches.Mismatch as error:
            table_sites.unite(self.session, (a, b))
            raise self._mismatch(place, a, b, error) from None
        results: list[Any] = []
        value = abstract_values.fresh(kind, self.session, results)
        for builder, leaves, given in zip(self.builders, self.leaves, (a, b)):
            with self.session.blocks.recording_into(builder):
                self._take_apart(kind, given, leaves, place)
        self.fresh += results
        if isinstance(value, torch.SymInt):
            self.session.shapes.one_of(value, *(given for given in (a, b) if given is not ABSENT))
        given = [part for part in (a, b) if part is not ABSENT]
        return self._united(kind, unpack_list(value), given, is_object=not isinstance(place, ContentsPlace))

    def _united(self, kind: value_types.Type, value: Any, given: Sequence[Any], *, is_object: bool = True) -> Any:
        """Return a value that has been made, with the objects in it that stand for the same ones of the branches elsewhere.

        Args:
            kind: of the value.
            value: what has been made.
            given: what it stands for in the branches.
            is_object: whether it is an object itself; else what is in one.
        """
        options = [option for part in given for option in options_of(part)]
        if isinstance(kind, value_types.TaggedUnionType):
            return self._united_options(kind, value, options)
        if not isinstance(kind, value_types.CONTAINERS):
            return value
        if is_object and is_mutable(value):
            self._replace(options, value)
            first = self._first(tuple(id(unpack_list(option)) for option in options), value)
            if first is not value:
                return first
        if not isinstance(kind, value_types.ContainerType):
            return value
        parts = shallow(value)[0]
        rows = zip(*(shallow(option)[0] for option in options))
        results = [self._united(item, part, row) for item, part, row in zip(kind.items, parts, rows)]
        if all(new is old for new, old in zip(results, parts)):
            return value
        return with_parts(value, results)

    def _replace(self, gone: Iterable[Any], value: Any) -> None:
        for one in gone:
            if self._is_object(one):
                self.session.tuples.replace(one, value)
                self.replaced += [(one, option) for option in options_of(value)]

    def _first(self, key: tuple[int, ...], value: Any) -> Any:
        """Return what has been made for objects of the branches before, or else ``value``.

        What stands for two objects stands for each of them on its own way.
        """
        known = self._joined.get(key, self._stands_for.get(key[0]) if len(key) == 1 else None)
        if known is None:
            self._joined[key] = known = value
        if not isinstance(known, TaggedUnion):
            self._stands_for.update(dict.fromkeys(key, known))
        return known

    def _united_options(self, kind: value_types.TaggedUnionType, value: TaggedUnion, given: Sequence[Any]) -> Any:
        by_option: dict[int, list[Any]] = {}
        for option in given:
            by_option.setdefault(abstract_values.place(kind.options, option), []).append(option)
        results = {
            tag: self._united(item, value.options[tag], by_option.get(tag, ())) if tag in by_option else value.options[tag]
            for tag, item in enumerate(kind.options)
        }
        return (
            value
            if all(results[tag] is option for tag, option in value.options.items())
            else TaggedUnion(value.session, value.tag, results)
        )

    def _kind(self, a: Any, b: Any, single: tuple[type, ...]) -> value_types.Type:
        first, second = (None if value is ABSENT else lattice.type_of(value, self._is_older) for value in (a, b))
        if first is None or second is None:
            kind = second if first is None else first  # one of them gets there
            return lattice.of_one_way(kind, self.session.shapes.is_size)  # type: ignore[arg-type]
        kind = lattice.join(first, second, single)
        is_of_one = first != second and isinstance(kind, (value_types.TaggedUnionType, value_types.ListType))
        return lattice.of_one_way(kind, self.session.shapes.is_size) if is_of_one else kind

    def _is_older(self, container: Any) -> bool:
        return id(container) in self._kept or self.session.ownership.is_older(container, self._start)

    def _lists(self, value: Any) -> Any:
        """Return the list of the program that a list has become in a branch.

        One that is older is passed on as the object that it is. The branches have been undone: what has become one there tells it.
        """
        return value if self._is_older(value) else self.session.lists.of(value) or runtime_list(value) or value

    def _take_apart(self, kind: value_types.Type, value: Any, leaves: list[Any], place: Place | None) -> None:
        try:
            abstract_values.leaves(kind, value, leaves)
        except mismatches.Mismatch as error:
            raise self._mismatch(place, value, value, error) from None

    def _need_list(self, place: Place | None, a: Any, b: Any) -> None:
        if isinstance(place, ContentsPlace) and isinstance(place.owner, list):
            raise NeedsRuntimeList(place.owner)

    def _mismatch(self, place: Place | None, a: Any, b: Any, error: mismatches.Mismatch) -> errors.BranchMismatchError:
        if isinstance(place, ContentsPlace) and isinstance(place.owner, (set, collections.deque)):
            kind = type(place.owner).__name__
            name = access_path(self.session, place, a, b)
            if self.session.ownership.is_new(place.owner):
                base = "set" if isinstance(place.owner, set) else "deque"
                return errors.BranchMismatchError(
                    f"'{name}', a {base} of the class {kind}, is changed where a tensor decides",
                    self.session.here(),
                    seen=error.told(contents_of=container_at(place)),
                    fix=f"keep a {base} in an attribute of the class: self.items = {base}()",
                )
            subject = f"a {kind} that comes from outside" if name == f"a {kind}" else f"'{name}', a {kind} from outside,"
            return errors.BranchMismatchError(
                f"{subject} is changed where a tensor decides",
                self.session.here(),
                seen=error.told(contents_of=container_at(place)),
                fix=f"make a copy in the function, change and return that: {kind}(items); or keep a list or dict",
            )
        what = f"'{access_path(self.session, place, a, b)}'" if place is not None else "the value of this expression"
        return errors.BranchMismatchError(
            f"{what} is not the same kind of value on both branches",
            _origin(self.session, a) or self.session.here(),
            _origin(self.session, b) or self.session.here(),
            seen=error.told(contents_of=container_at(place)),
            fix=_FIX,
        )


def _is_one(one: Any, other: Any) -> bool:
    """Tell whether two options are one: nothing is there on both ways, or the same object is."""
    return one is other or (isinstance(one, Undefined) and isinstance(other, Undefined))


_FIX = "make both branches give the same dtype, number of dimensions and structure, or use another name in one of them"


def container_at(place: Place | None) -> str:
    """Return the kind of container whose contents are at a place, as they are compared: as a list, where there is none."""
    return type(place.owner).__name__ if isinstance(place, ContentsPlace) else "list"


def _origin(session: Session, value: Any) -> errors.Location | None:
    """Return the user's line that computed a value."""
    if isinstance(value, TaggedUnion):
        value = next(iter(value.options.values()))
    location = session.builder.provenance.of(value)
    return errors.Location(location.file, location.line, location.function) if location else None
