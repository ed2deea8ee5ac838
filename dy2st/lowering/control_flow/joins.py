"""The slot that stands for a value on each of two ways to a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dy2st.lowering import sequences
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
    same_size,
    slot_of,
)
from dy2st.lowering.values import Number, form_of, is_number, kind_of


class NoJoinError(Exception):
    """Two values that no slot stands for both of."""


def join(left: Any, right: Any) -> Slot:
    """Return the slot for a value that is one of two.

    Raises:
        NoJoinError: there is none.
    """
    if isinstance(left, bool) and left is False and isinstance(right, Number):
        return NumberSlot("bool", implied=right.implied)
    if isinstance(right, bool) and right is False and isinstance(left, Number):
        return NumberSlot("bool", implied=left.implied)
    return join_slots(slot_of(left), slot_of(right))


def join_slots(left: Slot | None, right: Slot) -> Slot:
    """Return the slot that stands for what two slots stand for.

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


def _join_items(left: Any, right: Any) -> Slot:
    if len(left.items) != len(right.items):
        return _join_lists(left, right)
    return type(left)(tuple(join_slots(a, b) for a, b in zip(left.items, right.items)))  # type: ignore[no-any-return]


def _join_lists(left: Slot, right: Slot) -> Slot:
    """Return lists of different lengths, or of a length that is not known."""
    slots = (left, right)
    if not all(isinstance(slot, (ListSlot, BufferSlot, SequenceSlot)) for slot in slots):
        raise NoJoinError(f"{_describe(left)} and {_describe(right)}")
    if sequences.wanted():
        return _join_sequences(slots)
    items = [item for slot in slots for item in (slot.items if isinstance(slot, ListSlot) else [slot.item])]  # type: ignore[union-attr]
    result: Slot | None = None
    for item in items:
        result = join_slots(result, item)
    if not isinstance(result, TensorSlot) or any(size is None for size in result.sizes):
        raise NoJoinError("a list that grows holds something else than tensors of one size")
    rooms = [len(slot.items) if isinstance(slot, ListSlot) else slot.room for slot in slots]  # type: ignore[union-attr]
    known = [room for room in rooms if isinstance(room, int)]
    counts = [slot.added for slot in slots if isinstance(slot, BufferSlot)]
    added = None if None in counts else max(counts, default=0) if all(isinstance(count, int) for count in counts) else counts[0]
    if len(known) == 2:
        return BufferSlot(result, max(known), added)
    buffers = [slot for slot in slots if isinstance(slot, BufferSlot)]
    return BufferSlot(result, buffers[0].room, added, any(slot.allotted for slot in buffers))


def _join_sequences(slots: Sequence[Any]) -> Slot:
    result: Slot | None = None
    for item in [item for slot in slots for item in (slot.items if isinstance(slot, ListSlot) else [slot.item])]:
        result = join_slots(result, slot_of(item.value) if isinstance(item, Fixed) and is_number(item.value) else item)
    match result:
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
