"""Which objects of two branches may be taken for one, as nobody can tell: they are in the same places, or on one way only.

if t: p = q = [x]       `p` and `q` hold one list on one way and two on the other: none of the three lists stands for
else: p, q = [x], [x]   another, and each of the names has one of two
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.types.abstract_values import ABSENT
from dy2st.capture.values.symbolic import TaggedUnion, options_of, unpack_list
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import Structure

Side = tuple[tuple[int, ...], tuple[int, ...]]
"""What one branch leaves in a place: the objects, by their identities, and what tells which of several it is."""
Place = tuple[Side, ...]
"""The same of both."""
Ways = tuple[list[Any], list[Any]]


class Sides:
    """The places that two branches leave objects in.

    Args:
        is_object: whether a value is an object that a branch has made.
    """

    def __init__(self, is_object: Callable[[Any], bool]) -> None:
        self._is_object = is_object
        self._places: set[Place] = set()
        self._holders: list[tuple[frozenset[int], Place]] = []
        """Containers that become one, by their identities, and a place in them."""
        self._seen: set[Place] = set()

    def meet(self, a: Any, b: Any, *, is_object: bool = True) -> None:
        """Note that the branches leave two values in one place.

        Args:
            a, b: the values.
            is_object: whether the values are objects themselves; else what is in one.
        """
        if a is not b:
            self._meet(([a], [b]), is_object=is_object)

    def _meet(self, ways: Ways, holders: frozenset[int] = frozenset(), *, is_object: bool = True) -> None:
        """On each way there is one of some values in a place of containers that become one."""
        options = tuple([option for value in values if value is not ABSENT for option in options_of(value)] for values in ways)
        tags = [tuple(id(value.tag) for value in values if isinstance(value, TaggedUnion)) for values in ways]
        known = tuple((tuple(map(id, side)), tag) for side, tag in zip(options, tags))
        if known in self._seen:
            return
        self._seen.add(known)
        objects = [tuple(id(unpack_list(option)) for option in side if self._is_object(option)) for side in options]
        place = tuple((ids, tag if len(ids) > 1 else ()) for ids, tag in zip(objects, tags))
        if is_object:
            self._places.add(place)
            self._holders.append((holders, place))
        rows: dict[Structure, Ways] = {}
        for number, side in enumerate(options):
            for option in side:
                if children(option) is not None and (not is_object or isinstance(option, tuple) or self._is_object(option)):
                    rows.setdefault(shallow(option)[1], ([], []))[number].append(option)
        for alike in rows.values():
            is_pair = [len(side) for side in alike] == [len(side) for side in options] == [1, 1]  # they are joined part by part
            within = frozenset() if is_pair else frozenset(id(option) for side in alike for option in side)
            columns = [[shallow(option)[0] for option in side] for side in alike]
            for index in range(len((columns[0] or columns[1])[0])):
                first, second = ([parts[index] for parts in column] for column in columns)
                self._meet((first, second), within)

    def mixed(self) -> set[int]:
        """Return the objects of which none can be taken for another, and the containers that hold such, by identity."""
        groups: dict[int, set[Place]] = {}
        for place in self._places:
            together = {place}.union(*(groups.get(one, ()) for one in _objects(place)))
            for one in {one for other in together for one in _objects(other)}:
                groups[one] = together
        results = {one for one, together in groups.items() if not _are_one(together)}
        known = -1
        while known != len(results):
            known = len(results)
            results |= {one for holders, place in self._holders if not results.isdisjoint(_objects(place)) for one in holders}
        return results


def _objects(place: Place) -> tuple[int, ...]:
    return (*place[0][0], *place[1][0])


def _are_one(places: set[Place]) -> bool:
    """Tell whether one object can stand for all that are in some places."""
    both = {place for place in places if place[0][0] and place[1][0]}
    if len(both) > 1 or any(len(side[0]) > 1 for place in places for side in place):
        return len(places) == 1
    return True
