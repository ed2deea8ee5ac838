"""What the nodes of a program stand for while it is lowered, besides tensors and plain Python values.

Sizes are integers or ``torch.SymInt``; every other number that is known only when the program runs is a :class:`Number`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import statically_known_true

_serial = itertools.count()

DTYPES = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}
"""The dtype of the tensor that carries a number, by its kind."""

Less = tuple[sympy.Expr, sympy.Expr]
"""That the first is less than the second."""


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A Python number that is known when the program runs.

    Attributes:
        kind: ``"bool"``, ``"int"`` or ``"float"``.
        tensor: of no dimension, with the dtype that :data:`DTYPES` gives.
        form: an integer in terms of sizes and of other numbers, where that is known.
        implied: what holds when it is true.
        checks: what it asks of sizes, when it is nothing but the conjunction of that.
    """

    kind: str
    tensor: torch.Tensor
    form: sympy.Expr | None = None
    implied: frozenset[Less] = frozenset()
    checks: tuple[Any, ...] = ()


@dataclasses.dataclass(eq=False)
class ListValue:
    """A list; operations change it in place.

    Attributes:
        items: its items, where their number is known.
        buffer: otherwise its stacked items, with more room than they need.
        length: how many of them there are.
        added: how many items were appended at most since the loop around began; ``None`` where that is not known.
        allotted: whether the buffer has room for all that the loop around appends.
        sequence: or what stands for it in :mod:`~dy2st.lowering.sequences`.
        item: the slot of its items then.
    """

    items: list[Any] | None
    buffer: torch.Tensor | None = None
    length: Number | None = None
    added: Any = 0
    allotted: bool = False
    sequence: torch.Tensor | None = None
    item: Any = None

    def become(self, other: ListValue) -> None:
        """Take over what another list holds."""
        self.items = None if other.items is None else list(other.items)
        self.buffer, self.length, self.added, self.allotted = other.buffer, other.length, other.added, other.allotted
        self.sequence, self.item = other.sequence, other.item


def write_back(operands: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Give what came from outside of a block its new contents.

    Args:
        operands: what the block was given.
        positions: which of the operands it writes to.
        values: its results, then the new contents, in the order of ``positions``.

    Returns:
        The results.
    """
    count = len(values) - len(positions)
    for position, value in zip(positions, values[count:], strict=True):
        outer = operands[position]
        if isinstance(outer, ListValue):
            outer.become(value)
        else:
            outer.copy_(value)
    return tuple(values[:count])


@dataclasses.dataclass(frozen=True, eq=False)
class Unbound:
    """What ``unbind`` gives for a size that is not known: a list that nobody changes.

    Attributes:
        tensor: what was taken apart.
        dim: along which dimension.
    """

    tensor: torch.Tensor
    dim: int


def new_form() -> sympy.Symbol:
    """Return a name for an integer of which nothing is known."""
    return sympy.Symbol(f"number{next(_serial)}", integer=True)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, known or not."""
    return isinstance(value, (bool, int, float, torch.SymInt, Number))


def kind_of(value: Any) -> str:
    """Return ``"bool"``, ``"int"`` or ``"float"``."""
    if isinstance(value, Number):
        return value.kind
    if isinstance(value, bool):
        return "bool"
    return "float" if isinstance(value, float) else "int"


def form_of(value: Any) -> sympy.Expr | None:
    """Return an integer as an expression; ``None`` where there is none."""
    if isinstance(value, Number):
        return value.form
    if isinstance(value, torch.SymInt):
        return value.node.expr
    if isinstance(value, int) and not isinstance(value, bool):
        return sympy.Integer(value)
    return None


def as_tensor(value: Any, kind: str | None = None) -> torch.Tensor:
    """Return a number as a tensor of no dimension.

    Args:
        value: any number.
        kind: which kind to make it; its own if left out.
    """
    dtype = DTYPES[kind or kind_of(value)]
    if isinstance(value, Number):
        return value.tensor.to(dtype)
    if isinstance(value, torch.SymInt):
        result: torch.Tensor = torch.ops.aten.scalar_tensor.default(value, dtype=torch.int64)
        return result.to(dtype)
    return torch.full((), value, dtype=dtype)


def known_later(tensor: torch.Tensor) -> Any:
    """Return the number in a tensor of no dimension as a size; below ``Tensor.item``, which PyTorch cannot run again everywhere."""
    return torch.ops.aten._local_scalar_dense.default(tensor)


def surely(condition: Callable[[], Any]) -> bool:
    """Tell whether a condition on sizes is known to hold; asking leaves no trace in a graph.

    Example:
        >>> surely(lambda: 2 < 3)
        True
    """
    with disable_proxy_modes_tracing():
        return bool(statically_known_true(condition()))


def flatten(values: Sequence[Any]) -> tuple[list[Any], Any]:
    """Take values apart into tensors and sizes, which may go into a block of ``torch.cond``, and a recipe for the rest.

    A tensor or list that occurs twice is one again after :func:`unflatten`.
    """
    leaves: list[Any] = []
    lists: dict[int, int] = {}
    tensors: dict[int, int] = {}

    def visit(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and id(value) in tensors:
            return ("leaf", tensors[id(value)])
        if isinstance(value, (torch.Tensor, torch.SymInt)):
            tensors[id(value)] = len(leaves)
            leaves.append(value)
            return ("leaf", len(leaves) - 1)
        if isinstance(value, Number):
            leaves.append(value.tensor)
            return ("number", len(leaves) - 1, value)
        if isinstance(value, ListValue):
            if id(value) in lists:
                return ("again", lists[id(value)])
            lists[id(value)] = number = len(lists)
            inner = None if value.items is None else [visit(item) for item in value.items]
            held = (visit(value.buffer), visit(value.length), visit(value.sequence))
            return ("list", number, inner, *held, value.added, value.allotted, value.item)
        if isinstance(value, Unbound):
            return ("unbound", visit(value.tensor), value.dim)
        if isinstance(value, tuple):
            return ("tuple", [visit(item) for item in value])
        return ("const", value)

    return leaves, [visit(value) for value in values]


def unflatten(recipes: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Return the inverse of :func:`flatten`, with other leaves."""
    lists: dict[int, ListValue] = {}

    def make(recipe: Any) -> Any:
        match recipe:
            case ("leaf", index):
                return leaves[index]
            case ("number", index, number):
                return dataclasses.replace(number, tensor=leaves[index], checks=())
            case ("list", number, inner, buffer, length, sequence, added, allotted, kind):
                items = None if inner is None else [make(item) for item in inner]
                lists[number] = list_value = ListValue(items, make(buffer), make(length), added, allotted, make(sequence), kind)
                return list_value
            case ("again", number):
                return lists[number]
            case ("unbound", tensor, dim):
                return Unbound(make(tensor), dim)
            case ("tuple", inner):
                return tuple(make(item) for item in inner)
            case (_, value):
                return value

    return [make(recipe) for recipe in recipes]
