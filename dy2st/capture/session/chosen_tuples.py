"""Tuples that branches and loops leave, and which of the tuples from before they are.

    if n > 0:               after the branch, `pair` is `self.pair`, or a tuple that the branch has made:
        pair = (x, y)       the capture holds one tuple of what is in either

That makes no difference to what is in it. Once it is asked which tuple it is, or is left where the caller can see it, the capture
starts again, and has a number that tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from dy2st import errors
from dy2st.capture.environment.tracking import Tracker
from dy2st.capture.recording.fake_values import FakeValues
from dy2st.capture.recording.position import Position
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.blocks import Blocks
from dy2st.capture.session.carried import flat
from dy2st.capture.types import tensor_traits
from dy2st.capture.types.abstract_values import ABSENT
from dy2st.capture.types.traits import Traits
from dy2st.capture.values.abstract_objects import AbstractTuple, contents
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import (
    CAPTURE_VALUES,
    SYMBOLIC_NUMBERS,
    Choosing,
    TaggedUnion,
    Undefined,
    options_of,
    runtime_list,
)
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.primitives import scalars

Path = tuple[int, ...]
"""A place in a value: the positions of the parts that lead there."""
_DEEP = 3


class _Link(NamedTuple):
    """A tuple that has been made, those that it may be, and the number of the one that it is: from 1 on, 0 for none of them."""

    value: Any
    others: Sequence[Any]
    tag: Any


class ChosenTuples:
    """Which tuples may be the same.

    Args:
        session: what makes tagged unions.
        blocks: those that are open.
        allocations: when objects were made.
        tracker: where objects from outside come from.
        fakes: the abstract tensors of the capture.
        position: where it is in the user's code.
        traits: what is told apart.
    """

    def __init__(
        self,
        session: Choosing,
        blocks: Blocks,
        allocations: Allocations,
        tracker: Tracker,
        fakes: FakeValues,
        position: Position,
        traits: Traits,
    ) -> None:
        self._session, self._blocks, self._allocations, self._tracker = session, blocks, allocations, tracker
        self._fakes, self._position, self._traits = fakes, position, traits
        self._links: dict[int, _Link] = {}
        self._taken: dict[int, Any] = {}
        self._carried: dict[int, Any] = {}
        self._met: dict[int, tuple[Any, int]] = {}
        """Tuples that variables held when a block began, with the time."""
        self._gone: dict[int, Any] = {}

    @property
    def are_told(self) -> bool:
        """Whether numbers tell which they are."""
        return tensor_traits.TUPLES in self._traits.apart

    def meet(self, places: Iterable[Place]) -> None:
        """Note that a block begins: what its variables hold is older."""
        for place in places:
            held = place.read() if isinstance(place, CellPlace) else MISSING
            for option in options_of(held):
                if _has_identity(option) and id(option) not in self._met:
                    self._met[id(option)] = option, self._allocations.now()

    def add_older(self, tuples: dict[Path, list[Any]], values: Iterable[Any], start: int) -> bool:
        """Find the tuples from before a time that some values, or what is at a place in them, may be.

        Returns:
            Whether there are new ones that have to be told from the others.
        """
        is_new = False
        for value in values:
            for path, part in _parts(value, ()):
                for one in (one for option in options_of(part) for one in self._before(option, start)):
                    known = tuples.setdefault(path, [])
                    if all(one is not other for other in known):
                        known.append(one)
                        is_new = True
        return is_new and self.are_told

    def given(self, ways: Iterable[Any], start: int) -> list[Any]:
        """Return the tuples that the ways through a branch give; of one that a block in there has left, those that it may be."""
        results: dict[int, Any] = {}
        for way in ways:
            for option in options_of(way):
                inner = id(option) in self._links and not self._is_older(option, start)
                known = self._before(option, start) if inner else [option] if _has_identity(option) else []
                results.update((id(one), one) for one in known)
        return list(results.values())

    def replace(self, gone: Any, value: Any) -> None:
        """Note that an object that a branch has made is another one from now on.

        No tuple that holds the first can be given back.
        """
        if gone is not value:
            self._gone[id(gone)] = gone

    def is_known_here(self, value: Any) -> bool:
        """Tell whether the block that is recorded now has all that is in a tuple.

        One that a branch has made is known by its place.
        """
        builder = self._blocks.builder
        if id(value) in self._gone:
            return False
        if isinstance(value, torch.Tensor):
            return builder.knows(value) or not self._fakes.is_abstract(value)
        if isinstance(value, SYMBOLIC_NUMBERS):
            return builder.can_express(value.node.expr)
        if isinstance(value, (TaggedUnion, Text)):
            parts = value.parts if isinstance(value, Text) else (value.tag, *value.options.values())
            return all(map(self.is_known_here, parts))
        known = value if isinstance(value, RuntimeString) else runtime_list(contents(value))
        if known is not None:
            return builder.knows(known)
        if isinstance(value, Undefined):
            return True
        return not isinstance(value, CAPTURE_VALUES) and all(map(self.is_known_here, (children(value) or ((),))[0]))

    def _before(self, value: Any, start: int) -> Iterator[Any]:
        if not _has_identity(value):
            return
        if self._is_older(value, start):
            yield value
        elif id(value) in self._links:
            for other in self._links[id(value)].others:
                yield from self._before(other, start)

    def _is_older(self, value: Any, start: int) -> bool:
        if self._tracker.source_of(value) is not None:
            return True
        times = (self._allocations.allocated_at(value), self._met.get(id(value), (None, None))[1])
        return any(time is not None and time < start for time in times)

    def link(self, value: Any, others: Sequence[Any], tag: Any = None) -> None:
        """Note that tuples that have been made may be others; the tag says which they are."""
        for option in options_of(value):
            rest = [other for other in others if other is not option]
            if rest and _has_identity(option) and id(option) not in self._links:
                self._links[id(option)] = _Link(option, list(others), tag)

    def link_parts(self, value: Any, tuples: Mapping[Path, Sequence[Any]], tags: Sequence[Any]) -> None:
        """Do the same of what is at some places in a value; there are no tags where nobody asks."""
        for (path, others), tag in zip(tuples.items(), tags or [None] * len(tuples)):
            self.link(_at(value, path), others, tag)

    def numbers(self, value: Any, tuples: Mapping[Path, Sequence[Any]]) -> list[Any]:
        """Return which of some tuples are at the places in a value where these may be."""
        return [self.number(_at(value, path), others) for path, others in tuples.items()]

    def number(self, value: Any, others: Sequence[Any]) -> Any:
        """Return which of some tuples a value is."""
        if value is ABSENT:
            return None
        if isinstance(value, TaggedUnion):
            return self._mapped(value.tag, {tag: self._of_option(option, others) for tag, option in value.options.items()})
        place = next((place for place, other in enumerate(others, 1) if other is value), 0)
        known = self._links.get(id(value))
        if place or known is None or known.tag is None:
            return place
        return self._mapped(known.tag, {0: 0} | {tag: self.number(other, others) for tag, other in enumerate(known.others, 1)})

    def _of_option(self, option: Any, others: Sequence[Any]) -> Any:
        return 0 if option is ABSENT else self.number(option, others)

    def _mapped(self, tag: Any, numbers: Mapping[int, Any]) -> Any:
        """Return the number for a tag."""
        if all(number is old for old, number in numbers.items()):
            return tag
        *others, (_, result) = numbers.items()
        for old, number in others:
            if number is not result:
                result = self._session.number(scalars.where, (tag == old, number, result), "int")
        return result

    def told(self, value: Any, asked: tuple[Any, ...] = ()) -> Any:
        """Return a value, as a tagged union of tuples where it is not known which it is.

        ``asked`` are those that are told already.
        """
        if not self._links or not self.are_told:
            return value
        if isinstance(value, TaggedUnion):
            return flat(self._session, value, [self.told(option, asked) for option in value.options.values()])
        known = self._links.get(id(value))
        if known is None or known.tag is None or any(value is one for one in asked):
            return value
        parts = [value, *(self.told(other, (*asked, value)) for other in known.others)]  # two may be each other
        return flat(self._session, self._session.new_union(known.tag, dict(enumerate(parts))), parts)

    def compare(self, value: Any, other: Any) -> None:
        """Somebody asks whether two values are one.

        Raises:
            CaptureError: nobody knows.
            NeedsApart: another capture has the answer.
        """
        if self._taken:
            self._check(value, other, self._taken, any, "hold the same tuple out of a list that changes length")
        if self._carried:
            self._check(value, other, self._carried, all, "hold the same tuple, which iterations of a loop have made,")
        self._ask(value, (other,))

    def _ask(self, value: Any, others: Iterable[Any]) -> None:
        if not self._links or self.are_told:
            return
        mine = {id(one) for option in options_of(value) for one in self._reached(option)}
        for other in others:
            reached = [one for option in options_of(other) for one in self._reached(option)]
            if other is not value and any(id(one) in mine for one in reached):
                raise NeedsApart(tensor_traits.TUPLES)

    def take(self, item: Any) -> None:
        """Note that an item comes out of a list of the program: which tuple it is, nobody knows."""
        for option in options_of(item):
            if _has_identity(option):
                self._taken[id(option)] = option

    def carry(self, value: Any) -> None:
        """Note that a loop carries a value: where an iteration leaves one tuple in two places, nobody knows that afterwards."""
        for option in options_of(value):
            for _, part in _parts(option, ()):
                if _has_identity(part) and self._tracker.source_of(part) is None:
                    self._carried[id(part)] = part

    def _check(self, value: Any, other: Any, known: Mapping[int, Any], of: Callable[..., bool], words: str) -> None:
        """Refuse to tell whether two tuples are one of which any, or all, are among some."""
        pairs = [(one, two) for one in options_of(value) for two in options_of(other)]
        for one, two in pairs:
            if one is not two and _has_identity(one) and _has_identity(two) and of(id(part) in known for part in (one, two)):
                raise errors.CaptureError(
                    f"whether two names {words} is not known",
                    self._position.here(),
                    fix="compare what is in them",
                )

    def leave(self, value: Any, others: Iterable[Any]) -> None:
        """Note that a tuple is left where the caller sees it, next to others.

        Raises:
            NeedsApart: it may be one that the caller has, or one of the others.
        """
        if self._links and not self.are_told and _has_identity(value):
            if any(one is not value and self._tracker.source_of(one) is not None for one in self._reached(value)):
                raise NeedsApart(tensor_traits.TUPLES)
            self._ask(value, others)

    def _reached(self, value: Any) -> Iterator[Any]:
        """Yield a tuple, and all that it may be: two may be each other."""
        waiting, seen = [value], set[int]()
        while waiting:
            one = waiting.pop()
            if _has_identity(one) and id(one) not in seen:
                seen.add(id(one))
                yield one
                waiting += self._links[id(one)].others if id(one) in self._links else ()


def _parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield a value and what is in it, with the places, as long as it is not one of several."""
    yield path, value
    if not isinstance(value, CAPTURE_VALUES) and runtime_list(value) is None and len(path) < _DEEP:
        for index, part in enumerate((children(value) or ((),))[0]):
            yield from _parts(part, (*path, index))


def _at(value: Any, path: Path) -> Any:
    for index in path:
        parts = () if isinstance(value, CAPTURE_VALUES) else (children(value) or ((),))[0]
        value = parts[index] if index < len(parts) else None
    return value


def part_of(value: Any, container: Any, index: int) -> Any:
    """Return what is at a place of a value that is, or may be, a container like a given one."""
    if isinstance(value, TaggedUnion):
        return TaggedUnion(value.session, value.tag, {tag: part_of(one, container, index) for tag, one in value.options.items()})
    is_like = type(value) is type(container) and shallow(value)[1] == shallow(container)[1]
    return shallow(value)[0][index] if is_like else ABSENT


def _has_identity(value: Any) -> bool:
    """Tell whether a value is a tuple of which there may be another that is equal."""
    return isinstance(value, AbstractTuple) or (isinstance(value, tuple) and value != ())
