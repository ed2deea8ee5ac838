"""The operations on lists, on lists with a known number of items and on those in a buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from dy2st.lowering import sequences
from dy2st.lowering.values import DTYPES, ListValue, Number, Unbound, as_tensor, is_number, kind_of, known_later, new_form, surely
from dy2st_runtime.primitives import control


class NoListError(Exception):
    """An operation on lists that tensors cannot do."""


def run(target: Any, args: tuple[Any, ...]) -> Any:
    """Carry out an operation on lists.

    Raises:
        NoListError: tensors cannot do it.
    """
    if target is control.list_:
        return ListValue(list(args[0]))
    list_value = args[0]
    if isinstance(list_value, Unbound) and target in _UNBOUND:
        return _UNBOUND[target](list_value, *args[1:])
    if isinstance(list_value, (list, tuple)):
        list_value = ListValue(list(list_value))
    if not isinstance(list_value, ListValue):
        raise NoListError(f"{target.name} of a {type(list_value).__name__}")
    if target in _JOINING and any(isinstance(value, ListValue) and value.sequence is not None for value in (list_value, args[1])):
        return _JOINING[target](list_value, args[1])
    if list_value.sequence is not None:
        if target not in _SEQUENCED:
            raise NoListError(f"{target.name} of a list whose length is known only when the program runs")
        return _SEQUENCED[target](list_value, *args[1:])
    if list_value.items is None:
        if target not in _BUFFERED:
            raise NoListError(f"{target.name} of a list whose length is known only when the program runs")
        return _BUFFERED[target](list_value, *args[1:])
    return _on_items(target, list_value, list_value.items, args[1:])


def as_sequence(value: ListValue | Unbound) -> Any:
    """Return a list of tensors, or their stack where the number of items is not known."""
    if isinstance(value, Unbound):
        return torch.movedim(value.tensor, value.dim, 0)
    if value.items is not None:
        return value.items
    if value.sequence is not None:
        return joined(value, 0, True)
    return filled(value)


def joined(value: ListValue, dim: int, new: bool) -> torch.Tensor:
    """Return the items of a sequence as one tensor, along a dimension that may be a new one."""
    assert value.sequence is not None
    sizes, dtype = ((), DTYPES[value.item.kind]) if not hasattr(value.item, "sizes") else (value.item.sizes, value.item.dtype)
    return sequences.joined(value.sequence, dim, new, sizes, dtype)


def filled(value: ListValue) -> torch.Tensor:
    """Return the part of a buffer that holds items."""
    assert value.buffer is not None and value.length is not None
    return prefix(value.buffer, 0, known_later(value.length.tensor))


def prefix(tensor: torch.Tensor, dim: int, size: Any) -> torch.Tensor:
    """Return the first entries along a dimension, ``size`` of them."""
    torch._check(size >= 0)
    torch._check(size <= tensor.shape[dim])
    return torch.narrow(tensor, dim, 0, size)


def at(tensor: torch.Tensor, dim: int, index: Any, size: Any) -> torch.Tensor:
    """Return the entry at an index that is not known; a negative one counts from the end.

    Args:
        tensor: from where.
        dim: along which dimension.
        index: the index.
        size: how many entries there are.
    """
    position = as_tensor(index, "int")
    position = torch.where(position < 0, position + as_tensor(size, "int"), position)
    return torch.index_select(tensor, dim, position.reshape(1).to(tensor.device)).squeeze(dim)


def _on_items(target: Any, obj: ListValue, items: list[Any], args: tuple[Any, ...]) -> Any:
    if target is control.list_get and isinstance(args[0], (Number, torch.SymInt)):
        return _chosen(items, args[0])
    if target is control.list_set and isinstance(args[0], (Number, torch.SymInt)):
        return _replace(items, *args)
    places = args[:-1] if target in _VALUES else args
    if any(isinstance(value, (Number, torch.SymInt)) for value in places):
        raise NoListError(f"{target.name} at a position that is known only when the program runs")
    if target in (control.list_extend, control.list_concat, control.list_assign):
        args = (*args[:-1], _known_items(args[-1]))
    if target in _SIMPLE:
        result = _SIMPLE[target](items, *args)
        obj.added = obj.added if obj.items is None else 0
        return ListValue(result) if isinstance(result, list) else result
    raise NoListError(f"{target.name}")


def _known_items(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, ListValue) and value.items is not None:
        return value.items
    raise NoListError("joining a list whose length is known only when the program runs")


def _stacked(items: list[Any]) -> torch.Tensor:
    if items and all(is_number(item) for item in items) and len({kind_of(item) for item in items}) == 1:
        return torch.stack([as_tensor(item) for item in items])
    if items and all(isinstance(item, torch.Tensor) and item.shape == items[0].shape for item in items):
        return torch.stack(items)
    raise NoListError("an item at a position that is known only when the program runs, of items that are not alike")


def _chosen(items: list[Any], index: Any) -> Any:
    result = at(_stacked(items), 0, index, len(items))
    return Number(kind_of(items[0]), result) if is_number(items[0]) else result


def _replace(items: list[Any], index: Any, value: Any) -> None:
    _stacked([*items, value])
    for number, item in enumerate(items):
        here = torch.logical_or(as_tensor(index) == number, as_tensor(index) == number - len(items))
        if is_number(item):
            items[number] = Number(kind_of(item), torch.where(here, as_tensor(value), as_tensor(item)))
        else:
            items[number] = torch.where(here, value, item)


def _append(obj: ListValue, value: Any) -> None:
    assert obj.buffer is not None and obj.length is not None
    if not isinstance(value, torch.Tensor) or value.dtype != obj.buffer.dtype or value.dim() != obj.buffer.dim() - 1:
        raise NoListError("a list that grows in a loop, and holds something else than tensors of one size")
    _check_size(obj, value)
    place = obj.length.tensor.reshape(1)
    obj.buffer = torch.index_put(obj.buffer, (place,), value.unsqueeze(0))
    obj.length = Number("int", obj.length.tensor + 1, None if obj.length.form is None else obj.length.form + 1)
    obj.added = None if obj.added is None else obj.added + 1


def _check_size(obj: ListValue, value: torch.Tensor) -> None:
    """Check the size of an item: a smaller one would be repeated in its place in the buffer."""
    assert obj.buffer is not None
    if not all(surely(lambda a=a, b=b: a == b) for a, b in zip(value.shape, obj.buffer.shape[1:], strict=True)):  # type: ignore[misc]
        raise NoListError("a list that grows in a loop, and holds tensors whose sizes may differ")


def _get(value: ListValue, index: Any) -> torch.Tensor:
    assert value.buffer is not None
    return at(value.buffer, 0, index, value.length)


def _set(obj: ListValue, index: Any, value: torch.Tensor) -> None:
    assert obj.buffer is not None
    _check_size(obj, value)
    position = as_tensor(index, "int")
    position = torch.where(position < 0, position + as_tensor(obj.length, "int"), position)
    obj.buffer = torch.index_put(obj.buffer, (position.reshape(1),), value.unsqueeze(0))


def _pop(value: ListValue, index: Any = -1) -> torch.Tensor:
    if index != -1:
        raise NoListError("pop from somewhere else than the end, of a list whose length is known only when the program runs")
    last = _get(value, -1)
    assert value.length is not None
    value.length = Number("int", value.length.tensor - 1, new_form())
    return last


def _copy(value: ListValue) -> ListValue:
    return ListValue(None, value.buffer, value.length, value.added)


def _extend(value: ListValue, other: Any) -> None:
    for item in _known_items(other):
        _append(value, item)


# -- sequences ---------------------------------------------------------------------------------------------------------------


def _sequence(value: ListValue) -> torch.Tensor:
    assert value.sequence is not None
    return value.sequence


def _sequence_length(value: ListValue) -> Number:
    return Number("int", sequences.LENGTH(_sequence(value)), new_form())


def _position(value: ListValue, index: Any) -> torch.Tensor:
    """Return a position counted from the beginning."""
    position = as_tensor(index, "int")
    return torch.where(position < 0, position + sequences.LENGTH(_sequence(value)), position)


def _sequence_item(obj: ListValue, value: Any) -> torch.Tensor:
    """Return an item as the sequence takes it: ONNX would refuse another dtype only when the model is loaded."""
    if is_number(value) and getattr(obj.item, "kind", None) == kind_of(value):
        return as_tensor(value)
    if isinstance(value, torch.Tensor) and getattr(obj.item, "dtype", None) == value.dtype and len(obj.item.sizes) == value.dim():
        obj.item = dataclasses.replace(obj.item, sizes=_common_sizes(obj.item.sizes, value.shape))
        return value
    raise NoListError("a list that grows in a loop, and holds something else than tensors or numbers of one kind")


def _common_sizes(left: Any, right: Any) -> tuple[Any, ...]:
    return tuple(a if isinstance(b, int) and a == b else None for a, b in zip(left, right, strict=True))


def _sequence_insert(obj: ListValue, index: Any, value: Any) -> None:
    length = sequences.LENGTH(_sequence(obj))
    position = torch.minimum(torch.clamp(_position(obj, index), min=0), length)
    obj.sequence = sequences.INSERT(_sequence(obj), _sequence_item(obj, value), position)


def _sequence_append(obj: ListValue, value: Any) -> None:
    item = _sequence_item(obj, value)
    obj.sequence = sequences.INSERT(_sequence(obj), item, sequences.LENGTH(_sequence(obj)))


def _concatenated(left: ListValue, right: Any) -> ListValue:
    """Return two lists in a row, of which one may be a sequence."""
    if left.sequence is not None:
        list_value = ListValue(None, sequence=left.sequence, item=left.item)
        for value in _known_items(right):
            _sequence_append(list_value, value)
        return list_value
    list_value = ListValue(None, sequence=right.sequence, item=right.item)
    for number, value in enumerate(_known_items(left)):
        _sequence_insert(list_value, number, value)
    return list_value


def _sequence_get(value: ListValue, index: Any) -> Any:
    if isinstance(index, slice):
        raise NoListError("a slice of a list whose length is known only when the program runs")
    if not hasattr(value.item, "sizes"):
        return Number(value.item.kind, sequences.at(_sequence(value), as_tensor(index), (), DTYPES[value.item.kind]), new_form())
    return sequences.at(_sequence(value), as_tensor(index), value.item.sizes, value.item.dtype)


def _sequence_set(obj: ListValue, index: Any, value: Any) -> None:
    position = _position(obj, index)
    obj.sequence = sequences.INSERT(sequences.ERASE(_sequence(obj), position), _sequence_item(obj, value), position)


def _sequence_pop(value: ListValue, index: Any = -1) -> Any:
    last = _sequence_get(value, index)
    value.sequence = sequences.ERASE(_sequence(value), as_tensor(index))
    return last


def _sequence_clear(value: ListValue) -> None:
    value.become(ListValue([]))


def _slice(items: list[Any], part: slice) -> list[Any]:
    return items[part]


_VALUES = (control.list_append, control.list_set, control.list_insert)
"""These take any value as their last argument."""

_SIMPLE: dict[Any, Callable[..., Any]] = {
    control.list_append: list.append,
    control.list_extend: list.extend,
    control.list_insert: list.insert,
    control.list_set: list.__setitem__,
    control.list_pop: list.pop,
    control.list_clear: list.clear,
    control.list_reverse: list.reverse,
    control.list_get: list.__getitem__,
    control.list_slice: _slice,
    control.list_len: len,
    control.list_copy: list,
    control.list_concat: list.__add__,
    control.list_delete: list.__delitem__,
    control.list_assign: list.__setitem__,
    control.list_repeat: list.__mul__,
}

_BUFFERED: dict[Any, Callable[..., Any]] = {
    control.list_append: _append,
    control.list_extend: _extend,
    control.list_get: _get,
    control.list_set: _set,
    control.list_pop: _pop,
    control.list_len: lambda value: value.length,
    control.list_copy: _copy,
}

_SEQUENCED: dict[Any, Callable[..., Any]] = {
    control.list_append: _sequence_append,
    control.list_insert: _sequence_insert,
    control.list_get: _sequence_get,
    control.list_set: _sequence_set,
    control.list_pop: _sequence_pop,
    control.list_clear: _sequence_clear,
    control.list_len: _sequence_length,
    control.list_copy: lambda value: ListValue(None, sequence=value.sequence, item=value.item),
}

_JOINING: dict[Any, Callable[..., Any]] = {
    control.list_concat: _concatenated,
    control.list_extend: lambda value, other: value.become(_concatenated(value, other)),
}

_UNBOUND: dict[Any, Callable[..., Any]] = {
    control.list_get: lambda value, index: at(value.tensor, value.dim, index, value.tensor.shape[value.dim]),
    control.list_len: lambda value: value.tensor.shape[value.dim],
    control.list_copy: lambda value: value,
}
