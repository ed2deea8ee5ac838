"""State that differs from call to call: what a program writes, and the next call finds changed, is an input of the next program.

    self.calls += 1                               # a number: the second program takes it as an input, and serves the calls after it
    self.cache = torch.cat([self.cache, x])       # a tensor: its first size is any

What is an input is known only when the program runs, and some code needs to know it before: ``self.blocks[self.calls]``,
``getattr(self, f"block{self.calls}")``. What is written so was right as long as the number was a constant; it is captured again
with the number as a constant, and that number stays one: there is a program for each of its values.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from dy2st.capture.environment.guards import Guard
from dy2st.capture.environment.request import GRADIENT, ITEMS, LENGTH, OBJECT
from dy2st.capture.environment.sources import Source, is_in
from dy2st.capture.objects.construction import is_plain
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.trace import LISTS, READ_ONCE
from dy2st.capture.unconverted.island_calls import UnknownIslandError
from dy2st.capture.values import storage
from dy2st.errors import CaptureError
from dy2st.static.cache import Lookup, Mismatch, ProgramCache
from dy2st.static.calls.call import Call, Part, Path, leaf_places
from dy2st.static.calls.varying import PROGRAMS, Difference, containers, differences, outermost, sizes
from dy2st_runtime.ir.structure import Const, ListOf, Structure

Dims = frozenset[int] | None
"""What differs from call to call: some sizes of a tensor, the length of a list (:data:`LENGTH`), or (``None``) a number."""
_MOST = 1024
"""Of a longer list no number becomes an input of its own."""
_LISTS = (list, collections.deque)
_LONG = 128
"""A longer list of numbers is one input, if it can be."""


Dynamic = Mapping[str | Path, Dims]
"""What is dynamic: the names of sources, and the places of numbers in the arguments."""
Capture = Callable[[Call, Mapping[str, Dims]], Captured]
"""Captures a call, given the dynamic state."""


_Tried = tuple[Call, Captured] | Exception
"""A call as a program takes it, and the program; or why there is none."""


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
        for captured, part, *_ in self.differences:
            if any(is_in(name, part.name) for name in captured.written):
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
        """Where in the arguments numbers are inputs since programs write them; arrays are where they can be."""
        self._numbers: frozenset[Path] = frozenset()
        """Where they are as well, since they are often others."""
        self._sizes: Mapping[Path, frozenset[int]] = {}
        """The dimensions of tensors in the arguments that are often others."""
        self._held: frozenset[Path] = frozenset()
        """Where in the arguments containers are followed as state is, since they are others from call to call."""
        self._constant: frozenset[str | Path] = frozenset()
        """What has to stay a constant, or to be taken apart, or to have the sizes that it has."""

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
        containers = [self._held, frozenset[Path]()] if self._held else [self._held]
        sizes = [self._sizes, {}] if self._sizes else [self._sizes]
        for held, dims in itertools.product(containers, sizes):
            form = call.with_held(held).with_sizes(dims)
            yield self.taken(form, self._numbers)
            if self._numbers:
                yield self.taken(form)

    def taken(self, call: Call, numbers: Collection[Path] = ()) -> Call:
        """Return a call with those of its numbers and arrays as inputs that programs write; some other numbers are, too."""
        return call.with_inputs(self._places.union(numbers) | (call.array_places() - self._constant))

    def miss(self, call: Call, lookup: Lookup) -> Miss:
        """Return what is known of a call that a lookup has found no program for."""
        apart, call = call, call.with_held(self._held).with_sizes(self._sizes)
        now = self.taken(call, self._numbers).key
        found = [
            difference
            for key, captured in self._cache.items()
            if key[2:] == now[2:]
            for difference in differences(captured, key, now)
        ]
        return Miss(call, apart, lookup, found)

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

        dynamic = self._changed(miss)
        call, result, refused = self._opened(miss, dynamic, capture)
        constant = frozenset[str | Path]()
        if result is None:
            result, constant = _with_most(call, dynamic, capture)
        if isinstance(result, CaptureError) and not isinstance(result, UnknownIslandError) and not hasattr(result, READ_ONCE):
            other = miss.apart if call.held else call.with_held(frozenset(outermost(Part(call.structure))))
            instead = _with_most(other, {}, capture)[0] if other is not call else result
            if not isinstance(instead, Exception):
                call, result = other, instead
        if isinstance(result, Exception):
            try:
                raise result
            finally:
                del result  # its traceback holds this frame
        self._keep(miss, call, dynamic, constant | refused)
        return result

    def _keep(self, miss: Miss, call: Call, dynamic: Dynamic, refused: frozenset[str | Path]) -> None:
        """Remember what of the arguments is open in a call that has been captured."""
        self._constant |= refused
        self._held = (self._held | call.held) - self._constant
        declared = _dynamic_places(miss.apart)
        for path, dims in _dynamic_places(call).items():
            if dims != declared.get(path) and path not in self._constant:
                self._sizes = {**self._sizes, path: self._sizes.get(path, frozenset()) | dims}
        places = {name for name in dynamic if isinstance(name, tuple)} - miss.call.array_places()
        written = self._written_arguments(miss, often=False)
        self._places = (self._places | (places & written)) - self._constant
        self._numbers = (self._numbers | (places - written)) - self._constant

    def _opened(self, miss: Miss, dynamic: Dynamic, capture: Capture) -> tuple[Call, _Tried | None, frozenset[Path]]:
        """Capture a call with more of its arguments open: containers that are state, and sizes of tensors.

        Returns:
            The call; the program, what can be captured but once, or ``None``, where nothing is opened; and what cannot be opened.
        """
        lists = containers(miss.call.structure, miss.differences, self._constant)
        dims = {path: found for path, found in sizes(miss.differences).items() if path not in self._constant}
        wanted, opened, result = [*lists, *dims], list[Path](), None
        for places in (wanted, *([place] for place in wanted if len(wanted) > 1)) if wanted else ():
            call = self._with_open(miss, {place: dims.get(place) for place in [*opened, *places]})
            names = [name for place in call.held for name in lists.get(place, ()) if name not in self._constant]
            for length in (LENGTH, ITEMS)[: 2 if names else 1]:
                tried = _attempt(call, {**dynamic, **dict.fromkeys(names, length)}, capture)
                if hasattr(tried, READ_ONCE):
                    return call, tried, frozenset()
                if not isinstance(tried, Exception):
                    opened, result = [*opened, *places], tried
                    break
            if opened == wanted:
                break
        return self._with_open(miss, {place: dims.get(place) for place in opened}), result, frozenset(wanted).difference(opened)

    def _with_open(self, miss: Miss, places: Mapping[Path, frozenset[int] | None]) -> Call:
        """Return a call with more containers as state, and more dimensions of the tensors at some places open."""
        held = {place for place, dims in places.items() if dims is None}
        more = {
            path: (places.get(path) or frozenset()) | self._sizes.get(path, frozenset())
            for path in places.keys() | self._sizes.keys()
        }
        return miss.apart.with_held(self._held | held).with_sizes(more)

    def _changed(self, miss: Miss) -> dict[str | Path, Dims]:
        """Return state that a program of this function writes and that is another now."""
        places = (self._written_arguments(miss) | self._numbers | miss.call.array_places()) - self._constant
        result: dict[str, Dims] = {}
        written = {name for _, captured in self._cache.items() for name in captured.written}
        mismatches = self._cache.look_up(miss.call.with_inputs(places), miss.lookup).mismatches
        often = collections.Counter(name for mismatch in mismatches for name in _others(mismatch))
        for mismatch in mismatches:
            if mismatch.guard is None:
                continue
            captured, values = mismatch.entry.captured, mismatch.values
            result.update(captured.dynamic_state)
            for guard in captured.guards:
                now = values[guard.source.index]
                if guard.kind == "same" and is_plain(type(now)) and not guard.check(now):
                    _note_object(guard.source, values, written, result)
                elif _is_about_a_gradient(guard, now, values):
                    result.update({guard.source.name: GRADIENT} if often[guard.source.name] >= PROGRAMS else {})
                elif guard.source.name in captured.written or guard.kind == "array" or often[guard.source.name] >= PROGRAMS:
                    _note(guard, now, result)
            if captured.guards.once:  # what has been taken from an iterator is gone: there is no second attempt
                result = {name: dims for name, dims in result.items() if dims not in (LENGTH, ITEMS)}
            result.update(_beside(captured, values, result))
        changed: dict[str | Path, Dims] = dict.fromkeys(places)
        changed.update((name, dims) for name, dims in result.items() if name not in self._constant)
        return changed

    def _written_arguments(self, miss: Miss, often: bool = True) -> set[Path]:
        """Return the places of numbers in the arguments that a program writes, or that are often others, and are others now."""
        results, programs = set(self._places), collections.Counter[Path]()
        for captured, part, before, _ in miss.differences:
            if _kind(part.structure) is not None and _kind(part.structure) is _kind(before):
                programs[part.path] += 1
                if part.name in captured.written or (often and programs[part.path] >= PROGRAMS):
                    results.add(part.path)
        return results | {path for part in _lists(Part(miss.call.structure)) for path in _together(part, results)}


def _others(mismatch: Mismatch) -> set[str]:
    """Return the names of what is another than a program was captured for."""
    kinds = {"equal", "tensor", "keys", "contents"}
    found = ((guard, mismatch.values[guard.source.index]) for guard in mismatch.entry.captured.guards if guard.kind in kinds)
    return {guard.source.name for guard, now in found if not guard.check(now)}


def _dynamic_places(call: Call) -> dict[Path, frozenset[int]]:
    """Return the dynamic dimensions of the tensors in the arguments, by the places of these."""
    return {path: call.dynamic_dims[position] for position, path in leaf_places(call) if call.dynamic_dims[position]}


def _with_most(call: Call, dynamic: Dynamic, capture: Capture) -> tuple[_Tried, frozenset[str | Path]]:
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


def _attempt(call: Call, dynamic: Dynamic, capture: Capture) -> _Tried:
    """Capture a call, or tell why that cannot be; what is raised has passed then, and is no context of what comes later."""
    described = call.with_inputs({place for place in dynamic if isinstance(place, tuple)})
    try:
        return described, capture(described, {name: dims for name, dims in dynamic.items() if isinstance(name, str)})
    except Exception as error:
        return error


def _largest(call: Call, dynamic: Dynamic, capture: Capture) -> tuple[_Tried, frozenset[str | Path]]:
    """Capture a call with the state as constants that cannot be dynamic, looked for by halves; gives that, too."""
    result = _attempt(call, {}, capture)
    if isinstance(result, Exception) or result[1].guards.once or len(dynamic) == 1:
        return result, frozenset(dynamic)
    taken: dict[str | Path, Dims] = {}
    waiting = _halves(list(dynamic.items()))  # the whole has been tried
    while waiting:
        part = waiting.pop()
        tried = _attempt(call, {**taken, **dict(part)}, capture)
        if not isinstance(tried, Exception):
            result = tried
            taken.update(part)
        elif len(part) > 1:
            waiting += _halves(part)
    return result, frozenset(dynamic.keys() - taken.keys())


def _halves(items: list[Any]) -> list[list[Any]]:
    """Return the second half of a list, and the first."""
    middle = len(items) // 2
    return [items[middle:], items[:middle]]


def _with_lists(call: Call, error: Exception, capture: Capture) -> _Tried:
    """Capture a call that cannot be with the objects in lists as they are, of which there are too many; gives why it cannot."""
    names = () if hasattr(error, READ_ONCE) else getattr(error, LISTS, ())
    result = _attempt(call, dict.fromkeys(names, ITEMS), capture) if names else error
    return error if isinstance(result, Exception) else result


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


def _is_about_a_gradient(guard: Guard, now: Any, values: Sequence[Any]) -> bool:
    """Tell whether a tensor has a gradient now and had none, or had one."""
    parent = guard.source.parent
    if parent is None or guard.source.key[0] != "attribute" or guard.source.key[-1] != "grad" or guard.check(now):
        return False
    had, has = guard.kind == "tensor", isinstance(now, torch.Tensor)
    return isinstance(values[parent.index], torch.Tensor) and (has if guard.kind == "equal" else had and now is None)


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
        yield from ((f"{name}[{storage.shown_key(key)}]", None) for key in pairs)


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
