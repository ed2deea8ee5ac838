"""What two paths have in common: the join of the values that branches or loop trips give.

Each value has a type, a small tree. Two types have a least upper bound: sizes that differ become unknown, numbers that differ become
symbolic, a value that one path lacks becomes a value that may be missing. From a type comes a fresh value that stands for
either path's, and any value that fits a type can be taken apart into the leaves that the program passes along.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.values import Maybe, RuntimeList, Undefined, is_number, number_kind
from dy2st_runtime.printing import describe
from dy2st_runtime.structure import Structure, children, flatten, unflatten


class Mismatch(Exception):
    """Two values that no single value stands for; the message says what they are."""


class LengthMismatch(Mismatch):
    """Two lists of different lengths."""


LOOSE: Any = type("Loose", (), {"__repr__": lambda self: "?"})()
"""A size that differs from path to path."""


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A tensor; ``strides`` is ``None`` where they may differ."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    requires_grad: bool


@dataclasses.dataclass(frozen=True)
class NumberType:
    """A number that differs from path to path: ``kind`` is ``"bool"``, ``"int"`` or ``"float"``."""

    kind: str


@dataclasses.dataclass(frozen=True, eq=False)
class SameType:
    """A Python object that is the same on every path."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameType) and same_constant(self.value, other.value)

    def __hash__(self) -> int:
        return 0


@dataclasses.dataclass(frozen=True)
class ListType:
    """A list of the program (see :class:`~dy2st.capture.values.RuntimeList`)."""

    element: Any


@dataclasses.dataclass(frozen=True)
class MaybeType:
    """A value that may be missing; ``missing`` is the name that is then unbound, or ``None`` for the value ``None``."""

    value: Any
    missing: str | None


@dataclasses.dataclass(frozen=True)
class ContainerType:
    """A tuple, list, dict or dataclass of a fixed structure."""

    structure: Structure
    items: tuple[Any, ...]


Type = TensorType | NumberType | SameType | ListType | MaybeType | ContainerType


def same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values can stand for each other everywhere."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, (bool, int, str, bytes, complex, torch.dtype, torch.device, range, slice)):
        return bool(a == b)
    if callable(a) and hasattr(a, "__func__"):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return False


def type_of(value: Any) -> Type:
    """The type of exactly this value."""
    if isinstance(value, Undefined):
        return MaybeType(None, value.name)
    if isinstance(value, Maybe):
        return MaybeType(type_of(value.value), value.missing.name if value.missing else None)
    if isinstance(value, torch.Tensor):
        strides = tuple(map(_size, value.stride())) if value.layout == torch.strided else None
        return TensorType(value.dtype, value.device, tuple(map(_size, value.shape)), strides, value.requires_grad)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return NumberType(number_kind(value))
    if isinstance(value, RuntimeList):
        return ListType(value.element)
    parts = children(value)
    if parts is None or type(value) is torch.Size and all(type(s) is int for s in value):
        return SameType(value)
    leaves, structure = _shallow(value)
    return ContainerType(structure, tuple(map(type_of, leaves)))


def _shallow(value: Any) -> tuple[list[Any], Structure]:
    """One level apart: every part is a leaf."""
    return flatten(value, lambda part: part is not value)


def _size(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) and size.node.constant is None else int(size)


def join(a: Type, b: Type) -> Type:
    """The least upper bound.

    Raises:
        Mismatch: there is none.
    """
    if a == b:
        return a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, MaybeType):
            return _join_maybe(one, other)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, SameType) and one.value is None:
            return MaybeType(other, None)
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _join_tensors(a, b)
    kinds = (_kind(a), _kind(b))
    if kinds[0] is not None and kinds[1] is not None:
        return _join_numbers(*kinds)
    if isinstance(a, ListType) and isinstance(b, ListType):
        return ListType(join_elements(a.element, b.element))
    if isinstance(a, ContainerType) and isinstance(b, ContainerType):
        return _join_containers(a, b)
    raise Mismatch(f"{text(a)} on one path and {text(b)} on the other")


def join_elements(a: Type | None, b: Type | None) -> Type | None:
    """The type of the elements of a list; ``None`` while it has none."""
    if a is None or b is None:
        return a or b
    return join(a, b)


def _join_maybe(maybe: MaybeType, other: Type) -> Type:
    if isinstance(other, MaybeType):
        if other.missing != maybe.missing:
            raise Mismatch(f"{text(maybe)} on one path and {text(other)} on the other")
        other_value = other.value
    elif isinstance(other, SameType) and other.value is None and maybe.missing is None:
        return maybe
    else:
        other_value = other
    return MaybeType(join_elements(maybe.value, other_value), maybe.missing)


def _join_tensors(a: TensorType, b: TensorType) -> Type:
    if (a.dtype, a.device, len(a.sizes)) != (b.dtype, b.device, len(b.sizes)):
        raise Mismatch(f"{text(a)} on one path and {text(b)} on the other")
    sizes = tuple(x if x == y and x is not LOOSE else LOOSE for x, y in zip(a.sizes, b.sizes))
    strides = a.strides if a.strides == b.strides and LOOSE not in sizes else None
    return TensorType(a.dtype, a.device, sizes, strides, a.requires_grad or b.requires_grad)


def _kind(a: Type) -> str | None:
    if isinstance(a, NumberType):
        return a.kind
    return number_kind(a.value) if isinstance(a, SameType) and is_number(a.value) else None


def _join_numbers(a: str, b: str) -> Type:
    if "bool" in (a, b) and a != b:
        raise Mismatch(f"a {a} on one path and a {b} on the other")
    return NumberType("float" if "float" in (a, b) else a)


def _join_containers(a: ContainerType, b: ContainerType) -> Type:
    if a.structure != b.structure:
        kind = LengthMismatch if type(a.structure) is type(b.structure) and len(a.items) != len(b.items) else Mismatch
        raise kind(f"{text(a)} on one path and {text(b)} on the other")
    return ContainerType(a.structure, tuple(join(x, y) for x, y in zip(a.items, b.items)))


def text(a: Type | None) -> str:
    """A type in words, for messages."""
    match a:
        case TensorType(dtype, device, sizes):
            shape = ", ".join(map(str, sizes))
            return f"a tensor {str(dtype).removeprefix('torch.')}[{shape}]" + (f" on {device}" if device.type != "cpu" else "")
        case NumberType(kind):
            return f"a symbolic {kind}"
        case SameType(value):
            return f"{value!r} ({type(value).__name__})"
        case ListType():
            return "a list that grows"
        case MaybeType(None, str(name)):
            return f"nothing ('{name}' is not bound)"
        case MaybeType(value, _):
            return f"{text(value)} or nothing"
        case ContainerType(structure, items):
            name = type(structure).__name__.removesuffix("Of").lower()
            return f"a {name} of ({', '.join(map(text, items))})"
    return "nothing"


def leaves(kind: Type, value: Any, out: list[Any]) -> None:
    """Append the program values that make up ``value`` seen as a ``kind``; a missing value gives ``None`` in each place."""
    match kind:
        case SameType():
            return
        case MaybeType(inner, _):
            missing = value is None or isinstance(value, Undefined) or value is ABSENT
            present = value.present if isinstance(value, Maybe) else (None if value is ABSENT else not missing)
            out.append(present)
            if inner is not None:
                leaves(inner, ABSENT if missing else (value.value if isinstance(value, Maybe) else value), out)
        case ContainerType(structure, items):
            parts = [ABSENT] * len(items) if value is ABSENT else _shallow(value)[0]
            for item, part in zip(items, parts):
                leaves(item, part, out)
        case _:
            out.append(None if value is ABSENT else value)


ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>"})()
"""Stands for a value on a path that never gets there, or where it is missing."""


def fresh(kind: Type, make: Callable[[Any], Any], out: list[Any]) -> Any:
    """A new value of a type; ``make`` gives the new tensors, numbers and lists, which are appended to ``out`` as by :func:`leaves`."""
    match kind:
        case SameType(value):
            return value
        case MaybeType(None, name):
            out.append(True)
            return Undefined(name) if name is not None else None
        case MaybeType(inner, name):
            out.append(make(NumberType("bool")))
            present = out[-1]
            return Maybe(fresh(inner, make, out), present, Undefined(name) if name is not None else None)
        case ContainerType(structure, items):
            return unflatten(structure, [fresh(item, make, out) for item in items])
        case _:
            out.append(make(kind))
            return out[-1]


def describe_value(value: Any) -> str:
    """A value in words, for messages."""
    return describe(value) or repr(value)
