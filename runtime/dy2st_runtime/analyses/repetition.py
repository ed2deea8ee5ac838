"""Finds the iterations of a loop that was written out, or the layers of a model, in a long list of operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy
import torch
from torch import fx

from dy2st_runtime.ir.operators import present

LONG = 500
"""How many operations a list has that is worth cutting."""

PIECE = 200
"""How many operations a piece of several repetitions has, about."""

LONGEST_PERIOD = 1000
"""How many operations a repetition has that is looked for."""

_POSITIONS = frozenset(present("select.int", "slice.Tensor", "narrow.default"))


@dataclasses.dataclass(frozen=True)
class Pieces:
    """A list of operations in pieces.

    Attributes:
        head: how many operations come before the first piece.
        length: of a piece; what is behind the last one is less than a piece, or no repetition.
        count: how many pieces there are.
        slopes: by place in a piece and place among the constants of that operation, by how much an integer grows from one piece
            to the next.
    """

    head: int
    length: int
    count: int
    slopes: dict[tuple[int, int], int]


def pieces_of(nodes: Sequence[fx.Node]) -> Pieces | None:
    """Return how to cut a list of operations so that the pieces do the same with other operands.

    Args:
        nodes: operations in order.

    Returns:
        ``None`` where the list is short, or does not repeat itself.
    """
    if len(nodes) < LONG:
        return None
    result = _period([(node.target, node.meta.get("type"), len(node.all_input_nodes)) for node in nodes])
    if result is None:
        return None
    start, period, end = result
    length = period * _together((end - start) // period, max(1, PIECE // period))
    count = (end - start) // length
    if count < 2:
        return None
    slopes = _slopes([nodes[start + index * length : start + (index + 1) * length] for index in range(count)])
    return None if slopes is None else Pieces(start, length, count, slopes)


def _together(repetitions: int, most: int) -> int:
    """Return how many repetitions make a piece, so that few are left over."""
    return min(range(most, most // 2, -1), key=lambda together: repetitions % together)


def _period(keys: Sequence[Hashable]) -> tuple[int, int, int] | None:
    """Return where the longest repetition starts, what its period is, and where it ends.

    ``None`` if it is less than half of the keys.
    """
    numbers: dict[Hashable, int] = {}
    codes = numpy.array([numbers.setdefault(key, len(numbers)) for key in keys])
    for period in range(1, min(len(codes) // 2, LONGEST_PERIOD)):
        same = numpy.flatnonzero(numpy.concatenate(([True], codes[period:] != codes[:-period], [True])))
        lengths = numpy.diff(same) - 1
        longest = int(lengths.argmax())
        if lengths[longest] + period > len(codes) // 2 and lengths[longest] >= period:
            start = int(same[longest])
            return start, period, start + int(lengths[longest]) + period
    return None


def _slopes(pieces: Sequence[Sequence[fx.Node]]) -> dict[tuple[int, int], int] | None:
    """By how much each integer that is not the same in all pieces grows; ``None`` where a constant changes in another way."""
    slopes: dict[tuple[int, int], int] = {}
    for place, nodes in enumerate(zip(*pieces, strict=True)):
        for index, values in enumerate(zip(*map(constants_of, nodes))):
            first = values[0]
            if all(type(value) is type(first) and value == first for value in values):
                continue
            if nodes[0].target not in _POSITIONS or any(type(value) is not int for value in values):
                return None
            slope = values[1] - first
            if any(value != first + slope * position for position, value in enumerate(values)):
                return None
            slopes[place, index] = slope
    return slopes


def constants_of(node: fx.Node) -> list[Any]:
    """Return what an operation takes that no other operation computes."""
    leaves = torch.utils._pytree.tree_leaves((node.args, node.kwargs))
    return [leaf for leaf in leaves if not isinstance(leaf, fx.Node)]
