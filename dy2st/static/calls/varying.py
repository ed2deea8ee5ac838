"""Arguments that are others at each call: what of them the next program leaves open, so that it serves the calls after it.

    boxes: list of 3, of 5, of 2 tensors    the list is followed as state is, and becomes a list of the program
    x: 8 x 3, 5 x 3, 12 x 3                 the first size is any
    scale: 0.1, 0.2, 0.4                    the number is an input

The first programs are captured for what they are given. One that writes to a container, and finds it changed at the next call, is
followed by one that takes any; else it takes one program more to tell what varies from what has two values.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dy2st.capture.environment.sources import is_in
from dy2st.capture.outputs.captured import Captured
from dy2st.static.calls.call import HELD, Part, Path
from dy2st.static.calls.leaves import SIZES
from dy2st_runtime.ir.structure import Const, Leaf, ListOf, Structure

PROGRAMS = 2
"""So many programs have to be there for other contents of one container, or another value of one number or size, before it is left
open.
"""


class Difference(NamedTuple):
    """A part of a call's arguments that is another than a program was captured for.

    Attributes:
        captured: the program.
        part: what is there now, and where.
        before: what was there.
        sizes: the dimensions of a tensor that differ, where nothing else of it does.
    """

    captured: Captured
    part: Part
    before: Structure
    sizes: frozenset[int] = frozenset()


def differences(captured: Captured, key: Any, now: Any) -> Iterator[Difference]:
    """Yield how the arguments of a call with one key differ from those that a program with another key was captured for.

    A number that was an input makes no difference.
    """
    return _differences(captured, key[1], now[1], Part(key[0]), Part(now[0]))


def _differences(captured: Captured, one: Any, other: Any, before: Part, now: Part) -> Iterator[Difference]:
    a, b = before.structure, now.structure
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        if one[a.index] != other[b.index]:
            yield Difference(captured, now, a, _sizes(one[a.index], other[b.index]))
    elif isinstance(a, Leaf) and isinstance(b, Const) and type(b.value) is one[a.index]:
        return
    elif isinstance(a, (Leaf, Const)) or type(a) is not type(b) or _without_parts(a) != _without_parts(b):
        if a != b:
            yield Difference(captured, now, a)
    elif len(before.parts()) != len(now.parts()):
        yield Difference(captured, now, a)
    else:
        for old, new in zip(before.parts(), now.parts(), strict=True):
            yield from _differences(captured, one, other, old, new)


def _without_parts(structure: Structure) -> Structure:
    return structure if isinstance(structure, (Leaf, Const)) else dataclasses.replace(structure, items=())


def _sizes(one: Any, other: Any) -> frozenset[int]:
    """Return the dimensions in which the sizes in the keys of two tensors or arrays differ, where nothing else in them does."""
    if type(one) is type(other) is tuple and one[0] is other[0] is np.ndarray:
        return _sizes(one[1], other[1])
    if type(one) is not tuple or type(other) is not tuple or len(one) != len(other):
        return frozenset()
    places = [place for place, (a, b) in enumerate(zip(one, other)) if a != b]
    if places != [SIZES] or len(one[SIZES]) != len(other[SIZES]):
        return frozenset()
    return frozenset(dim for dim, (a, b) in enumerate(zip(one[SIZES], other[SIZES])) if a != b and None not in (a, b))


def sizes(found: Sequence[Difference]) -> dict[Path, frozenset[int]]:
    """Return the tensors that several programs were captured for, with the dimensions in which these differ."""
    programs = collections.defaultdict[Path, list[frozenset[int]]](list)
    for difference in found:
        if difference.sizes:
            programs[difference.part.path].append(difference.sizes)
    return {path: frozenset().union(*dims) for path, dims in programs.items() if len(dims) >= PROGRAMS}


def containers(root: Structure, found: Sequence[Difference], apart: Collection[Any]) -> dict[Path, list[str]]:
    """Return the containers that programs write or that are often others, with the names of lists in them that differ in length.

    Args:
        root: of the arguments.
        found: how they differ from those of programs.
        apart: the places of containers that have to be taken apart.
    """
    programs, written = collections.defaultdict[Path, set[int]](set), set[Path]()
    results: dict[Path, list[str]] = {}
    for captured, part, _, _ in found:
        way = _way(Part(root), part.path)
        first = next((i for i, one in enumerate(way) if _can_be_held(one)), None)
        if first is None or way[first].path in apart or not isinstance(part.structure, HELD):
            continue
        place, name = way[first].path, way[first].name
        programs[place].add(id(captured))
        if any(is_in(one, name) for one in captured.written):
            written.add(place)
        lists = (one.name for one in way[first:] if isinstance(one.structure, ListOf))
        results.setdefault(place, []).extend(itertools.islice(lists, 1))
    wanted = {place for place, captured_for in programs.items() if len(captured_for) >= PROGRAMS}
    return {place: names for place, names in results.items() if place in written | wanted}


def _can_be_held(part: Part) -> bool:
    """Tell whether a part of the arguments is a container of the caller's; Python itself makes the dict of ``**kwargs``."""
    return len(part.path) > 1 and isinstance(part.structure, HELD)


def outermost(part: Part) -> Iterator[Path]:
    """Yield the places of the containers of the caller's in the arguments that are in no other, tuples aside."""
    if _can_be_held(part):
        yield part.path
    else:
        for inner in part.parts():
            yield from outermost(inner)


def _way(part: Part, path: Path) -> list[Part]:
    """Return the parts of the arguments that lead to a place, outside first."""
    inside = next((inner for inner in part.parts() if path[: len(inner.path)] == inner.path), None)
    return [part] if inside is None or part.path == path else [part, *_way(inside, path)]
