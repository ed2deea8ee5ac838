"""Islands: functions of Python that a program calls when it runs, as they are written.

The node of an island is ``call_(island, args, kwargs)``: an operation with effects, which no pass removes, repeats or moves past
another. The program knows the *kind* of what the function gives: structure, dtypes and numbers of dimensions; sizes and numbers are
known when it runs. Each result is compared with its kind, and taken apart into the leaves that the program goes on with.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.distributed.waiting import waited
from dy2st_runtime.errors import IslandError
from dy2st_runtime.primitives.island_kinds import Kind, OtherKindError, UnknownKindError, join, kind_of, leaves


class Known:
    """What is known of what a function gives for arguments of one signature.

    Attributes:
        kind: of what it gave; ``None`` before it has given anything.
        unknown: what it gave that is of no kind, in words.
        declared: whether the user has said it.
    """

    def __init__(self, kind: Kind | None = None, declared: bool = False) -> None:
        self.kind, self.declared = kind, declared
        self.unknown: str | None = None

    def add(self, value: Any) -> None:
        """Note that it has given a value."""
        try:
            kind = kind_of(value)
        except UnknownKindError as error:
            self.unknown = str(error)
            return
        self.kind = kind if self.kind is None else join(self.kind, kind)


class Reference:
    """An argument that is an object from outside.

    Args:
        value: the object.
        weakly: whether to hold it weakly, where that is possible: a guard sees to it that it is there, and the program often
            belongs to it.
    """

    __slots__ = ("get",)

    def __init__(self, value: Any, weakly: bool) -> None:
        self.get: Callable[[], Any] = lambda: value
        if weakly and not isinstance(value, types.MethodType):
            with contextlib.suppress(TypeError):
                self.get = weakref.ref(value)


@dataclasses.dataclass(frozen=True)
class Slot:
    """An argument, or a part of one, that the program computes: one of the values that its node takes."""

    index: int


@dataclasses.dataclass(frozen=True)
class Container:
    """A container among the arguments that is made at each call.

    Attributes:
        kind: its class.
        keys: as in :class:`NestKind`.
        items: what is under these, again a slot, container, reference or constant.
    """

    kind: type
    keys: tuple[Any, ...]
    items: tuple[Any, ...]

    def make(self, items: list[Any]) -> Any:
        """Return it with these items."""
        if self.kind is list:
            return items
        if issubclass(self.kind, tuple):
            return getattr(self.kind, "_make", self.kind)(items)
        if issubclass(self.kind, dict):
            return self.kind(zip(self.keys, items))
        result = object.__new__(self.kind)
        for name, item in zip(self.keys, items):
            object.__setattr__(result, name, item)
        return result


class Island:
    """A function of Python in a program.

    Args:
        function: gives the function.
        name: of it, for messages and reports.
        args: the arguments, made of slots, containers, references and constants.
        kwargs: the same of those that are given by name.
        known: what is known of its results; what comes later is added to it.
        place: where the user's code calls it, as ``file:line``.
        reason: why it is one.

    Attributes:
        kind: what the program goes on with.
        calls: how often the program has called it.
        writes_outside: whether it may write tensors that it is not given.
        group: the processes that it works together with.
    """

    writes_outside = True
    group: Group | None = None

    def __init__(
        self,
        function: Callable[[], Callable[..., Any] | None],
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        known: Known,
        place: str,
        reason: str,
    ) -> None:
        assert known.kind is not None
        self.function, self.known, self.place, self.reason = function, known, place, reason
        self.args, self.kwargs = args, kwargs
        self.kind: Kind = known.kind
        self.__name__ = self.__qualname__ = name
        self._counter = itertools.count(1)
        self.calls = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Island:
        return self

    def __repr__(self) -> str:
        return f"<island {self.__qualname__}>"

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Call the function with arguments made of what the program gives; returns the leaves of its result.

        Raises:
            IslandError: it gives something of another kind, or changes its arguments in a way that the program cannot follow.
        """
        self.calls = next(self._counter)
        function = self.function()
        assert function is not None, "the program is guarded by it"
        made: list[Any] = []
        args = [_built(part, values, made) for part in self.args]
        kwargs = {name: _built(part, values, made) for name, part in self.kwargs.items()}
        before = [(value, _traits(value)) for value in values if isinstance(value, torch.Tensor)]
        made += [value for value in values if type(value) is list]
        held = [(container, [*_items(container)]) for container in made]
        result = waited(function(*args, **kwargs))
        for tensor, traits in before:
            if _traits(tensor) != traits:
                changed = f"{_shown(traits)} to {_shown(_traits(tensor))}"
                raise self._error(f"changes its argument from {changed}; give a new tensor back")
        for container, items in held:
            now = [*_items(container)]
            if len(now) != len(items) or any(a is not b for a, b in zip(now, items)):
                kind = type(container).__name__
                raise self._error(f"changes a {kind} that it is given and that the program has made for it; give a new one back")
        return self._leaves(result)

    def _leaves(self, result: Any) -> tuple[Any, ...]:
        results: list[Any] = []
        try:
            leaves(self.kind, result, results)
        except OtherKindError as other:
            where = f" at result{other.where}" if other.where else ""
            try:
                found = str(kind_of(other.value))
            except UnknownKindError as error:
                found = str(error)
            else:
                if not self.known.declared:
                    self.known.add(result)
            how = "is declared to give" if self.known.declared else "gave"
            then = "" if self.known.declared else "; the next call is captured for both"
            raise self._error(f"{how} {other.expected}{where}, and now it gives {found}{then}", changed=True) from None
        return tuple(results)

    def _error(self, text: str, changed: bool = False) -> IslandError:
        place = f"{self.__qualname__}(), which the program calls as Python at {self.place},"
        return IslandError(f"{place} {text}", self if changed else None)


def _built(part: Any, values: Sequence[Any], made: list[Any]) -> Any:
    """Return an argument; the lists and dicts in it are appended to ``made``."""
    if isinstance(part, Slot):
        return values[part.index]
    if isinstance(part, Reference):
        return part.get()
    if not isinstance(part, Container):
        return part
    result = part.make([_built(item, values, made) for item in part.items])
    if isinstance(result, (list, dict)):
        made.append(result)
    return result


def _items(container: Any) -> Iterator[Any]:
    return iter((*container, *container.values()) if isinstance(container, dict) else container)


def _traits(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.requires_grad


def _shown(traits: tuple[Any, ...]) -> str:
    dtype, shape, requires_grad = traits
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}{' with a gradient' if requires_grad else ''}"
