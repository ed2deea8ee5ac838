"""A call taken apart: what decides which program it runs.

A call is taken apart into tensors, opaque objects (modules, user objects: what a program reads of them is guarded one by one) and
constants. Dtypes, devices, sizes and constants are part of the key; sizes that are declared dynamic are not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.values import storage
from dy2st.static.calls.leaves import leaf_keys
from dy2st_runtime.arrays.calls import in_memory
from dy2st_runtime.ir.flattening import attributes, children
from dy2st_runtime.ir.structure import CollectionOf, Const, DictOf, Leaf, ListOf, ObjectOf, Shared, Structure, walk
from dy2st_runtime.ir.unflattening import unflatten

Path = tuple[Any, ...]
"""A place in ``(args, kwargs)``: the positions, keys and fields that lead there."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call, taken apart.

    Attributes:
        structure: how ``(args, kwargs)`` are made from the leaves.
        leaves: tensors and opaque objects.
        names: one for each leaf.
        key: hashable; calls with equal keys can share a program.
        dynamic_dims: for each leaf, the dimensions that are declared dynamic.
        given: ``(args, kwargs)`` as they are, for the containers among them that the function changes.
        numbers: the places in the arguments whose numbers are leaves too, and no constants.
        arrays: the positions of the leaves that are tensors in the memory of NumPy's arrays.
        held: the places in the arguments whose containers are leaves, and not taken apart.
    """

    structure: Structure
    leaves: list[Any]
    names: list[str]
    key: Any
    dynamic_dims: list[frozenset[int]]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    numbers: frozenset[Path] = frozenset()
    arrays: frozenset[int] = frozenset()
    held: frozenset[Path] = frozenset()

    @property
    def arguments(self) -> list[Any]:
        """What the sources of a program start from: the leaves, and then everything as it was given."""
        return [*self.leaves, self.given]

    @property
    def inputs(self) -> list[Any]:
        """The leaves that are tensors or numbers: the inputs of the program."""
        return [leaf for leaf in self.leaves if isinstance(leaf, (torch.Tensor, int, float))]

    def array_places(self) -> frozenset[Path]:
        """Return the places in the arguments where there are arrays of NumPy."""
        positions = {position for position, leaf in enumerate(self.leaves) if type(leaf) is np.ndarray}
        if not positions:
            return frozenset()
        return frozenset(path for position, path in _leaves(Part(self.structure)) if position in positions)

    def with_own_arrays(self) -> Call:
        """Return the same call with copies of the arrays of NumPy among its arguments: none of them is state of the function."""
        copies = {id(leaf): leaf.copy("K") for leaf in self.leaves if in_memory(leaf) is not None}
        if not copies:
            return self
        leaves = [copies.get(id(leaf), leaf) for leaf in self.leaves]
        return dataclasses.replace(self, leaves=leaves, given=unflatten(self.structure, leaves))

    def with_held(self, places: Collection[Path]) -> Call:
        """Return the same call with the containers at some places of the arguments as opaque objects, whose contents are guarded as
        state is; itself where there are none, where sizes are declared, or where a container stands in two places.
        """
        if not places or any(self.dynamic_dims) or any(isinstance(part, Shared) for part in walk(self.structure)):
            return self
        return _Holding(self, places).call()

    def with_sizes(self, sizes: Mapping[Path, frozenset[int]]) -> Call:
        """Return the same call with more dimensions of the tensors and arrays at some places of the arguments as dynamic ones."""
        dims = [*self.dynamic_dims]
        for position, path in _leaves(Part(self.structure)) if sizes else ():
            leaf, more = self.leaves[position], sizes.get(path, frozenset())
            if isinstance(leaf, np.ndarray) or (isinstance(leaf, torch.Tensor) and not leaf.is_nested):
                dims[position] |= {dim for dim in more if dim < leaf.ndim}
        if dims == self.dynamic_dims:
            return self
        key = (self.structure, leaf_keys(self.leaves, dims), *self.key[2:])
        return dataclasses.replace(self, dynamic_dims=dims, key=key)

    def with_inputs(self, places: Collection[Path]) -> Call:
        """Return the same call with what is at some places of the arguments as inputs: numbers, and arrays of NumPy."""
        return self._with_arrays(places)._with_numbers(places) if places else self

    def _with_arrays(self, places: Collection[Path]) -> Call:
        """Return the same call with tensors in the memory of the arrays at some places of the arguments, where torch has some."""
        if not self.array_places():
            return self
        leaves, arrays, tensors = [*self.leaves], set[int](), dict[int, torch.Tensor | None]()
        for position, path in _leaves(Part(self.structure)):
            array = leaves[position]
            if path in places and type(array) is np.ndarray:
                tensor = tensors.setdefault(id(array), in_memory(array))
                if tensor is not None:
                    leaves[position] = tensor
                    arrays.add(position)
        if not arrays:
            return self
        keys = leaf_keys(leaves, self.dynamic_dims)
        keys = tuple((np.ndarray, key) if position in arrays else key for position, key in enumerate(keys))
        key = (self.structure, keys, *self.key[2:])
        return dataclasses.replace(self, leaves=leaves, key=key, arrays=frozenset(arrays))

    def _with_numbers(self, places: Collection[Path]) -> Call:
        leaves, names, result = [*self.leaves], [*self.names], set[Path]()

        def visit(part: Part) -> Structure:
            structure, path = part.structure, part.path
            if isinstance(structure, Const) and path in places and type(structure.value) in (int, float):
                result.add(path)
                leaves.append(structure.value)
                names.append(part.name)
                return Leaf(len(leaves) - 1)
            if isinstance(structure, (Leaf, Const)) or not any(place[: len(path)] == path for place in places):
                return structure
            return dataclasses.replace(structure, items=tuple(map(visit, part.parts())))

        structure = visit(Part(self.structure))
        if not result:
            return self
        added = leaves[len(self.leaves) :]
        dims = [*self.dynamic_dims, *(frozenset[int]() for _ in added)]
        key = (structure, (*self.key[1], *map(type, added)), *self.key[2:])
        return Call(structure, leaves, names, key, dims, self.given, frozenset(result), self.arrays, self.held)

    def describe(self) -> str:
        """Return the arguments in words."""
        args, kwargs = self.given
        texts = ", ".join([*map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())])
        modes = "" if torch.is_grad_enabled() else " without gradients"
        return f"({texts}){modes}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the structure of a call's arguments.

    Attributes:
        structure: the part.
        path: where it stands.
        name: the same as the sources of programs are named.
    """

    structure: Structure
    path: Path = ()
    name: str = "arguments"

    def parts(self) -> list[Part]:
        """Return what it is made of."""
        structure = self.structure
        if isinstance(structure, (Leaf, Const)):
            return []
        if isinstance(structure, CollectionOf):  # a kind of dict
            return [Part(item, self.path, self.name) for item in structure.items]
        if isinstance(structure, Shared):
            return [Part(item, (*self.path, 0), self.name) for item in structure.items]
        steps: Sequence[Any] = range(len(structure.items))
        text = "{}[{!r}]"
        if isinstance(structure, DictOf):
            steps = structure.keys
        elif isinstance(structure, ObjectOf):
            steps, text = structure.fields, "{}.{}"
        return [
            Part(item, (*self.path, step), text.format(self.name, step)) for step, item in zip(steps, structure.items, strict=True)
        ]


HELD = (ListOf, DictOf, CollectionOf, ObjectOf)
"""The structures of containers that may be followed as state is."""


class _Holding:
    """Takes the containers at some places of a call's arguments as leaves."""

    def __init__(self, call: Call, places: Collection[Path]) -> None:
        self._call, self._places = call, places
        self._leaves: list[Any] = []
        self._names: list[str] = []
        self._held: set[Path] = set()

    def call(self) -> Call:
        call = self._call
        structure = self._visit(Part(call.structure), call.given)
        if not self._held:
            return call
        dims = [frozenset[int]()] * len(self._leaves)
        key = (structure, leaf_keys(self._leaves, dims), *call.key[2:])
        return Call(structure, self._leaves, self._names, key, dims, call.given, held=frozenset(self._held))

    def _visit(self, part: Part, value: Any) -> Structure:
        structure, path = part.structure, part.path
        if isinstance(structure, Const):
            return structure
        if isinstance(structure, Leaf):
            return self._leaf(self._call.leaves[structure.index], self._call.names[structure.index])
        if path in self._places and isinstance(structure, HELD):
            self._held.add(path)
            return self._leaf(value, part.name)
        parts = part.parts()
        values = [value if inner.path == path else _part_of(value, inner.path[-1]) for inner in parts]
        return dataclasses.replace(structure, items=tuple(map(self._visit, parts, values)))

    def _leaf(self, value: Any, name: str) -> Leaf:
        self._leaves.append(value)
        self._names.append(name)
        return Leaf(len(self._leaves) - 1)


def _part_of(container: Any, step: Any) -> Any:
    """Return what a container holds at a step of a path; what has no steps of this kind holds nothing that is looked for."""
    if isinstance(container, dict):
        return dict.get(container, step)
    if isinstance(container, (tuple, list)):
        return storage.plain(container)[step]
    return attributes(container).get(step)


def leaf_places(call: Call) -> Iterator[tuple[int, Path]]:
    """Yield the positions of the leaves of a call, with the places in the arguments where they stand."""
    return _leaves(Part(call.structure))


def _leaves(part: Part) -> Iterator[tuple[int, Path]]:
    """Yield the leaves, by their positions, with the places where they stand."""
    if isinstance(part.structure, Leaf):
        yield part.structure.index, part.path
    for inner in part.parts():
        yield from _leaves(inner)


def part_names(container: Any) -> list[Any]:
    """Return the keys or positions of what a container holds."""
    parts = children(container)
    return list(container) if isinstance(container, dict) else list(range(len(parts[0]) if parts else 0))


def shown(value: Any) -> str:
    """Return a value in a message: short, and never the contents of a tensor."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {value.dtype}"
    if children(value) is not None:
        return f"a {type(value).__name__} of {part_names(value)}"
    return repr(value) if isinstance(value, CONSTANTS) else f"a {type(value).__name__}"
