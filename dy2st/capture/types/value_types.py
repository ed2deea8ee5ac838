"""The types of values: what one stands for, as far as the capture tells values apart."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.types import tensor_traits
from dy2st.capture.values.symbolic import Order
from dy2st_runtime.ir.structure import Structure, exact

ACTS_FOR_USER = False

DYNAMIC: Any = type("Dynamic", (), {"__repr__": lambda self: "?"})()
"""A size that differs from path to path."""


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A tensor; ``strides`` is ``None`` where they may differ, and ``mixed`` has the traits that may (see tensor_traits.py)."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    requires_grad: bool
    is_leaf: bool = False
    kind: type = torch.Tensor
    mixed: frozenset[str] = frozenset()
    layout: torch.layout = torch.strided

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorType:
        """Return the type of exactly this tensor."""
        with torch._C.DisableTorchFunction():
            strides = tuple(map(size_of, tensor.stride())) if tensor.layout == torch.strided else None
            autograd = tensor_traits.autograd_of(tensor)
            sizes = tuple(map(size_of, tensor.shape))
            kind, mixed = tensor_traits.class_of(tensor), tensor_traits.mixed(tensor)
            return cls(tensor.dtype, tensor.device, sizes, strides, *autograd, kind, mixed, tensor.layout)


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


class WeakSameType(SameType):
    """One that does not keep the object alive; the object is ``None`` when it is gone."""

    def __init__(self, reference: Callable[[], Any]) -> None:
        object.__setattr__(self, "_reference", reference)

    @property
    def value(self) -> Any:
        """The object."""
        return self._reference()  # type: ignore[attr-defined]


def held_weakly(type_: Type | None) -> Type | None:
    """Return a type that outlives the capture, where that must not keep the user's objects alive."""
    if type(type_) is not SameType or isinstance(type_.value, (type, types.FunctionType, types.ModuleType)):
        return type_
    try:
        return WeakSameType(weakref.ref(type_.value))
    except TypeError:
        return type_


@dataclasses.dataclass(frozen=True)
class ListType:
    """A list of the program (see :class:`~dy2st.capture.values.symbolic.RuntimeList`), or a tuple that is one."""

    element: Any
    is_tuple: bool = False


@dataclasses.dataclass(frozen=True)
class StringType:
    """A string that the program makes."""


@dataclasses.dataclass(frozen=True)
class OrderType:
    """An order of the keys of a dict."""

    order: Order


@dataclasses.dataclass(frozen=True)
class UnboundType:
    """A name that is not bound, or an item or attribute that is missing; see :class:`~dy2st.capture.values.symbolic.Undefined`."""

    name: str
    kind: type[Exception] = UnboundLocalError
    arguments: tuple[Any, ...] | None = None


@dataclasses.dataclass(frozen=True)
class TaggedUnionType:
    """One of several values that no single value stands for; the position is the tag."""

    options: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class ContainerType:
    """A tuple, list, dict or dataclass of a fixed structure."""

    structure: Structure
    items: tuple[Any, ...]


Type = TensorType | NumberType | SameType | ListType | StringType | OrderType | UnboundType | TaggedUnionType | ContainerType


CONTAINERS = (ContainerType, ListType)


VALUES = (TensorType, *CONTAINERS)


def same_constant(a: Any, b: Any) -> bool:
    """Tell whether two Python values can stand for each other everywhere."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex, range, slice)):
        return bool(exact(a) == exact(b))
    if isinstance(a, (bool, int, str, bytes, torch.dtype, torch.device)):
        return bool(a == b)
    if isinstance(a, types.MethodType):
        return bool(a.__func__ is b.__func__ and a.__self__ is b.__self__)
    return False


def size_of(size: Any) -> Any:
    """Return a size as a type has it: a number or an expression."""
    return size.node.expr if isinstance(size, torch.SymInt) and size.node.constant is None else int(size)
