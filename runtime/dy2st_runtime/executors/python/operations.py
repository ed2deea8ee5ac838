"""What each control target without blocks does in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dy2st_runtime.ir import items
from dy2st_runtime.primitives import cells, control
from dy2st_runtime.primitives.text import join_parts


def _assert(condition: Any, exception: Callable[..., BaseException], *arguments: Any) -> None:
    if not condition:
        raise exception(*arguments)


def _raise(exception: Callable[..., BaseException], *arguments: Any) -> None:
    raise exception(*arguments)


def _print(parts: Sequence[Any], end: str) -> None:
    print(join_parts(parts), end=end)


def _set(items: list[Any], index: Any, value: Any) -> None:
    items[index] = value


def _order(keys: Sequence[Any], reverse: Any) -> list[int]:
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def _find(keys: Sequence[Any], key: Any) -> int:
    return next((position for position, other in enumerate(keys) if other == key), -1)


def _take(items: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    return [items[position] for position in positions]


def _join(values: Sequence[str], separator: str) -> str:
    return separator.join(values)


def _call_python(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _apply(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


OPERATIONS: dict[Any, Callable[..., Any]] = {
    control.assert_: _assert,
    control.raise_: _raise,
    control.print_: _print,
    control.format_: join_parts,
    control.call_: _call_python,
    control.apply_: _apply,
    control.list_: list,
    control.list_append: list.append,
    control.list_extend: list.extend,
    control.list_insert: list.insert,
    control.list_set: _set,
    control.list_pop: list.pop,
    control.list_clear: list.clear,
    control.list_reverse: list.reverse,
    control.list_get: list.__getitem__,
    control.list_slice: list.__getitem__,
    control.list_len: len,
    control.list_copy: list,
    control.list_concat: list.__add__,
    control.list_order: _order,
    control.list_find: _find,
    control.list_take: _take,
    control.list_delete: list.__delitem__,
    control.list_assign: list.__setitem__,
    control.list_repeat: list.__mul__,
    control.list_tensor: items.tensor,
    control.list_join: _join,
    control.item_choose: items.choose,
    control.item_make: items.make,
    control.item_kind: items.kind_of,
    control.item_of_kind: items.of_kind,
    control.item_parts: items.parts,
    control.item_open: cells.open_,
    control.item_owner: cells.owner,
}
"""What each control target without blocks does."""
