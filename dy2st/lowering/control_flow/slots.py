"""What ``torch.cond`` and ``while_loop`` carry for a value: a slot turns a value into tensors and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dy2st.lowering import sequences
from dy2st.lowering.lists import prefix
from dy2st.lowering.values import (
    DTYPES,
    Less,
    ListValue,
    Number,
    Unbound,
    as_tensor,
    form_of,
    kind_of,
    known_later,
    new_form,
    surely,
)


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
        result = self.roomy(value)
        assert result.buffer is not None and result.length is not None
        return [result.buffer.clone(memory_format=torch.contiguous_format), result.length.tensor.clone()]

    def leave(self, tensors: Iterator[Any]) -> Any:
        buffer = next(tensors)
        self.seen[:] = buffer.shape
        return ListValue(None, buffer, Number("int", next(tensors), new_form()), self.added, self.allotted)

    def roomy(self, value: ListValue) -> ListValue:
        """Return a list as a buffer with room for more."""
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
            if same_size(value.shape[dim], room[dim]):
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


def sequence_of(items: Sequence[Any], item: TensorSlot | NumberSlot) -> torch.Tensor:
    """Return what stands for a list of known items."""
    result: torch.Tensor = sequences.EMPTY(item.dtype if isinstance(item, TensorSlot) else DTYPES[item.kind])
    for number, value in enumerate(items):
        tensor = value if isinstance(value, torch.Tensor) else as_tensor(value)
        result = sequences.INSERT(result, tensor, as_tensor(number))
    return result


Slot = SequenceSlot | Fixed | NumberSlot | TensorSlot | ListSlot | TupleSlot | BufferSlot | UnboundSlot


def slot_of(value: Any) -> Slot:
    """Return the slot of one value alone."""
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
        item = TensorSlot(value.buffer.dtype, value.buffer.device, tuple(value.buffer.shape[1:]))
        return BufferSlot(item, value.buffer.shape[0], value.added, value.allotted)
    if isinstance(value, Unbound):
        inner = slot_of(value.tensor)
        assert isinstance(inner, TensorSlot)
        return UnboundSlot(inner, value.dim)
    if isinstance(value, tuple):
        return TupleSlot(tuple(slot_of(item) for item in value))
    return Fixed(value)


def same_size(left: Any, right: Any) -> bool:
    """Tell whether two sizes are known to be equal."""
    if left is None or right is None:
        return False
    return surely(lambda: left == right)


def varies(slot: Slot) -> bool:
    """Tell whether a tensor in it changes its size, or has another one on another way."""
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
    """Return values as the tensors of their slots."""
    return [tensor for slot, value in zip(slots, values, strict=True) for tensor in slot.enter(value)]


def leave(slots: Sequence[Slot], tensors: Sequence[Any]) -> list[Any]:
    """Return the inverse of :func:`enter`."""
    source = iter(tensors)
    return [slot.leave(source) for slot in slots]
