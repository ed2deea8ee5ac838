"""What ``torch.cond`` and ``while_loop`` carry for a value: a slot turns a value into tensors and back.

Two ways to a point agree on a slot for each value: :func:`join`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dy2st.lowering import sequences
from dy2st.lowering.values import (
    DTYPES,
    Less,
    ListValue,
    Number,
    Unbound,
    as_tensor,
    form_of,
    is_number,
    kind_of,
    new_form,
    surely,
)


class NoJoinError(Exception):
    """Two values that no slot stands for both of."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed:
    """A Python value that is the same on every way."""

    value: Any

    def enter(self, value: Any) -> list[torch.Tensor]:
        return []

    def leave(self, tensors: Iterator[Any]) -> Any:
        return self.value


@dataclasses.dataclass(frozen=True, eq=False)
class NumberSlot:
    """A number."""

    kind: str
    form: Any = None
    implied: frozenset[Less] = frozenset()

    def enter(self, value: Any) -> list[torch.Tensor]:
        if value is None:
            return [torch.zeros((), dtype=DTYPES[self.kind])]
        return [as_tensor(value, self.kind).clone()]

    def leave(self, tensors: Iterator[Any]) -> Any:
        form = new_form() if self.kind == "int" and self.form is None else self.form
        return Number(self.kind, next(tensors), form, self.implied)


@dataclasses.dataclass(frozen=True, eq=False)
class TensorSlot:
    """A tensor.

    Attributes:
        sizes: its sizes; ``None`` for one that differs.
    """

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Any, ...]

    def enter(self, value: Any) -> list[torch.Tensor]:
        if value is None:  # on a way where it is never looked at
            sizes = [size if isinstance(size, int) else 0 for size in self.sizes]
            return [torch.zeros(sizes, dtype=self.dtype, device=self.device)]
        return [value.clone(memory_format=torch.contiguous_format)]

    def leave(self, tensors: Iterator[Any]) -> Any:
        return next(tensors)


@dataclasses.dataclass(frozen=True, eq=False)
class ListSlot:
    """A list with a known number of items."""

    items: tuple[Slot, ...]

    def enter(self, value: Any) -> list[torch.Tensor]:
        if value is None:
            return [tensor for slot in self.items for tensor in slot.enter(None)]
        return [tensor for slot, item in zip(self.items, value.items, strict=True) for tensor in slot.enter(item)]

    def leave(self, tensors: Iterator[Any]) -> Any:
        return ListValue([slot.leave(tensors) for slot in self.items])


@dataclasses.dataclass(frozen=True, eq=False)
class TupleSlot:
    """What an operator with several results gives."""

    items: tuple[Slot, ...]

    def enter(self, value: Any) -> list[torch.Tensor]:
        return [tensor for slot, item in zip(self.items, value, strict=True) for tensor in slot.enter(item)]

    def leave(self, tensors: Iterator[Any]) -> Any:
        return tuple(slot.leave(tensors) for slot in self.items)


@dataclasses.dataclass(frozen=True, eq=False)
class BufferSlot:
    """A list whose number of items is not known.

    Attributes:
        item: of each of its items.
        room: for how many there is room; ``None`` before that is known.
        added, allotted: see :class:`~dy2st.lowering.values.ListValue`.
        seen: the shape of the buffer that was taken apart last: inside of a block the sizes are known from there.
    """

    item: TensorSlot
    room: Any = None
    added: Any = 0
    allotted: bool = False
    seen: list[Any] = dataclasses.field(default_factory=list)

    def enter(self, value: Any) -> list[torch.Tensor]:
        made = self.roomy(value)
        assert made.buffer is not None and made.length is not None
        return [made.buffer.clone(memory_format=torch.contiguous_format), made.length.tensor.clone()]

    def leave(self, tensors: Iterator[Any]) -> Any:
        buffer = next(tensors)
        self.seen[:] = buffer.shape
        return ListValue(None, buffer, Number("int", next(tensors), new_form()), self.added, self.allotted)

    def roomy(self, value: ListValue) -> ListValue:
        """A list as a buffer with room for more."""
        if value.items is None:
            assert value.buffer is not None
            used, parts, length = value.buffer.shape[0], [value.buffer], value.length
        else:
            used, length = len(value.items), Number("int", as_tensor(len(value.items), "int"))
            parts = [torch.stack(value.items)] if value.items else []
        room, *sizes = self.seen or (self.room, *self.item.sizes)
        if not same_size(used, room):
            parts.append(torch.zeros([room - used, *sizes], dtype=self.item.dtype, device=self.item.device))
        return ListValue(None, torch.cat(parts) if len(parts) > 1 else parts[0], length)


@dataclasses.dataclass(frozen=True, eq=False)
class UnboundSlot:
    """What ``unbind`` gave."""

    tensor: TensorSlot
    dim: int

    def enter(self, value: Any) -> list[torch.Tensor]:
        return self.tensor.enter(value.tensor)

    def leave(self, tensors: Iterator[Any]) -> Any:
        return Unbound(next(tensors), self.dim)


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceSlot:
    """A list whose number of items is not known, where there are lists; ``None`` for a size of an item that is not known."""

    item: TensorSlot | NumberSlot

    def enter(self, value: Any) -> list[torch.Tensor]:
        if value is not None and value.sequence is not None:
            return [sequences.SAME(value.sequence)]
        return [sequence_of([] if value is None else value.items, self.item)]

    def leave(self, tensors: Iterator[Any]) -> Any:
        return ListValue(None, sequence=next(tensors), item=self.item)


def sequence_of(items: Sequence[Any], item: TensorSlot | NumberSlot) -> torch.Tensor:
    """What stands for a list of known items."""
    made: torch.Tensor = sequences.EMPTY(item.dtype if isinstance(item, TensorSlot) else DTYPES[item.kind])
    for number, value in enumerate(items):
        tensor = value if isinstance(value, torch.Tensor) else as_tensor(value)
        made = sequences.INSERT(made, tensor, as_tensor(number))
    return made


Slot = SequenceSlot | Fixed | NumberSlot | TensorSlot | ListSlot | TupleSlot | BufferSlot | UnboundSlot


def slot_of(value: Any) -> Slot:
    """The slot of one value alone."""
    if isinstance(value, torch.Tensor):
        return TensorSlot(value.dtype, value.device, tuple(value.shape))
    if isinstance(value, (Number, torch.SymInt)):
        return NumberSlot(kind_of(value), form_of(value), value.implied if isinstance(value, Number) else frozenset())
    if isinstance(value, ListValue):
        if value.items is not None:
            return ListSlot(tuple(slot_of(item) for item in value.items))
        if value.sequence is not None:
            return SequenceSlot(value.item)
        assert value.buffer is not None
        return BufferSlot(item_slot(value), value.buffer.shape[0], value.added, value.allotted)
    if isinstance(value, Unbound):
        inner = slot_of(value.tensor)
        assert isinstance(inner, TensorSlot)
        return UnboundSlot(inner, value.dim)
    if isinstance(value, tuple):
        return TupleSlot(tuple(slot_of(item) for item in value))
    return Fixed(value)


def item_slot(value: ListValue) -> TensorSlot:
    """The slot of each item of a list.

    Raises:
        NoJoinError: they are no tensors of one size.
    """
    if value.items is None:
        assert value.buffer is not None
        return TensorSlot(value.buffer.dtype, value.buffer.device, tuple(value.buffer.shape[1:]))
    slots = [slot_of(item) for item in value.items]
    found = slots[0] if slots else None
    for slot in slots[1:]:
        found = join_slots(found, slot)
    if not isinstance(found, TensorSlot) or any(size is None for size in found.sizes):
        raise NoJoinError("a list that grows holds something else than tensors of one size")
    return found


def join(left: Any, right: Any) -> Slot:
    """The slot for a value that is one of two.

    Raises:
        NoJoinError: there is none.
    """
    if isinstance(left, bool) and left is False and isinstance(right, Number):
        return NumberSlot("bool", implied=right.implied)
    if isinstance(right, bool) and right is False and isinstance(left, Number):
        return NumberSlot("bool", implied=left.implied)
    return join_slots(slot_of(left), slot_of(right))


def join_slots(left: Slot | None, right: Slot) -> Slot:
    """The slot that stands for what two slots stand for.

    Raises:
        NoJoinError: there is none.
    """
    if left is None:
        return right
    if isinstance(left, Fixed) and isinstance(right, Fixed):
        return _join_fixed(left.value, right.value)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Fixed) and one.value is None:
            return other
    lefts, rights = (_number_slot(slot) for slot in (left, right))
    if lefts is not None and rights is not None:
        kind = lefts.kind if lefts.kind == rights.kind else _common(lefts.kind, rights.kind)
        same = lefts.form is not None and rights.form is not None and lefts.form == rights.form
        return NumberSlot(kind, lefts.form if same else None, lefts.implied & rights.implied)
    joiner = _JOINERS.get(type(left))
    if joiner is None or type(left) is not type(right):
        return _join_lists(left, right)
    return joiner(left, right)


def _join_fixed(left: Any, right: Any) -> Slot:
    if left is right or (type(left) is type(right) and left == right and repr(left) == repr(right)):
        return Fixed(left)
    if left is None or right is None:
        return join_slots(Fixed(None), NumberSlot(kind_of(left if right is None else right))) if _has_number(left, right) else _no()
    if is_number(left) and is_number(right):
        return NumberSlot(kind_of(left) if kind_of(left) == kind_of(right) else _common(kind_of(left), kind_of(right)))
    return _no()


def _no() -> Slot:
    raise NoJoinError("two Python values that are no numbers")


def _has_number(*values: Any) -> bool:
    return any(is_number(value) for value in values)


def _common(left: str, right: str) -> str:
    raise NoJoinError(f"a number that is sometimes {left}, sometimes {right}")


def _number_slot(slot: Slot) -> NumberSlot | None:
    if isinstance(slot, NumberSlot):
        return slot
    if isinstance(slot, Fixed) and is_number(slot.value):
        return NumberSlot(kind_of(slot.value), form_of(slot.value))
    return None


def _join_tensors(left: TensorSlot, right: TensorSlot) -> Slot:
    if left.dtype != right.dtype or len(left.sizes) != len(right.sizes):
        raise NoJoinError(f"tensors of different kinds ({left.dtype}, {len(left.sizes)}-d; {right.dtype}, {len(right.sizes)}-d)")
    sizes = tuple(a if same_size(a, b) else None for a, b in zip(left.sizes, right.sizes))
    return TensorSlot(left.dtype, left.device, sizes)


def same_size(left: Any, right: Any) -> bool:
    """Whether two sizes are known to be equal."""
    if left is None or right is None:
        return False
    return surely(lambda: left == right)


def _join_items(left: Any, right: Any) -> Slot:
    if len(left.items) != len(right.items):
        return _join_lists(left, right)
    return type(left)(tuple(join_slots(a, b) for a, b in zip(left.items, right.items)))  # type: ignore[no-any-return]


def _join_lists(left: Slot, right: Slot) -> Slot:
    """Lists of different lengths, or of a length that is not known."""
    slots = (left, right)
    if not all(isinstance(slot, (ListSlot, BufferSlot, SequenceSlot)) for slot in slots):
        raise NoJoinError(f"{_describe(left)} and {_describe(right)}")
    if sequences.wanted():
        return _join_sequences(slots)
    items = [item for slot in slots for item in (slot.items if isinstance(slot, ListSlot) else [slot.item])]  # type: ignore[union-attr]
    found: Slot | None = None
    for item in items:
        found = join_slots(found, item)
    if not isinstance(found, TensorSlot) or any(size is None for size in found.sizes):
        raise NoJoinError("a list that grows holds something else than tensors of one size")
    rooms = [len(slot.items) if isinstance(slot, ListSlot) else slot.room for slot in slots]  # type: ignore[union-attr]
    known = [room for room in rooms if isinstance(room, int)]
    counts = [slot.added for slot in slots if isinstance(slot, BufferSlot)]
    added = None if None in counts else max(counts, default=0) if all(isinstance(count, int) for count in counts) else counts[0]
    if len(known) == 2:
        return BufferSlot(found, max(known), added)
    buffers = [slot for slot in slots if isinstance(slot, BufferSlot)]
    return BufferSlot(found, buffers[0].room, added, any(slot.allotted for slot in buffers))


def _join_sequences(slots: Sequence[Any]) -> Slot:
    found: Slot | None = None
    for item in [item for slot in slots for item in (slot.items if isinstance(slot, ListSlot) else [slot.item])]:
        found = join_slots(found, slot_of(item.value) if isinstance(item, Fixed) and is_number(item.value) else item)
    match found:
        case NumberSlot(kind):
            return SequenceSlot(NumberSlot(kind))
        case TensorSlot(dtype, device, sizes):
            return SequenceSlot(TensorSlot(dtype, device, tuple(size if isinstance(size, int) else None for size in sizes)))
    raise NoJoinError("a list that grows holds something else than tensors or numbers of one kind")


def _join_unbound(left: UnboundSlot, right: UnboundSlot) -> Slot:
    inner = _join_tensors(left.tensor, right.tensor)
    if left.dim != right.dim or not isinstance(inner, TensorSlot):
        raise NoJoinError("lists of slices along different dimensions")
    return UnboundSlot(inner, left.dim)


_JOINERS: dict[type, Callable[[Any, Any], Slot]] = {
    TensorSlot: _join_tensors,
    ListSlot: _join_items,
    TupleSlot: _join_items,
    BufferSlot: _join_lists,
    SequenceSlot: _join_lists,
    UnboundSlot: _join_unbound,
}


def _describe(slot: Slot) -> str:
    names = {
        Fixed: "a Python value",
        NumberSlot: "a number",
        TensorSlot: "a tensor",
        ListSlot: "a list",
        BufferSlot: "a list that grows",
        SequenceSlot: "a list that grows",
        TupleSlot: "a tuple",
        UnboundSlot: "a list of slices",
    }
    return f"a {slot.kind}" if isinstance(slot, NumberSlot) else names[type(slot)]


def varies(slot: Slot) -> bool:
    """Whether a tensor in it changes its size, or has another one on another way."""
    match slot:
        case TensorSlot(_, _, sizes):
            return None in sizes
        case ListSlot(items) | TupleSlot(items):
            return any(map(varies, items))
        case UnboundSlot(tensor, _):
            return varies(tensor)
        case _:
            return False


def enter(slots: Sequence[Slot], values: Sequence[Any]) -> list[torch.Tensor]:
    """Values as the tensors of their slots."""
    return [tensor for slot, value in zip(slots, values, strict=True) for tensor in slot.enter(value)]


def leave(slots: Sequence[Slot], tensors: Sequence[Any]) -> list[Any]:
    """The inverse of :func:`enter`."""
    source = iter(tensors)
    return [slot.leave(source) for slot in slots]
