"""What a register holds for several examples at once.

| a value | stands for |
|---|---|
| any other object | the same value for all examples |
| :class:`Stacked` | a tensor for each, all of one shape: one tensor with the examples as its first dimension |
| :class:`Ragged` | a tensor for each, of several shapes: a stack for each shape |
| :class:`Numbers` | a bool, an int of 64 bits or a float for each: an array of NumPy |
| :class:`Each` | an object for each |

What several examples have in common is never changed in place: what is written is made for each of them first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Positions = np.ndarray[Any, np.dtype[np.int64]]
"""Positions of examples among others."""

_LIMIT = 2**63
KINDS: dict[type, type] = {bool: np.bool_, int: np.int64, float: np.float64}
"""The dtypes of the arrays of Python's numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stacked:
    """A tensor for each example, all of one shape.

    Attributes:
        tensor: its first dimension is that of the examples.
    """

    tensor: torch.Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Ragged:
    """A tensor for each example, of several shapes or dtypes.

    Attributes:
        labels: for each example the number of its part.
        parts: of each number, the tensors of its examples in order, stacked.
    """

    labels: Positions
    parts: tuple[torch.Tensor, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Numbers:
    """A number for each example.

    Attributes:
        array: of ``bool``, ``int64`` or ``float64``, for Python's ``bool``, ``int`` and ``float``.
    """

    array: np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Each:
    """An object for each example.

    Attributes:
        items: the objects. Tensors among them may be views, so that what is written to them is written to what they are views of.
    """

    items: list[Any]


OF_EXAMPLES = (Stacked, Numbers, Ragged, Each)
"""The kinds of values that differ from example to example."""


def differs(value: Any) -> bool:
    """Tell whether a value is one for each example."""
    return type(value) in OF_EXAMPLES


def items_of(value: Any, count: int) -> list[Any]:
    """Return the value of each example; tensors are views.

    Args:
        value: of a register.
        count: the number of examples.
    """
    kind = type(value)
    if kind is Stacked:
        return list(value.tensor.unbind(0))
    if kind is Numbers:
        return value.array.tolist()  # type: ignore[no-any-return]
    if kind is Each:
        return list(value.items)
    if kind is Ragged:
        rest = [iter(part.unbind(0)) for part in value.parts]
        return [next(rest[label]) for label in value.labels.tolist()]
    if kind is tuple:
        return list(zip(*(items_of(part, count) for part in value))) if value else [()] * count
    return [value] * count


def of_items(items: Sequence[Any]) -> Any:
    """Return a register for values of the examples, of the best kind. Tensors are copied.

    Args:
        items: at least one.
    """
    first = items[0]
    if isinstance(first, torch.Tensor):
        return _of_tensors(items)
    kind = type(first)
    if kind in KINDS and all(type(item) is kind for item in items):
        if kind is int and not all(-_LIMIT <= item < _LIMIT for item in items):
            return Each(list(items))
        return Numbers(np.array(items, KINDS[kind]))
    if kind is tuple and first and all(type(item) is tuple and len(item) == len(first) for item in items):
        return tuple(of_items(column) for column in zip(*items))
    if first is None and all(item is None for item in items):
        return None
    if kind is str and all(item == first for item in items):
        return first
    return Each(list(items))


def _of_tensors(items: Sequence[Any]) -> Any:
    labels, numbers = np.empty(len(items), np.int64), dict[Any, int]()
    for position, item in enumerate(items):
        if not is_plain(item):
            return Each(list(items))
        labels[position] = numbers.setdefault((item.shape, item.dtype, item.device), len(numbers))
    if len(numbers) == 1:
        return Stacked(torch.stack(list(items)))
    groups: list[list[torch.Tensor]] = [[] for _ in numbers]
    for label, item in zip(labels.tolist(), items):
        groups[label].append(item)
    return Ragged(labels, tuple(map(torch.stack, groups)))


def is_plain(value: Any) -> bool:
    """Tell whether a value is a tensor that can be stacked: strided, and of torch's own class."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout is torch.strided
        and not value.is_nested
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
    )


def views(value: Any, count: int) -> Any:
    """Return the same value with a view for each example of what may be written."""
    if type(value) is Stacked:
        with torch.enable_grad():  # autograd lets no view be written that was made without it, nor one of those of unbind
            return Each([value.tensor[position] for position in range(count)])
    if type(value) is tuple:
        return tuple(views(part, count) for part in value)
    return Each(items_of(value, count)) if type(value) is Ragged else value


def take(value: Any, positions: Positions) -> Any:
    """Return the value for some of the examples.

    Args:
        value: of a register.
        positions: of the examples, each at most once.
    """
    kind = type(value)
    if kind is Stacked:
        return Stacked(
            value.tensor.index_select(0, torch.from_numpy(positions))
            if value.tensor.device.type == "cpu"
            else value.tensor[positions]
        )
    if kind is Numbers:
        return Numbers(value.array[positions])
    if kind is Each:
        return Each([value.items[position] for position in positions.tolist()])
    if kind is Ragged:
        return _take_ragged(value, positions)
    if kind is tuple:
        return tuple(take(part, positions) for part in value)
    return value


def ranks_in(labels: Positions) -> Positions:
    """Return for each example its position among those of its part."""
    ranks = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        chosen = labels == label
        ranks[chosen] = np.arange(int(chosen.sum()))
    return ranks


def _take_ragged(value: Ragged, positions: Positions) -> Any:
    labels, ranks = value.labels[positions], ranks_in(value.labels)[positions]
    numbers, labels = np.unique(labels, return_inverse=True)
    parts = []
    for position, number in enumerate(numbers.tolist()):
        chosen = torch.from_numpy(ranks[labels == position])
        parts.append(value.parts[number].index_select(0, chosen.to(value.parts[number].device)))
    return Stacked(parts[0]) if len(parts) == 1 else Ragged(labels, tuple(parts))


def join(pieces: Sequence[tuple[Positions, Any]], count: int, written: bool = False) -> Any:
    """Return one value for all examples.

    Args:
        pieces: positions of examples, with the value for these; each example stands in one of them.
        count: the number of examples.
        written: whether tensors may be written in place, so that they must stay what they are.
    """
    if len(pieces) == 1 and np.array_equal(pieces[0][0], np.arange(count)):
        return pieces[0][1]
    values = [value for _, value in pieces]
    kinds = {type(value) for value in values}
    first = values[0]
    if not any(map(differs, values)) and all(_is_same(first, value) for value in values):
        return first
    if kinds == {tuple} and len({len(value) for value in values}) == 1:
        return tuple(join([(positions, value[at]) for positions, value in pieces], count, written) for at in range(len(first)))
    if not written:
        stacked = _join_tensors(pieces, count)
        if stacked is None and kinds == {Numbers} and len({value.array.dtype for value in values}) == 1:
            array = np.empty(count, first.array.dtype)
            for positions, value in pieces:
                array[positions] = value.array
            return Numbers(array)
        if stacked is not None:
            return stacked
    items: list[Any] = [None] * count
    for positions, value in pieces:
        own = views(value, len(positions)) if written else value
        for position, item in zip(positions.tolist(), items_of(own, len(positions))):
            items[position] = item
    return Each(items) if written and any(isinstance(item, torch.Tensor) for item in items) else of_items(items)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, str)) and a == b)


def _join_tensors(pieces: Sequence[tuple[Positions, Any]], count: int) -> Stacked | None:
    parts = []
    for positions, value in pieces:
        if type(value) is Stacked:
            parts.append(value.tensor)
        elif is_plain(value):
            parts.append(value.unsqueeze(0).expand(len(positions), *value.shape))
        else:
            return None
    if len({(part.shape[1:], part.dtype, part.device) for part in parts}) > 1:
        return None
    order = np.empty(count, np.int64)
    order[np.concatenate([positions for positions, _ in pieces])] = np.arange(count)
    return Stacked(torch.cat(parts).index_select(0, torch.from_numpy(order).to(parts[0].device)))


def truth(pred: Any, count: int) -> Any:
    """Return whether a condition holds: a bool where it is the same for all examples, else an array."""
    if not differs(pred):
        return bool(pred)
    if type(pred) is Stacked and pred.tensor[0].numel() == 1:
        result = (pred.tensor.detach().reshape(-1) != 0).cpu().numpy()
    elif type(pred) is Numbers:
        result = pred.array.astype(np.bool_)
    else:
        result = np.array([bool(item) for item in items_of(pred, count)], np.bool_)
    if result.all():
        return True
    return result if result.any() else False
