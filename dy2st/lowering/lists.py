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
    found = args[0]
    if isinstance(found, Unbound) and target in _UNBOUND:
        return _UNBOUND[target](found, *args[1:])
    if isinstance(found, (list, tuple)):
        found = ListValue(list(found))
    if not isinstance(found, ListValue):
        raise NoListError(f"{target.name} of a {type(found).__name__}")
    if target in _JOINING and any(isinstance(value, ListValue) and value.sequence is not None for value in (found, args[1])):
        return _JOINING[target](found, args[1])
    if found.sequence is not None:
        if target not in _SEQUENCED:
            raise NoListError(f"{target.name} of a list whose length is known only when the program runs")
        return _SEQUENCED[target](found, *args[1:])
    if found.items is None:
        if target not in _BUFFERED:
            raise NoListError(f"{target.name} of a list whose length is known only when the program runs")
        return _BUFFERED[target](found, *args[1:])
    return _on_items(target, found, found.items, args[1:])


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


def _on_items(target: Any, found: ListValue, items: list[Any], args: tuple[Any, ...]) -> Any:
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
        found.added = found.added if found.items is None else 0
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
    found = at(_stacked(items), 0, index, len(items))
    return Number(kind_of(items[0]), found) if is_number(items[0]) else found


def _replace(items: list[Any], index: Any, value: Any) -> None:
    _stacked([*items, value])
    for number, item in enumerate(items):
        here = torch.logical_or(as_tensor(index) == number, as_tensor(index) == number - len(items))
        if is_number(item):
            items[number] = Number(kind_of(item), torch.where(here, as_tensor(value), as_tensor(item)))
        else:
            items[number] = torch.where(here, value, item)


def _append(found: ListValue, value: Any) -> None:
    assert found.buffer is not None and found.length is not None
    if not isinstance(value, torch.Tensor) or value.dtype != found.buffer.dtype or value.dim() != found.buffer.dim() - 1:
        raise NoListError("a list that grows in a loop, and holds something else than tensors of one size")
    _check_size(found, value)
    place = found.length.tensor.reshape(1)
    found.buffer = torch.index_put(found.buffer, (place,), value.unsqueeze(0))
    found.length = Number("int", found.length.tensor + 1, None if found.length.form is None else found.length.form + 1)
    found.added = None if found.added is None else found.added + 1


def _check_size(found: ListValue, value: torch.Tensor) -> None:
    """Check the size of an item: a smaller one would be repeated in its place in the buffer."""
    assert found.buffer is not None
    if not all(surely(lambda a=a, b=b: a == b) for a, b in zip(value.shape, found.buffer.shape[1:], strict=True)):  # type: ignore[misc]
        raise NoListError("a list that grows in a loop, and holds tensors whose sizes may differ")


def _get(found: ListValue, index: Any) -> torch.Tensor:
    assert found.buffer is not None
    return at(found.buffer, 0, index, found.length)


def _set(found: ListValue, index: Any, value: torch.Tensor) -> None:
    assert found.buffer is not None
    _check_size(found, value)
    position = as_tensor(index, "int")
    position = torch.where(position < 0, position + as_tensor(found.length, "int"), position)
    found.buffer = torch.index_put(found.buffer, (position.reshape(1),), value.unsqueeze(0))


def _pop(found: ListValue, index: Any = -1) -> torch.Tensor:
    if index != -1:
        raise NoListError("pop from somewhere else than the end, of a list whose length is known only when the program runs")
    last = _get(found, -1)
    assert found.length is not None
    found.length = Number("int", found.length.tensor - 1, new_form())
    return last


def _copy(found: ListValue) -> ListValue:
    return ListValue(None, found.buffer, found.length, found.added)


def _extend(found: ListValue, other: Any) -> None:
    for item in _known_items(other):
        _append(found, item)


# -- sequences ---------------------------------------------------------------------------------------------------------------


def _sequence(found: ListValue) -> torch.Tensor:
    assert found.sequence is not None
    return found.sequence


def _sequence_length(found: ListValue) -> Number:
    return Number("int", sequences.LENGTH(_sequence(found)), new_form())


def _position(found: ListValue, index: Any) -> torch.Tensor:
    """Return a position counted from the beginning."""
    position = as_tensor(index, "int")
    return torch.where(position < 0, position + sequences.LENGTH(_sequence(found)), position)


def _sequence_item(found: ListValue, value: Any) -> torch.Tensor:
    """Return an item as the sequence takes it: ONNX would refuse another dtype only when the model is loaded."""
    if is_number(value) and getattr(found.item, "kind", None) == kind_of(value):
        return as_tensor(value)
    if (
        isinstance(value, torch.Tensor)
        and getattr(found.item, "dtype", None) == value.dtype
        and len(found.item.sizes) == value.dim()
    ):
        found.item = dataclasses.replace(found.item, sizes=_common_sizes(found.item.sizes, value.shape))
        return value
    raise NoListError("a list that grows in a loop, and holds something else than tensors or numbers of one kind")


def _common_sizes(left: Any, right: Any) -> tuple[Any, ...]:
    return tuple(a if isinstance(b, int) and a == b else None for a, b in zip(left, right, strict=True))


def _sequence_insert(found: ListValue, index: Any, value: Any) -> None:
    length = sequences.LENGTH(_sequence(found))
    position = torch.minimum(torch.clamp(_position(found, index), min=0), length)
    found.sequence = sequences.INSERT(_sequence(found), _sequence_item(found, value), position)


def _sequence_append(found: ListValue, value: Any) -> None:
    item = _sequence_item(found, value)
    found.sequence = sequences.INSERT(_sequence(found), item, sequences.LENGTH(_sequence(found)))


def _concatenated(left: ListValue, right: Any) -> ListValue:
    """Return two lists in a row, of which one may be a sequence."""
    if left.sequence is not None:
        made = ListValue(None, sequence=left.sequence, item=left.item)
        for value in _known_items(right):
            _sequence_append(made, value)
        return made
    made = ListValue(None, sequence=right.sequence, item=right.item)
    for number, value in enumerate(_known_items(left)):
        _sequence_insert(made, number, value)
    return made


def _sequence_get(found: ListValue, index: Any) -> Any:
    if isinstance(index, slice):
        raise NoListError("a slice of a list whose length is known only when the program runs")
    if not hasattr(found.item, "sizes"):
        return Number(found.item.kind, sequences.at(_sequence(found), as_tensor(index), (), DTYPES[found.item.kind]), new_form())
    return sequences.at(_sequence(found), as_tensor(index), found.item.sizes, found.item.dtype)


def _sequence_set(found: ListValue, index: Any, value: Any) -> None:
    position = _position(found, index)
    found.sequence = sequences.INSERT(sequences.ERASE(_sequence(found), position), _sequence_item(found, value), position)


def _sequence_pop(found: ListValue, index: Any = -1) -> Any:
    last = _sequence_get(found, index)
    found.sequence = sequences.ERASE(_sequence(found), as_tensor(index))
    return last


def _sequence_clear(found: ListValue) -> None:
    found.become(ListValue([]))


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
    control.list_len: lambda found: found.length,
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
    control.list_copy: lambda found: ListValue(None, sequence=found.sequence, item=found.item),
}

_JOINING: dict[Any, Callable[..., Any]] = {
    control.list_concat: _concatenated,
    control.list_extend: lambda found, other: found.become(_concatenated(found, other)),
}

_UNBOUND: dict[Any, Callable[..., Any]] = {
    control.list_get: lambda found, index: at(found.tensor, found.dim, index, found.tensor.shape[found.dim]),
    control.list_len: lambda found: found.tensor.shape[found.dim],
    control.list_copy: lambda found: found,
}
