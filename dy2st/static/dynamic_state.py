"""State that differs from call to call: what a program writes, and the next call finds changed, is an input of the next program.

    self.calls += 1                               # a number: the second program takes it as an input, and serves the calls after it
    self.cache = torch.cat([self.cache, x])       # a tensor: its first size is any

What is an input is known only when the program runs, and some code needs to know it before: ``self.blocks[self.calls]``,
``getattr(self, f"block{self.calls}")``. What is written so was right as long as the number was a constant; it is captured again
with the number as a constant, and that number stays one: there is a program for each of its values.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from dy2st.capture.environment.guards import Guard
from dy2st.capture.environment.request import ITEMS, LENGTH, OBJECT
from dy2st.capture.environment.sources import Source, shown_key
from dy2st.capture.objects.construction import is_plain
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.trace import LISTS, READ_ONCE
from dy2st.static.cache import Lookup, ProgramCache
from dy2st.static.calls.call import HELD, Call, Part, Path
from dy2st_runtime.ir.structure import Const, Leaf, ListOf, Structure

Dims = frozenset[int] | None
"""What differs from call to call: some sizes of a tensor, the length of a list (:data:`LENGTH`), or (``None``) a number."""
_MOST = 1024
"""Of a longer list no number becomes an input of its own."""
_LISTS = (list, collections.deque)
_LONG = 128
"""A longer list of numbers is one input, if it can be."""
_TWICE = 2
"""A container in the arguments that two programs were captured for, and is another each time, is followed as state is."""
_OFTEN = 3
"""What so many programs were captured for, and is another each time, is an input of the next one, though no program writes it."""


Dynamic = Mapping[str | Path, Dims]
"""What is dynamic: the names of sources, and the places of numbers in the arguments."""
Capture = Callable[[Call, Mapping[str, Dims]], Captured]
"""Captures a call, given the dynamic state."""


class Difference(NamedTuple):
    """A part of a call's arguments that is another than a program was captured for.

    Attributes:
        captured: the program.
        part: what is there now, and where.
        before: what was there.
    """

    captured: Captured
    part: Part
    before: Structure


class Miss(NamedTuple):
    """A call that has no program, and what is known of why.

    Attributes:
        call: the call, with all its numbers as constants.
        apart: the same with all its containers taken apart.
        lookup: what the cache says of it.
        differences: where its arguments differ from those of programs with other keys.
    """

    call: Call
    apart: Call
    lookup: Lookup
    differences: Sequence[Difference]

    def changing(self) -> list[str]:
        """Return what keeps programs from being used: for each of them, the name of one thing that is another now."""
        names = [mismatch.guard.source.name for mismatch in self.lookup.mismatches if mismatch.guard is not None]
        first: dict[int, str] = {}
        for captured, part, _ in self.differences:
            if any(_is_in(name, part.name) for name in captured.written):
                first.setdefault(id(captured), part.name)
        return names + list(first.values())


class DynamicState:
    """Which state of one function is an input of its programs.

    Args:
        cache: its programs.
    """

    def __init__(self, cache: ProgramCache) -> None:
        self._cache = cache
        self._places: frozenset[Path] = frozenset()
        """Where in the arguments numbers are inputs; arrays are where they can be."""
        self._held: frozenset[Path] = frozenset()
        """Where in the arguments containers are followed as state is, since they are others from call to call."""
        self._constant: frozenset[str | Path] = frozenset()
        """What has to stay a constant, or to be taken apart."""

    def look_up(self, call: Call, known: Lookup | None = None) -> Lookup:
        """Return what the cache has for a call with all its numbers as constants; see :meth:`ProgramCache.look_up`."""
        first: Lookup | None = None
        for form in self._forms(call):
            result = self._cache.look_up(form, known)
            if result.entry is not None:
                return result
            first = first or result
        assert first is not None
        return first

    def _forms(self, call: Call) -> Iterator[Call]:
        """Yield a call as a program is captured for it now, and then as one may have been before."""
        held = call.with_held(self._held)
        yield self.taken(held)
        if self._places:
            yield held
        if held is not call:
            yield self.taken(call)

    def taken(self, call: Call) -> Call:
        """Return a call with those of its numbers and arrays as inputs that are."""
        return call.with_inputs(self._places | (call.array_places() - self._constant))

    def miss(self, call: Call, lookup: Lookup) -> Miss:
        """Return what is known of a call that a lookup has found no program for."""
        apart, call = call, call.with_held(self._held)
        results = []
        for key, captured in self._cache.items():
            if key[2:] == call.key[2:]:
                pairs = _differences(key, call.key, Part(key[0]), Part(call.key[0]))
                results += [Difference(captured, part, before) for part, before in pairs]
        return Miss(call, apart, lookup, results)

    def capture(self, miss: Miss, capture: Capture) -> tuple[Call, Captured]:
        """Capture a call that has no program yet, with as much dynamic state as its code allows.

        Args:
            miss: the call.
            capture: captures it, given what is dynamic.

        Returns:
            The call with those numbers as inputs that are inputs of the program, and the program.

        Raises:
            Exception: what ``capture`` raises where all state is constant.
        """

        dynamic, refused = self._changed(miss), frozenset[str | Path]()
        held, result = self._with_held(miss, dynamic, capture)
        if result is None:
            result, constant = _with_most(miss.call, dynamic, capture)
            held, refused = frozenset(), constant | held
        if isinstance(result, Exception) and not hasattr(result, READ_ONCE):
            other = miss.apart if miss.call.held else miss.call.with_held(frozenset(_outermost(Part(miss.call.structure))))
            instead = _with_most(other, {}, capture)[0] if other is not miss.call else result
            if not isinstance(instead, Exception):
                result, held = instead, other.held
        if isinstance(result, Exception):
            try:
                raise result
            finally:
                del result  # its traceback holds this frame
        self._constant |= refused
        self._held = (self._held | held) - self._constant
        places = {name for name in dynamic if isinstance(name, tuple)} - miss.call.array_places()
        self._places = (self._places | places) - self._constant
        return result

    def _with_held(
        self, miss: Miss, dynamic: Dynamic, capture: Capture
    ) -> tuple[frozenset[Path], tuple[Call, Captured] | Exception | None]:
        """Capture a call with containers in its arguments as state that have been taken apart so far.

        Returns:
            Where they are, and the program, what can be captured but once, or ``None``: the containers have to be taken apart.
        """
        held = self._newly_held(miss)
        call = miss.apart.with_held(self._held | held.keys()) if held else miss.call
        if call.held == miss.call.held:
            return frozenset(), None
        names = [name for names in held.values() for name in names if name not in self._constant]
        for length in (LENGTH, ITEMS):
            result = _attempt(call, {**dynamic, **dict.fromkeys(names, length)}, capture)
            if not isinstance(result, Exception) or hasattr(result, READ_ONCE):
                return frozenset(held), result
            if not names:
                break
        return frozenset(held), None

    def _newly_held(self, miss: Miss) -> dict[Path, list[str]]:
        """Return the containers in the arguments that programs write or that are often others, with the names of lists in them that
        are longer or shorter now.
        """
        counts, results = collections.Counter[Path](), dict[Path, list[str]]()
        for captured, part, _ in miss.differences:
            way = _way(Part(miss.call.structure), part.path)
            place = next((one.path for one in way if _can_be_held(one)), None)
            if place is None or place in self._constant or not isinstance(part.structure, HELD):
                continue
            inside = way[next(i for i, one in enumerate(way) if one.path == place) :]
            counts[place] += 1 if counts[place] < _TWICE else 0
            if any(_is_in(name, inside[0].name) for name in captured.written):
                counts[place] = _TWICE
            lists = (one.name for one in inside if isinstance(one.structure, ListOf))
            results.setdefault(place, []).extend(itertools.islice(lists, 1))
        return {place: names for place, names in results.items() if counts[place] >= _TWICE}

    def _changed(self, miss: Miss) -> dict[str | Path, Dims]:
        """Return state that a program of this function writes and that is another now."""
        places = (self._written_arguments(miss) | miss.call.array_places()) - self._constant
        result: dict[str, Dims] = {}
        written = {name for _, captured in self._cache.items() for name in captured.written}
        often = collections.Counter[str]()
        for mismatch in self._cache.look_up(miss.call.with_inputs(places), miss.lookup).mismatches:
            if mismatch.guard is None:
                continue
            captured, values = mismatch.entry.captured, mismatch.values
            result.update(captured.dynamic_state)
            often[mismatch.guard.source.name] += 1
            for guard in captured.guards:
                now = values[guard.source.index]
                if guard.kind == "same" and is_plain(type(now)) and not guard.check(now):
                    _note_object(guard.source, values, written, result)
                elif guard.source.name in captured.written or guard.kind == "array" or often[guard.source.name] >= _OFTEN:
                    _note(guard, now, result)
            if captured.guards.once:  # what has been taken from an iterator is gone: there is no second attempt
                result = {name: dims for name, dims in result.items() if dims not in (LENGTH, ITEMS)}
            result.update(_beside(captured, values, result))
        changed: dict[str | Path, Dims] = dict.fromkeys(places)
        changed.update((name, dims) for name, dims in result.items() if name not in self._constant)
        return changed

    def _written_arguments(self, miss: Miss) -> set[Path]:
        """Return the places of numbers in the arguments that a program writes or that are often others, and are others now."""
        results, often = set(self._places), collections.Counter[Path]()
        for captured, part, before in miss.differences:
            if _kind(part.structure) is not None and _kind(part.structure) is _kind(before):
                often[part.path] += 1
                if part.name in captured.written or often[part.path] >= _OFTEN:
                    results.add(part.path)
        return results | {path for part in _lists(Part(miss.call.structure)) for path in _together(part, results)}


def _with_most(
    call: Call, dynamic: Dynamic, capture: Capture
) -> tuple[tuple[Call, Captured] | Exception, frozenset[str | Path]]:
    """Capture a call with as much dynamic state as its code allows; gives what has to be constant, too."""
    result, refused = _attempt(call, dynamic, capture), frozenset[str | Path]()
    if isinstance(result, Exception) and LENGTH in dynamic.values() and not hasattr(result, READ_ONCE):
        dynamic = {name: ITEMS if dims == LENGTH else dims for name, dims in dynamic.items()}
        result = _attempt(call, dynamic, capture)
    if isinstance(result, Exception) and dynamic and not hasattr(result, READ_ONCE):
        result, refused = _largest(call, dynamic, capture)
    if isinstance(result, Exception):
        result = _with_lists(call, result, capture)
    return result, refused


def _attempt(call: Call, dynamic: Dynamic, capture: Capture) -> tuple[Call, Captured] | Exception:
    """Capture a call, or tell why that cannot be; what is raised has passed then, and is no context of what comes later."""
    described = call.with_inputs({place for place in dynamic if isinstance(place, tuple)})
    try:
        return described, capture(described, {name: dims for name, dims in dynamic.items() if isinstance(name, str)})
    except Exception as error:
        return error


def _largest(call: Call, dynamic: Dynamic, capture: Capture) -> tuple[tuple[Call, Captured] | Exception, frozenset[str | Path]]:
    """Capture a call with the state as constants that cannot be dynamic; gives that, too."""
    result = _attempt(call, {}, capture)
    if isinstance(result, Exception) or result[1].guards.once or len(dynamic) == 1:
        return result, frozenset(dynamic)
    taken: dict[str | Path, Dims] = {}
    for name, dims in dynamic.items():
        tried = _attempt(call, {**taken, name: dims}, capture)
        if not isinstance(tried, Exception):
            result, taken[name] = tried, dims
    return result, frozenset(dynamic.keys() - taken.keys())


def _with_lists(call: Call, error: Exception, capture: Capture) -> tuple[Call, Captured] | Exception:
    """Capture a call that cannot be with the objects in lists as they are, of which there are too many; gives why it cannot."""
    names = () if hasattr(error, READ_ONCE) else getattr(error, LISTS, ())
    result = _attempt(call, dict.fromkeys(names, ITEMS), capture) if names else error
    return error if isinstance(result, Exception) else result


def _differences(one: Any, other: Any, before: Part, now: Part) -> Iterator[tuple[Part, Structure]]:
    """Yield the parts of the arguments that differ in the keys of two calls; a number that was an input makes no difference."""
    a, b = before.structure, now.structure
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        if one[1][a.index] != other[1][b.index]:
            yield now, a
    elif isinstance(a, Leaf) and isinstance(b, Const) and type(b.value) is one[1][a.index]:
        return
    elif isinstance(a, (Leaf, Const)) or type(a) is not type(b) or dataclasses.replace(a, items=()) != _without_parts(b):
        if a != b:
            yield now, a
    elif len(before.parts()) != len(now.parts()):
        yield now, a
    else:
        for old, new in zip(before.parts(), now.parts(), strict=True):
            yield from _differences(one, other, old, new)


def _without_parts(structure: Structure) -> Structure:
    return structure if isinstance(structure, (Leaf, Const)) else dataclasses.replace(structure, items=())


def _is_in(name: str, whole: str) -> bool:
    """Tell whether the name of a place in the arguments is that of another one, or of something in it."""
    return name == whole or name.startswith((f"{whole}[", f"{whole}."))


def _can_be_held(part: Part) -> bool:
    """Tell whether a part of the arguments is a container of the caller's; Python itself makes the dict of ``**kwargs``."""
    return len(part.path) > 1 and isinstance(part.structure, HELD)


def _outermost(part: Part) -> Iterator[Path]:
    """Yield the places of the containers of the caller's in the arguments that are in no other, tuples aside."""
    if _can_be_held(part):
        yield part.path
    else:
        for inner in part.parts():
            yield from _outermost(inner)


def _way(part: Part, path: Path) -> list[Part]:
    """Return the parts of the arguments that lead to a place, outside first."""
    inside = next((inner for inner in part.parts() if path[: len(inner.path)] == inner.path), None)
    return [part] if inside is None or part.path == path else [part, *_way(inside, path)]


def _lists(part: Part) -> Iterator[Part]:
    """Yield the lists in some arguments."""
    if isinstance(part.structure, ListOf):
        yield part
    for inner in part.parts():
        yield from _lists(inner)


def _together(part: Part, results: Collection[Path]) -> list[Path]:
    """Return the numbers of a list of which two differ: in a ring, each has its turn."""
    kinds = [_kind(inner.structure) for inner in part.parts() if inner.path in results]
    if len(kinds) < 2 or len(part.parts()) > _MOST:
        return []
    return [inner.path for inner in part.parts() if _kind(inner.structure) is kinds[0]]


def _kind(structure: Structure) -> type | None:
    """Return the kind of number that a constant is."""
    return type(structure.value) if isinstance(structure, Const) and _is_number(structure.value) else None


def _note(guard: Guard, now: Any, results: dict[str, Dims]) -> None:
    """Note what a condition of a program knows as it was, and is another now."""
    name, before = guard.source.name, guard.value
    if guard.kind == "equal" and _is_number(now) and type(before) is type(now) and not guard.check(now):
        results[name] = None
    elif guard.kind == "tensor" and isinstance(now, torch.Tensor) and now.dim() == len(before):
        dims = frozenset(dim for dim, (a, b) in enumerate(zip(now.shape, before)) if a != b)
        if dims:
            results[name] = (results.get(name) or frozenset()) | dims
    elif guard.kind == "array" and type(now) is np.ndarray and not guard.check(now):
        results[name] = None
    elif _is_list_of_any_length(guard, now):
        if results.get(name) != ITEMS:
            results[name] = LENGTH if type(now) is list else ITEMS
    elif guard.kind == "contents" and not guard.check(now):
        results.update(_in_table(name, before, now))


def _note_object(source: Source, values: Sequence[Any], written: Collection[str], results: dict[str, Dims]) -> None:
    """Note an object of a plain class that is another one now, where a program writes it, or the list that it is in."""
    parent = source.parent
    if source.name in written:
        results[source.name] = OBJECT
    elif parent is not None and parent.name in written and type(values[parent.index]) is list:
        results.setdefault(parent.name, LENGTH)


def _is_list_of_any_length(guard: Guard, now: Any) -> bool:
    """Tell whether a list or deque has become longer or shorter, or is too long for its items to be inputs of their own."""
    if guard.kind not in ("keys", "contents") or type(now) not in _LISTS or guard.check(now):
        return False
    before = guard.value
    return len(now) != (before if isinstance(before, int) else len(before)) or len(now) > _LONG


def _in_table(name: str, before: Any, now: Any) -> Iterable[tuple[str, None]]:
    """Return the numbers in a list or dict that was compared as a whole."""
    if isinstance(before, dict) and isinstance(now, dict) and [*before] == [*now]:
        pairs = {key: (before[key], now[key]) for key in before}
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = dict(enumerate(zip(before, now)))
    else:
        return
    if len(pairs) <= _MOST and all(_is_number(new) and type(old) is type(new) for old, new in pairs.values()):
        yield name, None
        yield from ((f"{name}[{shown_key(key)}]", None) for key in pairs)


def _beside(captured: Captured, values: list[Any], results: Mapping[str, Dims]) -> Iterator[tuple[str, None]]:
    """Yield the other numbers of a list of which two differ already: in a ring, each has its turn."""
    items: dict[Source, list[Source]] = {}
    for source in captured.sources:
        if (
            source.parent is not None
            and source.name in captured.written
            and isinstance(values[source.parent.index], (list, collections.deque))
        ):
            items.setdefault(source.parent, []).append(source)
    for sources in items.values():
        changed = [source for source in sources if source.name in results]
        if len(changed) > 1:
            kind = type(values[changed[0].index])
            yield from ((source.name, None) for source in sources if type(values[source.index]) is kind)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
