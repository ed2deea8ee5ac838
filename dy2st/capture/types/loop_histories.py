"""What earlier looks at the body of a loop have shown of the loops inside, for the next look.

while a:            the body of the outer loop is captured until its types no longer change, and so is that of the inner one, each
    while b:        time that of the outer one is. The types only become wider, so those that the inner loop came to when the outer
        ...         one was looked at last are a start for it: else there would be as many looks as the depth doubles.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Hashable, Iterator
from typing import Any

import torch

from dy2st.capture.types import value_types
from dy2st.capture.writes.places import Place
from dy2st_runtime.ir.structure import ListOf, TupleOf

ACTS_FOR_USER = False

_Inner = dict[tuple[Hashable, int], "LoopHistory"]
"""The loops in a body, by where they stand and how many stood there before."""


@dataclasses.dataclass(frozen=True)
class Reached:
    """What a place that a loop changes came to hold.

    Attributes:
        place: that place, by position and name where it is one of the variables of the loop.
        made_at: when what has the place was made; ``None`` if it is older than the capture, or a variable.
        by_identity: whether all containers that it may hold are older than the loop.
        initial: the type before the loop, with the sizes that only the program knows as any.
        kind: the type at the start of each iteration, in terms of the one before the loop.
    """

    place: Place | tuple[int, str]
    made_at: int | None
    by_identity: bool
    initial: value_types.Type
    kind: value_types.Type


@dataclasses.dataclass
class LoopHistory:
    """What a loop came to.

    Attributes:
        reached: the places that it carries.
        lists: variables, by position and name, with the number of the option that is a list which has to be one of the program.
        grown: variables, by position and name, with the way in what they hold to lists that have to be ones of the program.
        keeps_older: whether the objects that are older than the loop have to be known.
        inner: the loops inside.
    """

    reached: list[Reached] = dataclasses.field(default_factory=list)
    lists: list[tuple[int, str, int]] = dataclasses.field(default_factory=list)
    grown: list[tuple[int, str, tuple[Any, ...]]] = dataclasses.field(default_factory=list)
    keeps_older: bool = False
    inner: _Inner = dataclasses.field(default_factory=dict)

    def without_types(self) -> LoopHistory:
        """Return what holds where the types around the loop are not those that were."""
        return dataclasses.replace(self, reached=[], inner={key: one.without_types() for key, one in self.inner.items()})

    def before(self, time: int) -> LoopHistory:
        """Return what does not speak of objects that were made later."""
        reached = [one for one in self.reached if one.made_at is None or one.made_at <= time]
        return dataclasses.replace(self, reached=reached, inner={key: one.before(time) for key, one in self.inner.items()})


class LoopHistories:
    """The histories of one capture."""

    def __init__(self) -> None:
        self._looks: list[_Look] = [_Look({})]

    def enter(self, place: Hashable) -> tuple[LoopHistory, LoopHistory]:
        """Return what an earlier look has shown of a loop that begins, and what this one is going to."""
        look = self._looks[-1]
        look.count[place] += 1
        key = place, look.count[place]
        found = look.earlier.get(key, LoopHistory())
        look.seen[key] = LoopHistory(lists=[*found.lists], keeps_older=found.keeps_older, inner=found.inner)
        return found, look.seen[key]

    @contextlib.contextmanager
    def look(self, history: LoopHistory, time: int) -> Iterator[None]:
        """Look at the body of a loop, and note what that shows of the loops inside; the next look makes other objects.

        Args:
            history: that of the loop.
            time: when the look begins.
        """
        look = _Look(history.inner)
        self._looks.append(look)
        try:
            yield
        finally:
            self._looks.pop()
            history.inner = {**look.earlier, **{key: one.before(time) for key, one in look.seen.items()}}


class _Look:
    def __init__(self, earlier: _Inner) -> None:
        self.earlier, self.count = earlier, collections.Counter[Hashable]()
        self.seen: _Inner = {}


_BEFORE: Any = type("Before", (), {"__repr__": lambda self: "as before"})()
"""The size, or the strides, that a tensor has before the loop."""


def of_any_size(kind: value_types.Type) -> value_types.Type:
    """Return a type with the sizes that only the program knows as any: another look at the code has other symbols for them."""
    if isinstance(kind, value_types.TaggedUnionType):
        return value_types.TaggedUnionType(tuple(map(of_any_size, kind.options)))
    if not isinstance(kind, value_types.TensorType):
        return kind
    sizes = tuple(size if type(size) is int else value_types.DYNAMIC for size in kind.sizes)
    are_known = value_types.DYNAMIC not in sizes and all(type(stride) is int for stride in kind.strides or ())
    return dataclasses.replace(kind, sizes=sizes, strides=kind.strides if are_known else None)


def holds_nothing(kind: value_types.Type) -> bool:
    """Tell whether nothing of a type is, or may be, a container."""
    options = kind.options if isinstance(kind, value_types.TaggedUnionType) else (kind,)
    return not any(isinstance(option, (value_types.ContainerType, value_types.ListType)) for option in options)


def in_terms_of(kind: value_types.Type, initial: value_types.Type) -> value_types.Type:
    """Return a type with the sizes that are those of the type before the loop as such."""
    if isinstance(kind, value_types.TaggedUnionType):
        return value_types.TaggedUnionType(tuple(in_terms_of(option, initial) for option in kind.options))
    if not isinstance(kind, value_types.TensorType) or not isinstance(initial, value_types.TensorType):
        return kind
    if len(kind.sizes) != len(initial.sizes):
        return kind
    sizes = tuple(_BEFORE if size == before else size for size, before in zip(kind.sizes, initial.sizes))
    return dataclasses.replace(kind, sizes=sizes, strides=_BEFORE if kind.strides == initial.strides else kind.strides)


def after(kind: value_types.Type, initial: value_types.Type) -> value_types.Type | None:
    """Return what :func:`in_terms_of` was given for another type before the loop; ``None`` if that has no such sizes."""
    if isinstance(kind, value_types.TaggedUnionType):
        options = tuple(after(option, initial) for option in kind.options)
        return None if None in options else value_types.TaggedUnionType(options)
    if not isinstance(kind, value_types.TensorType) or _BEFORE not in (*kind.sizes, kind.strides):
        return kind
    if not isinstance(initial, value_types.TensorType) or len(kind.sizes) != len(initial.sizes):
        return None
    sizes = tuple(before if size is _BEFORE else size for size, before in zip(kind.sizes, initial.sizes))
    strides = initial.strides if kind.strides is _BEFORE else kind.strides
    return dataclasses.replace(kind, sizes=sizes, strides=None if value_types.DYNAMIC in sizes else strides)


def is_the_same_anywhere(kind: value_types.Type) -> bool:
    """Tell whether a type names no size, number or object that another look at the code around it makes anew."""
    if isinstance(kind, value_types.TensorType):
        known = (value_types.DYNAMIC, _BEFORE)
        strides = () if kind.strides in (None, _BEFORE) else kind.strides
        return all(type(size) is int or size in known for size in (*kind.sizes, *strides))
    if isinstance(kind, value_types.TaggedUnionType):
        return all(map(is_the_same_anywhere, kind.options))
    if isinstance(kind, value_types.ContainerType):
        is_plain = type(kind.structure) is ListOf or (type(kind.structure) is TupleOf and kind.structure.factory is None)
        return is_plain and all(map(is_the_same_anywhere, kind.items))
    if isinstance(kind, value_types.ListType):
        return kind.element is None or is_the_same_anywhere(kind.element)
    if isinstance(kind, value_types.SameType):
        return kind.value is None or isinstance(kind.value, (bool, int, float, str, torch.dtype, torch.device))
    return isinstance(kind, (value_types.NumberType, value_types.StringType, value_types.UnboundType))
