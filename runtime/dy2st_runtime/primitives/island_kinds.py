"""Kinds of what islands give, and the leaves that a program takes a value of one apart into.

| kind | leaves |
|---|---|
| :class:`TensorKind`, :class:`NumberKind`, :class:`TextKind` | the value |
| :class:`ListKind` | a list of its own |
| :class:`ConstantKind` | none |
| :class:`NestKind` | those of its items, in order |
| :class:`ChoiceKind` | the number of the option, then those of each option; ``None`` for the ones that it is not |
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.distributed.waiting import is_awaited

_NUMBERS = (bool, int, float)
_CONSTANTS = (type(None), type(...), bytes, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclasses.dataclass(frozen=True)
class TensorKind:
    """A tensor.

    Attributes:
        sizes: ``None`` for one that may be any.
        device: ``None`` where it is that of the arguments.
        requires_grad: ``None`` where it may, and may not.
        is_leaf: whether it is one for autograd.
        kind: its class.
    """

    dtype: torch.dtype
    sizes: tuple[int | None, ...]
    device: torch.device | None
    requires_grad: bool | None = None
    is_leaf: bool = False
    kind: type = torch.Tensor

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.sizes)
        device = "" if self.device is None or self.device.type == "cpu" else f" on {self.device}"
        gradient = " that requires a gradient" if self.requires_grad else ""
        what = "tensor" if self.kind is torch.Tensor else self.kind.__name__
        return f"a {what} [{sizes}] of {str(self.dtype).removeprefix('torch.')}{device}{gradient}"


@dataclasses.dataclass(frozen=True)
class NumberKind:
    """A number of Python: a ``bool``, an ``int`` or a ``float``."""

    kind: type

    def __str__(self) -> str:
        return f"{'an' if self.kind is int else 'a'} {self.kind.__name__}"


@dataclasses.dataclass(frozen=True)
class TextKind:
    """A string."""

    def __str__(self) -> str:
        return "a str"


@dataclasses.dataclass(frozen=True)
class ConstantKind:
    """A value that is the same each time."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclasses.dataclass(frozen=True)
class ListKind:
    """A list of any length.

    Attributes:
        item: the kind of each item: a tensor, number or string.
    """

    item: Kind

    def __str__(self) -> str:
        return f"a list, each item {self.item}"


@dataclasses.dataclass(frozen=True)
class NestKind:
    """A tuple, list, dict or dataclass.

    Attributes:
        kind: its class.
        keys: of a dict the keys, of a dataclass the fields; else the positions.
        items: the kinds of what it holds.
    """

    kind: type
    keys: tuple[Any, ...]
    items: tuple[Kind, ...]

    def __str__(self) -> str:
        if issubclass(self.kind, dict) or dataclasses.is_dataclass(self.kind):
            inside = ", ".join(f"{key!r}: {item}" for key, item in zip(self.keys, self.items))
        else:
            inside = ", ".join(map(str, self.items))
        return f"a {self.kind.__name__} of ({inside})" if self.items else f"an empty {self.kind.__name__}"


@dataclasses.dataclass(frozen=True)
class ChoiceKind:
    """One of several kinds."""

    options: tuple[Kind, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.options))


Kind = TensorKind | NumberKind | TextKind | ConstantKind | ListKind | NestKind | ChoiceKind


@dataclasses.dataclass(frozen=True)
class Mark:
    """What the user has said of a function that runs as Python.

    Attributes:
        returns: the kind of what it gives; ``None`` where that is to be learned.
    """

    returns: Kind | None = None


class UnknownKindError(Exception):
    """A value is of no kind that a program can go on with; the message says what it is, and what to give instead."""


def kind_of(value: Any, around: tuple[Any, ...] = ()) -> Kind:
    """Return the kind of a value.

    Raises:
        UnknownKindError: it has none.
    """
    if isinstance(value, torch.Tensor):
        return _kind_of_tensor(value)
    if type(value) in _NUMBERS:
        return NumberKind(type(value))
    if type(value) is str:
        return TextKind()
    if isinstance(value, _CONSTANTS) or (isinstance(value, type) and value.__module__ == "builtins"):
        return ConstantKind(value)
    parts = parts_of(value)
    if parts is None:
        raise UnknownKindError(_unknown(value))
    if any(value is other for other in around):
        raise UnknownKindError(f"a {type(value).__name__} that holds itself")
    items = tuple(kind_of(part, (*around, value)) for part in parts[1])
    item = _one_item(items) if type(value) is list else None
    return NestKind(type(value), parts[0], items) if item is None else ListKind(item)


def _kind_of_tensor(value: torch.Tensor) -> Kind:
    kind = torch.Tensor if is_awaited(value) else type(value)
    plain = kind in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if not plain or value.layout != torch.strided or value.is_quantized:
        raise UnknownKindError(f"a tensor of the class {type(value).__name__} and layout {value.layout}; give a plain one")
    sizes = (None,) * value.dim()
    return TensorKind(value.dtype, sizes, value.device, value.requires_grad, value.is_leaf, kind)


def _unknown(value: Any) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    if kind.__module__ == "numpy":
        is_array = hasattr(value, "shape") and kind.__name__ == "ndarray"
        return f"a {name}; give {'torch.from_numpy(result)' if is_array else 'result.item()'} in its place"
    return f"a {name}; give tensors, numbers, strings, None, or tuples, lists, dicts and dataclasses of these"


def parts_of(value: Any) -> tuple[tuple[Any, ...], Sequence[Any]] | None:
    """Return the keys of a container, and what is under them; ``None`` for anything else."""
    kind = type(value)
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return tuple(range(len(value))), value
    if kind in (dict, collections.OrderedDict):
        return tuple(value), [*value.values()]
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        names = tuple(field.name for field in dataclasses.fields(value) if hasattr(value, field.name))
        if set(getattr(value, "__dict__", ())) <= set(names):
            return names, [getattr(value, name) for name in names]
    return None


def join(known: Kind, new: Kind) -> Kind:
    """Return the kind of what is of either kind."""
    options = known.options if isinstance(known, ChoiceKind) else (known,)
    for other in new.options if isinstance(new, ChoiceKind) else (new,):
        options = _with(options, other)
    return options[0] if len(options) == 1 else ChoiceKind(options)


def _with(options: tuple[Kind, ...], new: Kind) -> tuple[Kind, ...]:
    for at, option in enumerate(options):
        joined = _joined(option, new)
        if joined is not None:
            return (*options[:at], joined, *options[at + 1 :])
    return (*options, new)


def _joined(a: Kind, b: Kind) -> Kind | None:
    """Return one kind for two, where there is one that is no choice."""
    if a == b:
        return a
    if isinstance(a, TensorKind) and isinstance(b, TensorKind) and len(a.sizes) == len(b.sizes):
        sizes = tuple(x if x == y else None for x, y in zip(a.sizes, b.sizes))
        joined = dataclasses.replace(a, sizes=sizes)
        return joined if joined == dataclasses.replace(b, sizes=sizes) else None
    if isinstance(a, NestKind) and isinstance(b, NestKind) and (a.kind, a.keys) == (b.kind, b.keys):
        items = tuple(join(x, y) for x, y in zip(a.items, b.items))
        return NestKind(a.kind, a.keys, items)
    one, other = _as_list(a), _as_list(b)
    if one is not None and other is not None:
        items = tuple(dict.fromkeys((*one, *other)))
        item = _one_item(items)
        return None if item is None else ListKind(item)
    return None


def _as_list(kind: Kind) -> tuple[Kind, ...] | None:
    if isinstance(kind, ListKind):
        return (kind.item,)
    return kind.items if isinstance(kind, NestKind) and kind.kind is list else None


def _one_item(items: tuple[Kind, ...]) -> Kind | None:
    result: Kind | None = items[0] if items else None
    for item in items[1:]:
        result = None if result is None else _joined(result, item)
    return result if isinstance(result, (TensorKind, NumberKind, TextKind)) else None


def on_device(kind: Kind, device: torch.device) -> Kind:
    """Return a kind with the device of the tensors of which none is declared."""
    if isinstance(kind, TensorKind):
        return kind if kind.device is not None else dataclasses.replace(kind, device=device)
    if isinstance(kind, NestKind):
        return dataclasses.replace(kind, items=tuple(on_device(item, device) for item in kind.items))
    return kind


class OtherKindError(Exception):
    """A value is not of a kind."""

    def __init__(self, where: str, expected: Kind, value: Any) -> None:
        self.where, self.expected, self.value = where, expected, value


def leaves(kind: Kind, value: Any, out: list[Any], where: str = "") -> None:
    """Append the leaves of a value of a kind."""
    match kind:
        case TensorKind():
            _check_tensor(kind, value, where)
            out.append(value)
        case NumberKind() | TextKind():
            _check_class(kind, kind.kind if isinstance(kind, NumberKind) else str, value, where)
            out.append(value)
        case ConstantKind(constant):
            if value is not constant and not (type(value) is type(constant) and value == constant):
                raise OtherKindError(where, kind, value)
        case ListKind(item):
            _check_class(kind, list, value, where)
            for position, part in enumerate(value):
                leaves(item, part, [], f"{where}[{position}]")
            out.append([*value])
        case NestKind():
            _nest_leaves(kind, value, out, where)
        case ChoiceKind(options):
            _choice_leaves(options, value, out, where)


def _check_class(kind: Kind, expected: type, value: Any, where: str) -> None:
    if type(value) is not expected:
        raise OtherKindError(where, kind, value)


def _check_tensor(kind: TensorKind, value: Any, where: str) -> None:
    if not isinstance(value, torch.Tensor):
        raise OtherKindError(where, kind, value)
    same = value.dtype == kind.dtype and value.device == kind.device and value.dim() == len(kind.sizes) and type(value) is kind.kind
    same = same and value.layout == torch.strided and all(size in (None, now) for size, now in zip(kind.sizes, value.shape))
    if not same or (kind.requires_grad is not None and (value.requires_grad, value.is_leaf) != (kind.requires_grad, kind.is_leaf)):
        raise OtherKindError(where, kind, value)


def _nest_leaves(kind: NestKind, value: Any, out: list[Any], where: str) -> None:
    parts = parts_of(value) if type(value) is kind.kind else None
    if parts is None or parts[0] != kind.keys:
        raise OtherKindError(where, kind, value)
    for key, item, part in zip(kind.keys, kind.items, parts[1]):
        step = f".{key}" if dataclasses.is_dataclass(kind.kind) else f"[{key!r}]"
        leaves(item, part, out, f"{where}{step}")


def _choice_leaves(options: tuple[Kind, ...], value: Any, out: list[Any], where: str) -> None:
    chosen: tuple[int, list[Any]] | None = None
    for position, option in enumerate(options):
        given: list[Any] = []
        try:
            leaves(option, value, given, where)
        except OtherKindError:
            continue
        chosen = position, given
        break
    if chosen is None:
        raise OtherKindError(where, ChoiceKind(options), value)
    out.append(chosen[0])
    for position, option in enumerate(options):
        out += chosen[1] if position == chosen[0] else [None] * count(option)


def count(kind: Kind) -> int:
    """Return how many leaves the values of a kind have."""
    match kind:
        case ConstantKind():
            return 0
        case NestKind(_, _, items):
            return sum(map(count, items))
        case ChoiceKind(options):
            return 1 + sum(map(count, options))
    return 1
