"""What a loop carries, found by shape tracing: iterations on values of which no more is known than stays true in the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from dy2st.lowering.arithmetic import truth
from dy2st.lowering.context import Context, refuse
from dy2st.lowering.control_flow import growth, joins, slots
from dy2st.lowering.control_flow.joins import NoJoinError
from dy2st.lowering.control_flow.slots import (
    BufferSlot,
    Fixed,
    ListSlot,
    NumberSlot,
    SequenceSlot,
    Slot,
    TensorSlot,
    TupleSlot,
    UnboundSlot,
)
from dy2st.lowering.values import DTYPES, ListValue, Number, Unbound, flatten, form_of, known_later, new_form, unflatten

_MOST_TRACES = 8

Iteration = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, list[Any]]]
"""Takes the variables of a loop and its operands; gives the next condition and the next variables."""


@dataclasses.dataclass
class Analysis:
    """What shape tracing of a loop found.

    Attributes:
        slots: of the variables.
        names: the symbols of numbers and sizes that change, by variable and dimension.
        pred: the condition that an iteration gives.
        results: the variables that an iteration gives, in terms of those symbols.
        variables: those that the loop starts from.
        sizes: what is at hand before the loop.
    """

    slots: list[Slot]
    names: dict[tuple[int, ...], sympy.Symbol]
    pred: Any
    results: list[Any]
    variables: list[Any]
    sizes: growth.Sizes
    count: Any = None

    def forms(self) -> dict[sympy.Symbol, tuple[Any, Any]]:
        return {name: (_form_at(self.variables, path), _form_at(self.results, path)) for path, name in self.names.items()}

    def bounds(self, pred: Any) -> dict[sympy.Symbol, sympy.Expr]:
        """Upper bounds for the sizes that change; sets ``count``, the one for the number of iterations."""
        forms = self.forms()
        self.count = growth.iterations(self.pred.implied, forms) if isinstance(self.pred, Number) else None
        if self.pred is False:
            self.count = sympy.Integer(1)
        if self.count is not None and not _implies_an_iteration(pred, self.count):
            self.count = sympy.Max(self.count, 1)
        known: dict[sympy.Symbol, sympy.Expr] = {}
        for _ in forms:
            for name in forms:
                if name not in known and (bound := growth.largest(name, forms, self.count, known)) is not None:
                    known[name] = bound
        return known

    def total(self, result: Any, first: Any) -> Any:
        """Return how many items the whole loop appends to a list at most; ``None`` if that is not known."""
        if self.count is None or not isinstance(result, ListValue) or result.added is None:
            return None
        each = sympy.sympify(result.added)
        return None if each.free_symbols & set(self.names.values()) else self.count * each


def trace_shapes(context: Context, node: fx.Node, iteration: Iteration, variables: list[Any], operands: Sequence[Any]) -> Analysis:
    """Return what a loop carries.

    Args:
        context: the program.
        node: the loop.
        iteration: makes one.
        variables: those that it starts from.
        operands: what else it takes.

    Raises:
        ExportError: it is of another kind at each iteration.
    """
    collected = [_start(value) for value in variables]
    leaves, recipes = flatten(operands)
    sizes = growth.Sizes(_sizes([*variables, *operands]))
    for value in _numbers([*variables, *operands]):
        sizes.add(value.form, value.tensor)
    with context.shape_tracing():
        for _ in range(_MOST_TRACES):
            names: dict[tuple[int, ...], sympy.Symbol] = {}
            blanks = [_blank(slot, names, (number,)) for number, slot in enumerate(collected)]
            pred, results = iteration(blanks, unflatten(recipes, leaves))
            wider = [_wider(node, slot, result, sizes) for slot, result in zip(collected, results)]
            if [_key(slot) for slot in wider] == [_key(slot) for slot in collected]:
                return Analysis(collected, names, truth(pred) if pred is not None else False, results, variables, sizes)
            collected = wider
    raise refuse(node, "what this loop carries is of another kind at each iteration")


def _wider(node: fx.Node, slot: Slot, result: Any, sizes: growth.Sizes) -> Slot:
    try:
        return _known_sizes(joins.join_slots(slot, slots.slot_of(result)), sizes)
    except NoJoinError as error:
        raise refuse(
            node, f"a loop variable is of different kinds at different iterations: {error}", "give it one dtype before the loop"
        ) from None


def _implies_an_iteration(pred: Any, count: sympy.Expr) -> bool:
    """Tell whether a bound for the number of iterations is positive whenever the first iteration happens."""
    if isinstance(pred, Number):
        return any(sympy.expand(right - left - count) == 0 for left, right in pred.implied)
    return bool(count.is_positive)


def _form_at(values: Sequence[Any], path: tuple[int, ...]) -> Any:
    value = values[path[0]]
    if len(path) == 1:
        return form_of(value)
    return form_of(value.shape[path[1]]) if isinstance(value, torch.Tensor) else sympy.Integer(0) if value is None else None


def _start(value: Any) -> Slot:
    """Return the slot of a first value; a list that is a buffer already may go on growing."""
    slot = slots.slot_of(value)
    return dataclasses.replace(slot, room=None, added=0) if isinstance(slot, BufferSlot) else slot


def _blank(slot: Slot, names: dict[tuple[int, ...], sympy.Symbol], path: tuple[int, ...]) -> Any:
    """Return a value of a slot of which nothing else is known."""
    match slot:
        case Fixed(value):
            return value
        case NumberSlot(kind):
            form = new_form() if kind == "int" else None
            if form is not None and len(path) == 1:
                names[path] = form
            return Number(kind, torch.zeros((), dtype=DTYPES[kind]), form)
        case TensorSlot():
            return _blank_tensor(slot, names, path)
        case ListSlot(items):
            return ListValue([_blank(item, {}, (*path, number)) for number, item in enumerate(items)])
        case TupleSlot(items):
            return tuple(_blank(item, {}, (*path, number)) for number, item in enumerate(items))
        case BufferSlot(item):
            buffer = torch.zeros([_any_size(), *item.sizes], dtype=item.dtype, device=item.device)
            return ListValue(None, buffer, Number("int", torch.zeros((), dtype=torch.int64), new_form()), allotted=True)
        case SequenceSlot(item):
            return ListValue(None, sequence=slots.sequence_of([], item), item=item)
        case UnboundSlot(tensor, dim):
            return Unbound(_blank_tensor(tensor, {}, path), dim)


def _blank_tensor(slot: TensorSlot, names: dict[tuple[int, ...], sympy.Symbol], path: tuple[int, ...]) -> torch.Tensor:
    sizes = []
    for dim, size in enumerate(slot.sizes):
        if size is None:
            size = _any_size()
            names[_join(path, dim)] = size.node.expr
        sizes.append(size)
    return torch.zeros(sizes, dtype=slot.dtype, device=slot.device)


def _join(path: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*path, dim)


def _any_size() -> Any:
    size = known_later(torch.zeros((), dtype=torch.int64))
    torch._check(size >= 0)
    return size


def _known_sizes(slot: Slot, sizes: growth.Sizes) -> Slot:
    """Return a slot in terms of sizes that are known before the loop."""
    if isinstance(slot, TensorSlot):
        known = tuple(
            size if isinstance(size, int) or (size is not None and _outside(size, sizes)) else None for size in slot.sizes
        )
        return dataclasses.replace(slot, sizes=known)
    if isinstance(slot, (ListSlot, TupleSlot)):
        return dataclasses.replace(slot, items=tuple(_known_sizes(item, sizes) for item in slot.items))
    if isinstance(slot, BufferSlot) and slots.varies(_known_sizes(slot.item, sizes)):
        raise NoJoinError("a list that grows holds tensors of different sizes")
    return slot


def _outside(size: Any, sizes: growth.Sizes) -> bool:
    return bool(size.node.expr.free_symbols <= sizes.symbols)


def _key(slot: Slot) -> Any:
    """Return what two slots must have in common to be the same."""
    match slot:
        case Fixed(value):
            return ("fixed", type(value), repr(value))
        case NumberSlot(kind):
            return ("number", kind)
        case TensorSlot(dtype, _, sizes):
            return ("tensor", dtype, tuple(size is None for size in sizes))
        case ListSlot(items) | TupleSlot(items):
            return (type(slot), tuple(_key(item) for item in items))
        case BufferSlot(item):
            return ("buffer", _key(item))
        case SequenceSlot(item):
            return ("sequence", _key(item))
        case UnboundSlot(tensor, dim):
            return ("unbound", _key(tensor), dim)


def _sizes(values: Sequence[Any]) -> Iterator[Any]:
    leaves, _ = flatten(values)
    yield from leaves


def _numbers(values: Sequence[Any]) -> Iterator[Number]:
    for value in values:
        if isinstance(value, Number):
            yield value
        elif isinstance(value, ListValue) and value.length is not None:
            yield value.length
