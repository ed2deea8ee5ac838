"""Which dimension of which argument and result is that of the examples, as ``torch.func.vmap`` has it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dy2st_runtime.batching.values import OF_EXAMPLES, Each, Numbers, Stacked, is_plain, items_of, of_items
from dy2st_runtime.errors import BatchError

Dims = Any
"""An int, ``None``, or a nest of these like the arguments or results."""


class Split:
    """The arguments of a call taken apart.

    Args:
        args, kwargs: of the call.
        in_dims: for ``args``; tensors of ``kwargs`` have the examples first. One for each level, the outermost first.

    Attributes:
        counts: the numbers of examples, one for each level.
        example: ``(args, kwargs)`` of the first example.
        stacked: the tensors of all examples, by the identity of that of the first; the levels are one dimension.

    Raises:
        BatchError: there are no examples, or different numbers of them.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], in_dims: Sequence[Dims]) -> None:
        self.counts: tuple[int, ...] = ()
        self.example: tuple[tuple[Any, ...], dict[str, Any]] = (tuple(args), dict(kwargs))
        stacked: dict[int, torch.Tensor] = {}
        self._kept: list[Any] = []
        for dims in in_dims:
            level = _Level(*self.example, dims)
            self._kept.append(level)
            depth, inner = len(self.counts), dict[int, torch.Tensor]()
            for source, dim, first in level.firsts():
                if id(source) in stacked:
                    inner[id(first)] = stacked[id(source)].movedim(dim + depth, depth)
                else:
                    tensor = source.movedim(dim, 0)
                    inner[id(first)] = tensor.expand(*self.counts, *tensor.shape)
            for leaf in pytree.tree_leaves(level.example):
                if id(leaf) in stacked and id(leaf) not in inner:
                    tensor = stacked[id(leaf)].unsqueeze(depth)
                    inner[id(leaf)] = tensor.expand(*self.counts, level.count, *leaf.shape)
            self.counts, self.example, stacked = (*self.counts, level.count), level.example, inner
        self.stacked = {key: tensor.flatten(0, len(self.counts) - 1) for key, tensor in stacked.items()}

    @property
    def count(self) -> int:
        """The number of examples, of all levels together."""
        return math.prod(self.counts)

    def each(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield ``(args, kwargs)`` of each example."""
        for position in range(self.count):
            yield self._one({key: tensor[position] for key, tensor in self.stacked.items()})

    def _one(self, parts: Mapping[int, torch.Tensor]) -> Any:
        return pytree.tree_map(lambda leaf: parts.get(id(leaf), leaf), self.example)


class _Level:
    """The same of one level of examples.

    Attributes:
        count: the number of examples.
        example: ``(args, kwargs)`` of the first.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any], in_dims: Dims) -> None:
        self._sizes: dict[str, int] = {}
        self._firsts: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        if isinstance(in_dims, list):
            in_dims = tuple(in_dims)
        if isinstance(in_dims, tuple) and len(in_dims) != len(args):
            raise BatchError(f"in_dims is for {len(in_dims)} arguments, and {len(args)} are given by position")
        per_argument = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        first_args = tuple(
            self._visit(value, dim, f"argument {position}", isinstance(in_dims, tuple))
            for position, (value, dim) in enumerate(zip(args, per_argument))
        )
        first_kwargs = {name: self._visit(value, 0, f"argument {name}", False) for name, value in kwargs.items()}
        self.example = (first_args, first_kwargs)
        if not self._sizes:
            raise BatchError("no argument has a dimension for the examples: in_dims must name one of a tensor")
        if len(set(self._sizes.values())) > 1:
            texts = ", ".join(f"{size} in {name}" for name, size in self._sizes.items())
            raise BatchError(f"the arguments have different numbers of examples: {texts}")
        self.count = next(iter(self._sizes.values()))

    def firsts(self) -> Iterator[tuple[torch.Tensor, int, torch.Tensor]]:
        """Yield the tensors with the examples, the dimension of these, and the first of them."""
        for (_, dim), (source, first) in self._firsts.items():
            yield source, dim, first

    def _visit(self, value: Any, dim: Dims, name: str, is_told: bool) -> Any:
        if isinstance(value, torch.Tensor):
            return self._first(value, dim, name)
        if isinstance(dim, Mapping):
            if not isinstance(value, Mapping) or dim.keys() != value.keys():
                raise BatchError(f"in_dims has a dict with other keys than {name}")
            return type(value)({key: self._visit(part, dim[key], f"{name}[{key!r}]", True) for key, part in value.items()})  # type: ignore[call-arg]
        if isinstance(dim, (tuple, list)):
            if not isinstance(value, (tuple, list)) or len(dim) != len(value):
                raise BatchError(f"in_dims has {len(dim)} entries for {name}, which is another structure")
            parts = [self._visit(part, inner, f"{name}[{at}]", True) for at, (part, inner) in enumerate(zip(value, dim))]
            return _like(value, parts)
        if dim is None:
            return value
        leaves, spec = pytree.tree_flatten(value)
        if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            if is_told and isinstance(value, (int, float, bool)):
                raise BatchError(f"in_dims is {dim} for {name}, which is the number {value!r}: give a tensor of numbers, or None")
            return value
        return pytree.tree_unflatten([self._first(leaf, dim, name) for leaf in leaves], spec)

    def _first(self, value: Any, dim: Dims, name: str) -> Any:
        if dim is None or not isinstance(value, torch.Tensor):
            return value
        if type(dim) is not int or not -value.dim() <= dim < value.dim():
            raise BatchError(f"in_dims is {dim!r} for {name}, a tensor of {value.dim()} dimensions")
        key = (id(value), dim % value.dim())
        if key not in self._firsts:
            self._sizes[name] = value.shape[dim]
            if not value.shape[dim]:
                raise BatchError(f"{name} has no examples: its dimension {dim} has the size 0")
            self._firsts[key] = (value, value.select(dim, 0))
        return self._firsts[key][1]


def _like(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, list):
        return parts
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def placed(value: Any, out_dims: Sequence[Dims], counts: Sequence[int]) -> Any:
    """Return a result with its dimensions for the examples where the caller wants them.

    Args:
        value: of all examples, a nest of containers with values of registers in it.
        out_dims: one for all tensors, or a nest like the result; one for each level, the outermost first.
        counts: the numbers of examples.
    """
    count = math.prod(counts)
    if type(value) is Each and all(type(item) is list for item in value.items):
        value = together(value.items)
    if all(isinstance(dims, (tuple, list)) for dims in out_dims) and type(value) not in OF_EXAMPLES:
        if not isinstance(value, (tuple, list)) or any(len(value) != len(dims) for dims in out_dims):
            raise BatchError(f"out_dims has {len(out_dims[0])} entries, and the result is another structure")
        return _like(value, [placed(part, dims, counts) for part, dims in zip(value, zip(*out_dims))])
    if all(isinstance(dims, Mapping) for dims in out_dims) and isinstance(value, dict):
        return {key: placed(part, [dims.get(key, 0) for dims in out_dims], counts) for key, part in value.items()}
    if type(value) in OF_EXAMPLES:
        return _placed(value, out_dims, counts)
    if type(value) is list or type(value) is tuple or hasattr(value, "_fields"):
        return _like(value, [placed(part, out_dims, counts) for part in value])
    if type(value) is dict:
        return {key: placed(part, out_dims, counts) for key, part in value.items()}
    return _same_for_all(value, out_dims, counts, count)


def _same_for_all(value: Any, out_dims: Sequence[Dims], counts: Sequence[int], count: int) -> Any:
    if all(dim is None for dim in out_dims):
        return value
    if is_plain(value):
        return _placed(Stacked(value.unsqueeze(0).expand(count, *value.shape)), out_dims, counts)
    if type(value) in _DTYPES:
        return _placed(Stacked(torch.full((count,), value, dtype=_DTYPES[type(value)])), out_dims, counts)
    return value


_DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _placed(value: Any, out_dims: Sequence[Dims], counts: Sequence[int]) -> Any:
    if type(value) is Numbers:
        value = Stacked(torch.from_numpy(value.array.copy()))
    if type(value) is not Stacked:
        items = items_of(value, math.prod(counts))
        for size in reversed(counts[1:]):
            items = [items[at : at + size] for at in range(0, len(items), size)]
        return items
    result = value.tensor.unflatten(0, tuple(counts))
    for level in reversed(range(len(counts))):
        dim = out_dims[level]
        if dim is None:
            result = _one(result, level)
        else:
            rank = result.dim() - level
            if type(dim) is not int or not -rank <= dim < rank:
                raise BatchError(f"out_dims is {dim!r} for a result of {rank - 1} dimensions")
            result = result.movedim(level, level + dim % rank)
    return result


def _one(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    if not bool((tensor == tensor.narrow(dim, 0, 1)).all()):
        raise BatchError("out_dims is None for a result that differs between the examples")
    return tensor.select(dim, 0)


def together(items: list[Any]) -> Any:
    """Return one structure for results of examples, where they have one; else a list of them."""
    first = items[0]
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        return of_items(items)
    if type(first) is dict and all(item.keys() == first.keys() for item in items):
        return {key: together([item[key] for item in items]) for key in first}
    if isinstance(first, (tuple, list)) and all(len(item) == len(first) for item in items):
        parts = [together(list(column)) for column in zip(*items)]
        if isinstance(first, list):
            return parts
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return of_items(items)
