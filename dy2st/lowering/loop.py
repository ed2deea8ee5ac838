"""``while_`` as ``while_loop``.

What a loop carries is found by shape tracing: first with the values that it starts from, then, where an iteration gives something
else, with a number or size in its place of which nothing is known, until an iteration gives what it took. A tensor whose size
changes travels in a buffer with room for the largest one and is cut out at the beginning of each iteration; a list that grows
likewise. A first iteration that surely happens is made before the loop when sizes change, for often they change less afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from dy2st.lowering import growth, slots
from dy2st.lowering.aliasing import Facts, facts
from dy2st.lowering.arithmetic import truth
from dy2st.lowering.context import Context, apart, check_aliases, check_hazards, own_copies, refuse
from dy2st.lowering.lists import prefix
from dy2st.lowering.slots import (
    BufferSlot,
    Fixed,
    ListSlot,
    NoJoinError,
    NumberSlot,
    SequenceSlot,
    Slot,
    TensorSlot,
    TupleSlot,
    UnboundSlot,
)
from dy2st.lowering.values import DTYPES, ListValue, Number, Unbound, as_tensor, flatten, form_of, known_later, new_form, unflatten
from dy2st_runtime.ir.program import Block

_MOST_REHEARSALS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class PaddedSlot:
    """A tensor whose size changes from iteration to iteration.

    Attributes:
        tensor: its slot; ``None`` for sizes that change.
        room: the largest each size becomes, for those that change.
        seen: the shape of the buffer that was taken apart last: inside of the body the room is known from there.
    """

    tensor: TensorSlot
    room: tuple[Any, ...]
    seen: list[Any] = dataclasses.field(default_factory=list)

    def enter(self, value: Any) -> list[torch.Tensor]:
        room = self.seen or self.room
        if value is None:
            value = self.tensor.enter(None)[0]
        lengths = [as_tensor(value.shape[dim], "int") for dim in self.dims]
        for dim in self.dims:
            if slots.same_size(value.shape[dim], room[dim]):
                continue
            sizes = list(value.shape)
            sizes[dim] = room[dim]
            empty = torch.zeros(sizes, dtype=value.dtype, device=value.device)
            value = torch.slice_scatter(empty, value, dim, 0, value.shape[dim])
        return [value.clone(memory_format=torch.contiguous_format), *lengths]

    def leave(self, tensors: Iterator[Any]) -> Any:
        value = next(tensors)
        self.seen[:] = value.shape
        for dim in self.dims:
            value = prefix(value, dim, known_later(next(tensors)))
        return value

    @property
    def dims(self) -> list[int]:
        """The dimensions whose size changes."""
        return [dim for dim, size in enumerate(self.tensor.sizes) if size is None]


def loop(
    context: Context, node: fx.Node, pred: Any, body: Block, carried: Sequence[Any], operands: Sequence[Any]
) -> tuple[Any, ...]:
    """Run a body as long as a condition holds.

    Raises:
        ExportError: what it carries cannot be told in tensors of one size.
    """
    return _Loop(context, node, body, operands).run(pred, list(carried))


class _Loop:
    """One ``while_``; its variables are the carried values and what the body changes of the others."""

    def __init__(self, context: Context, node: fx.Node, body: Block, operands: Sequence[Any]) -> None:
        self.context, self.node, self.body, self.operands = context, node, body, list(operands)
        self.facts: Facts = facts(body)
        check_hazards(body, node)

    def run(self, pred: Any, carried: list[Any]) -> tuple[Any, ...]:
        count = len(carried)
        known = truth(pred) if pred is not None else False
        if known is False:
            return tuple(carried)
        if any(position < count for position in (*self.facts.tensors, *self.facts.lists)):
            carried = self.owned(carried)
        written = sorted(position - count for position in self.facts.tensors | self.facts.lists if position >= count)
        tensors = [self.operands[p] for p in written if isinstance(self.operands[p], torch.Tensor)]
        check_aliases(self.node, [*carried, *self.operands], tensors)
        self.written = written
        found = self.analyse(carried)
        if known is True and any(slots.varies(slot) for slot in found.slots):
            known, *carried = self.context.run_block(self.body, [*carried, *self.operands])
            known = truth(known)
            if known is False:
                return tuple(carried)
            found = self.analyse(carried)
        return self.emit(known, carried, found)

    def owned(self, carried: list[Any]) -> list[Any]:
        """Copies of the carried values that the body changes in place: nobody else may see the change.

        Raises:
            ExportError: somebody may.
        """
        args: Any = self.node.args[2]
        for position in sorted(self.facts.tensors | self.facts.lists):
            if position >= len(carried):
                continue
            outer = args[position]
            if isinstance(outer, fx.Node) and (outer.op == "placeholder" or len(outer.users) > 1):
                raise refuse(
                    self.node,
                    "a loop changes a variable in place on its first iteration and gives it another value later",
                    "change a clone of it",
                )
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in carried]

    def variables(self, carried: Sequence[Any]) -> list[Any]:
        return [*carried, *(self.operands[position] for position in self.written)]

    def iteration(self, variables: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, list[Any]]:
        """One iteration: the next condition and the next variables."""
        count = len(variables) - len(self.written)
        inputs = [*variables[:count], *operands]
        for position, value in zip(self.written, variables[count:]):
            inputs[count + position] = value
        mine = own_copies(self.node, self.body, inputs)
        pred, *outputs = self.context.run_block(self.body, mine)
        return pred, [*outputs, *(mine[count + position] for position in self.written)]

    # -- what it carries -----------------------------------------------------------------------------------------------------

    def analyse(self, carried: Sequence[Any]) -> _Analysis:
        variables = self.variables(carried)
        found = [_start(value) for value in variables]
        leaves, recipes = flatten(self.operands)
        sizes = growth.Sizes(_sizes([*variables, *self.operands]))
        for value in _numbers([*variables, *self.operands]):
            sizes.add(value.form, value.tensor)
        with self.context.shape_tracing():
            for _ in range(_MOST_REHEARSALS):
                names: dict[tuple[int, ...], sympy.Symbol] = {}
                blanks = [_blank(slot, names, (number,)) for number, slot in enumerate(found)]
                pred, results = self.iteration(blanks, unflatten(recipes, leaves))
                wider = [self.wider(slot, result, sizes) for slot, result in zip(found, results)]
                if [_key(slot) for slot in wider] == [_key(slot) for slot in found]:
                    return _Analysis(found, names, truth(pred) if pred is not None else False, results, variables, sizes)
                found = wider
        raise refuse(self.node, "what this loop carries is of another kind at each iteration")

    def wider(self, slot: Slot, result: Any, sizes: growth.Sizes) -> Slot:
        try:
            return _known_sizes(slots.join_slots(slot, slots.slot_of(result)), sizes)
        except NoJoinError as error:
            raise refuse(
                self.node,
                f"a loop variable is of different kinds at different iterations: {error}",
                "give it one dtype before the loop",
            ) from None

    # -- the loop itself -----------------------------------------------------------------------------------------------------

    def emit(self, pred: Any, carried: Sequence[Any], found: _Analysis) -> tuple[Any, ...]:
        variables = self.variables(carried)
        inside = [_named(slot, found.names, (number,)) for number, slot in enumerate(self.roomy(found, pred))]
        leaves, recipes = flatten(self.operands)
        first = pred.tensor if isinstance(pred, Number) else as_tensor(True)
        start = (first.clone(), *slots.enter(inside, variables))

        def condition(going: torch.Tensor, *rest: Any) -> torch.Tensor:
            return going.clone()

        def body(going: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
            mine = slots.leave(inside, rest[: len(start) - 1])
            following, results = self.iteration(mine, unflatten(recipes, rest[len(start) - 1 :]))
            return (as_tensor(truth(following), "bool").clone(), *slots.enter(inside, results))

        made = torch.ops.higher_order.while_loop(condition, body, start, tuple(apart(leaves)))
        results = list(made[1:])
        outside = [_unnamed(slot) for slot in inside]
        return self.given_back(slots.leave(outside, results), found, variables)

    def given_back(self, values: list[Any], found: _Analysis, variables: Sequence[Any]) -> tuple[Any, ...]:
        count = len(values) - len(self.written)
        for value, result, first in zip(values, found.results, variables):
            if isinstance(value, ListValue) and value.items is None:
                value.added, value.allotted = found.total(result, first), first.allotted
        for position, value in zip(self.written, values[count:]):
            outer = self.operands[position]
            if isinstance(outer, ListValue):
                outer.become(value)
            else:
                outer.copy_(value)
        return tuple(values[:count])

    def roomy(self, found: _Analysis, pred: Any) -> list[Any]:
        """The slots with room for what grows."""
        bounds = found.bounds(pred)
        made: list[Any] = []
        for number, (slot, value) in enumerate(zip(found.slots, found.variables)):
            if isinstance(slot, TensorSlot) and None in slot.sizes:
                room = [
                    None if size is not None else self.bound(value, dim, bounds.get(found.names[number, dim]), found)
                    for dim, size in enumerate(slot.sizes)
                ]
                made.append(PaddedSlot(slot, tuple(room)))
            elif isinstance(slot, BufferSlot):
                made.append(dataclasses.replace(slot, room=self.list_room(found, number, value), added=0, allotted=True))
            elif slots.varies(slot):
                raise refuse(self.node, "tensors in a list or tuple change their size in a loop", "keep them in variables")
            else:
                made.append(slot)
        return made

    def bound(self, value: Any, dim: int, bound: Any, found: _Analysis) -> Any:
        first = 0 if value is None else value.shape[dim]
        size = None if bound is None else found.sizes(bound)
        if size is not None:
            return growth.at_least(size, first)
        return first + self.allowed(f"dimension {dim} of a tensor")

    def list_room(self, found: _Analysis, number: int, value: Any) -> Any:
        if value.allotted:
            return value.buffer.shape[0]
        held = len(value.items) if value.items is not None else value.buffer.shape[0]
        total = found.total(found.results[number], value)
        more = None if total is None else found.sizes(sympy.sympify(total))
        if more is None:
            more = self.allowed("a list")
        return held + growth.at_least(more, 0)

    def allowed(self, what: str) -> int:
        if self.context.max_growth is None:
            raise refuse(
                self.node,
                f"{what} changes its size in this loop, and it is not known how large it becomes",
                "pass max_growth=, by how many entries it may grow at most (0 if it shrinks), or count the iterations with range()",
            )
        self.context.note(self.node, f"{what} may grow by {self.context.max_growth} entries at most (max_growth)")
        return self.context.max_growth


@dataclasses.dataclass
class _Analysis:
    """What rehearsals of a loop found.

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
        """How many items the whole loop appends to a list at most; ``None`` if that is not known."""
        if self.count is None or not isinstance(result, ListValue) or result.added is None:
            return None
        each = sympy.sympify(result.added)
        return None if each.free_symbols & set(self.names.values()) else self.count * each


def _implies_an_iteration(pred: Any, count: sympy.Expr) -> bool:
    """Whether a bound for the number of iterations is positive whenever the first iteration happens."""
    if isinstance(pred, Number):
        return any(sympy.expand(right - left - count) == 0 for left, right in pred.implied)
    return bool(count.is_positive)


def _form_at(values: Sequence[Any], path: tuple[int, ...]) -> Any:
    value = values[path[0]]
    if len(path) == 1:
        return form_of(value)
    return form_of(value.shape[path[1]]) if isinstance(value, torch.Tensor) else sympy.Integer(0) if value is None else None


def _start(value: Any) -> Slot:
    """The slot of a first value; a list that is a buffer already may go on growing."""
    slot = slots.slot_of(value)
    return dataclasses.replace(slot, room=None, added=0) if isinstance(slot, BufferSlot) else slot


def _blank(slot: Slot, names: dict[tuple[int, ...], sympy.Symbol], path: tuple[int, ...]) -> Any:
    """A value of a slot of which nothing else is known."""
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
    """A slot in terms of sizes that are known before the loop."""
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
    """What two slots must have in common to be the same."""
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


def _named(slot: Any, names: dict[tuple[int, ...], sympy.Symbol], path: tuple[int, ...]) -> Any:
    """A slot that gives a number the name it had in the shape tracing."""
    return dataclasses.replace(slot, form=names.get(path), implied=frozenset()) if isinstance(slot, NumberSlot) else slot


def _unnamed(slot: Any) -> Any:
    return dataclasses.replace(slot, form=None, implied=frozenset()) if isinstance(slot, NumberSlot) else slot


def _sizes(values: Sequence[Any]) -> Iterator[Any]:
    leaves, _ = flatten(values)
    yield from leaves


def _numbers(values: Sequence[Any]) -> Iterator[Number]:
    for value in values:
        if isinstance(value, Number):
            yield value
        elif isinstance(value, ListValue) and value.length is not None:
            yield value.length
