"""What two paths have in common: the join of the values that branches or loop iterations give.

Each value has a type, a small tree. Two types have a least upper bound: sizes that differ become unknown, numbers that
differ become symbolic, values that no single value stands for become a tagged union. What comes from a type is in
:mod:`dy2st.capture.types.abstract_values`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.types import tensor_traits
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet, AbstractTuple
from dy2st.capture.values.kinds import is_number, number_kind
from dy2st.capture.values.symbolic import Order, RuntimeList, TaggedUnion, Undefined, runtime_list
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import AbstractOf, DictOf, ListOf, Structure, TupleOf, exact

ACTS_FOR_USER = False


class Mismatch(Exception):
    """Two values that no single value stands for.

    Args:
        left: the type of the one, or what there is to say of it.
        right: the same of the other; left out where ``left`` says it all.

    Attributes:
        path: where the two are in the values that were compared: positions among their parts.
    """

    def __init__(self, left: Type | str, right: Type | str | None = None) -> None:
        super().__init__(left, right)
        self.left, self.right = left, right
        self.path: tuple[int, ...] = ()

    def told(self, on_left: str = "on one path", on_right: str = "on the other", contents_of: str = "list") -> str:
        """What differs, in words.

        Args:
            on_left: where the one is.
            on_right: where the other is.
            contents_of: the kind of container whose contents were compared, as lists.
        """
        listed = "list" if self.path else contents_of
        left, right = (side if isinstance(side, str) else text(side, listed) for side in (self.left, self.right))
        return left if self.right is None else f"{left} {on_left} and {right} {on_right}"

    def __str__(self) -> str:
        return self.told()


class HoldsItselfMismatch(Mismatch):
    """A container that holds itself: nothing that is passed on by what is in it."""


class LengthMismatch(Mismatch):
    """Two lists of different lengths."""


class TraitMismatch(Mismatch):
    """Two tensors that are told apart though one abstract value could be for both."""


_APART: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("apart", default=frozenset())
_MIXED: contextvars.ContextVar[bool] = contextvars.ContextVar("mixed", default=False)


@contextlib.contextmanager
def telling_apart(names: frozenset[str]) -> Iterator[None]:
    """Inside, two tensors that differ in one of these traits have no join."""
    token, mixed = _APART.set(names), _MIXED.set(False)
    try:
        yield
    finally:
        _APART.reset(token)
        _MIXED.reset(mixed)


DYNAMIC: Any = type("Loose", (), {"__repr__": lambda self: "?"})()
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

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorType:
        """That of exactly this tensor."""
        with torch._C.DisableTorchFunction():
            strides = tuple(map(size_of, tensor.stride())) if tensor.layout == torch.strided else None
            autograd = tensor_traits.autograd_of(tensor)
            sizes = tuple(map(size_of, tensor.shape))
            kind, mixed = tensor_traits.class_of(tensor), tensor_traits.mixed(tensor)
            return cls(tensor.dtype, tensor.device, sizes, strides, *autograd, kind, mixed)


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
    """A type that outlives the capture, where that must not keep the user's objects alive."""
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


_MAX_OPTIONS = 8
_MAX_KEYS = 64
"""Of keys that a dict has: their number does not grow with each look at a loop."""

Type = TensorType | NumberType | SameType | ListType | StringType | OrderType | UnboundType | TaggedUnionType | ContainerType


CONTAINERS = (ContainerType, ListType)
VALUES = (TensorType, *CONTAINERS)


def same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values can stand for each other everywhere."""
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


def type_of(value: Any, is_kept: Callable[[Any], bool] = lambda container: False) -> Type:
    """The type of exactly this value.

    Args:
        is_kept: whether a container is passed on as the object that it is; the others are passed on by what is in them.

    Raises:
        HoldsItselfMismatch: one of those holds itself.
    """
    return _type_of(value, is_kept, ())


def _type_of(value: Any, is_kept: Callable[[Any], bool], around: tuple[Any, ...]) -> Type:
    if isinstance(value, Undefined):
        return UnboundType(value.name, value.kind, value.arguments)
    if isinstance(value, TaggedUnion):
        return TaggedUnionType(tuple(_type_of(option, is_kept, around) for option in value.options.values()))
    if isinstance(value, (Order, torch.Tensor)):
        return OrderType(value) if isinstance(value, Order) else TensorType.of(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return NumberType(number_kind(value))
    if isinstance(value, (RuntimeString, Text)):
        return StringType()
    if is_kept(value):
        return SameType(value)
    value = runtime_list(value) or value
    if isinstance(value, RuntimeList):
        return ListType(value.element)
    if isinstance(value, AbstractTuple):
        known = runtime_list(value.items)
        return ListType(None if known is None else known.element, True)
    if children(value) is None or (type(value) is torch.Size and all(type(s) is int for s in value)):
        return SameType(value)
    return _type_of_container(value, is_kept, around)


def _type_of_container(value: Any, is_kept: Callable[[Any], bool], around: tuple[Any, ...]) -> Type:
    if any(value is other for other in around):
        raise HoldsItselfMismatch(f"a {type(value).__name__} that holds itself")
    leaves, structure = shallow(value)
    return ContainerType(structure, tuple(_type_of(leaf, is_kept, (*around, value)) for leaf in leaves))


def size_of(size: Any) -> Any:
    """A size as a type has it: a number or an expression."""
    return size.node.expr if isinstance(size, torch.SymInt) and size.node.constant is None else int(size)


def join(a: Type, b: Type, single: tuple[type, ...] = VALUES) -> Type:
    """The least upper bound.

    Args:
        single: kinds of which two that cannot be joined are a mismatch; of other kinds there may be a tagged union.

    Raises:
        Mismatch: there is none.
    """
    if a == b:
        return a
    options = options_of_type(a)
    for option in options_of_type(b):
        options = _with_option(options, option, single)
    return options[0] if len(options) == 1 else TaggedUnionType(options)


def options_of_type(a: Type) -> tuple[Type, ...]:
    """The types of which a value has one."""
    return a.options if isinstance(a, TaggedUnionType) else (a,)


def _with_option(options: tuple[Type, ...], new: Type, single: tuple[type, ...]) -> tuple[Type, ...]:
    """Join a type with the first option it fits, or add it."""
    mismatch: Mismatch | None = None
    for index, option in enumerate(options):
        try:
            joined = join_alike(option, new, single)
        except Mismatch as error:
            if isinstance(option, single) and isinstance(new, single) and not isinstance(error, TraitMismatch):
                mismatch = mismatch or error
            continue
        return (*options[:index], joined, *options[index + 1 :])
    if mismatch is not None:
        raise mismatch
    if len(options) >= _MAX_OPTIONS and _is_string(new):
        rest = tuple(option for option in options if not _is_string(option))
        return (*rest, StringType())
    if len(options) >= _MAX_OPTIONS and isinstance(new, OrderType):
        return (OrderType(Order(None)),)
    if len(options) >= (_MAX_KEYS if _is_key(new) and all(map(_is_key, options)) else _MAX_OPTIONS):
        kinds = ", ".join(map(text, options[:2]))
        raise Mismatch(f"more than {_MAX_OPTIONS} kinds of values on different paths: {kinds} and so on")
    return (*options, new)


def _is_key(a: Type) -> bool:
    """Whether a type is that of a key which a dict has."""
    return isinstance(a, SameType) and hasattr(type(a.value), "__dy2st_key__")


def _is_string(a: Type) -> bool:
    return isinstance(a, StringType) or (isinstance(a, SameType) and type(a.value) is str)


def join_alike(a: Type, b: Type, single: tuple[type, ...]) -> Type:
    if a == b:
        return a
    if isinstance(a, StringType) and _is_string(b):  # b is a constant: one of many
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _join_tensors(a, b)
    if isinstance(a, OrderType) and isinstance(b, OrderType) and (merged := a.order.merged(b.order)) is not None:
        return OrderType(merged)
    kind, other = _kind(a), _kind(b)
    if kind is not None and other is not None:
        return _join_numbers(kind, other)
    if isinstance(a, ListType) and isinstance(b, ListType) and a.is_tuple == b.is_tuple:
        return ListType(join_elements(a.element, b.element), a.is_tuple)
    if isinstance(a, ContainerType) and isinstance(b, ContainerType):
        return _join_containers(a, b, single)
    raise Mismatch(a, b)


def join_elements(a: Type | None, b: Type | None) -> Type | None:
    """The type of the items of a list; ``None`` while it has none."""
    token = _APART.set(frozenset())  # the program knows an item by its dtype and rank
    try:
        return a or b if a is None or b is None else join(a, b, ())
    finally:
        _APART.reset(token)


def tuple_of_any_length(a: Type, b: Type) -> Type | None:
    """The tuple of any length that two tuples of different lengths are; ``None`` for anything else."""
    found: list[Type | None] = []
    for kind in (a, b):
        if isinstance(kind, ListType) and kind.is_tuple:
            found.append(kind.element)
        elif isinstance(kind, ContainerType) and isinstance(kind.structure, TupleOf) and kind.structure.factory is None:
            found.append(functools.reduce(join_elements, map(_element, kind.items), None))
        else:
            return None
    if isinstance(a, ContainerType) and isinstance(b, ContainerType) and len(a.items) == len(b.items):
        return None
    return ListType(join_elements(*found), True)


def union_of_dicts(a: Type, b: Type) -> Type | None:
    """One of several dicts with other keys, of what is no container; ``None`` for anything else.

    Others that differ in structure have no end of kinds in a loop, or hold objects of which each option would have its own.
    """
    options = options_of_type(a)
    for new in options_of_type(b):
        options = _with_dict(options, new)
    parts: list[Type] = []
    for option in options:
        is_dict = isinstance(option, ContainerType) and isinstance(option.structure, DictOf)
        parts += option.items if isinstance(option, ContainerType) and is_dict else options_of_type(option)
    inner = [option for part in parts for option in options_of_type(part)]
    if len(options) > _MAX_OPTIONS or any(isinstance(option, CONTAINERS) for option in inner):
        return None
    return TaggedUnionType(options)


def _with_dict(options: tuple[Type, ...], new: Type) -> tuple[Type, ...]:
    for index, option in enumerate(options):
        try:
            joined = join_alike(option, new, CONTAINERS)
        except Mismatch:
            continue
        return (*options[:index], joined, *options[index + 1 :])
    return (*options, new)


def _element(kind: Type) -> Type:
    """The type of an item of a list of which one of this type is an item: a number is any number of its kind."""
    if isinstance(kind, ContainerType):
        return ContainerType(kind.structure, tuple(map(_element, kind.items)))
    return NumberType(number_kind(kind.value)) if isinstance(kind, SameType) and _is_plain_number(kind.value) else kind


def holds_objects(element: Type | None) -> bool:
    """Whether the items of a list are, or hold, dicts or dataclass instances."""
    match element:
        case TaggedUnionType(options):
            return any(map(holds_objects, options))
        case ContainerType(structure, items):
            return not isinstance(structure, TupleOf) or any(map(holds_objects, items))
    return False


def _join_tensors(a: TensorType, b: TensorType) -> Type:
    if (a.dtype, a.device, len(a.sizes)) != (b.dtype, b.device, len(b.sizes)):
        raise Mismatch(a, b)
    sizes = tuple(x if x == y and x is not DYNAMIC else DYNAMIC for x, y in zip(a.sizes, b.sizes))
    strides = a.strides if a.strides == b.strides and DYNAMIC not in sizes else None
    mixed = a.mixed | b.mixed | _differing(a, b)
    if not mixed.isdisjoint(_APART.get() - a.mixed - b.mixed):
        raise TraitMismatch(f"{text(a)} that requires a gradient, is a leaf or a parameter on one path only")
    kind = a.kind if a.kind is b.kind else torch.Tensor
    requires_grad, is_leaf = a.requires_grad or b.requires_grad, a.is_leaf and b.is_leaf
    return TensorType(a.dtype, a.device, sizes, strides, requires_grad, is_leaf, kind, mixed)


def _differing(a: TensorType, b: TensorType) -> frozenset[str]:
    """The traits in which two types of tensors differ."""
    same = {
        tensor_traits.AUTOGRAD: (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf),
        tensor_traits.CLASS: a.kind is b.kind,
    }
    return frozenset(name for name, alike in same.items() if not alike)


def _kind(a: Type) -> str | None:
    if isinstance(a, NumberType):
        return a.kind
    return number_kind(a.value) if isinstance(a, SameType) and _is_plain_number(a.value) else None


def _is_plain_number(value: Any) -> bool:
    """Whether a value is a number and nothing more: a member of an enumeration has a name that must not be lost."""
    return is_number(value) and not isinstance(value, enum.Enum)


def _join_numbers(a: str, b: str) -> Type:
    if "bool" in (a, b) and a != b:
        raise Mismatch(f"a {a}", f"a {b}")
    if a != b and tensor_traits.NUMBER in _APART.get():
        raise TraitMismatch(f"a {a}", f"a {b}")
    mix_numbers({a, b})
    return NumberType("float" if "float" in (a, b) else a)


def mix_numbers(kinds: set[str]) -> None:
    """A number is made that is of one of these kinds."""
    if len(kinds) > 1:
        _MIXED.set(True)


def has_mixed_numbers() -> bool:
    """Whether a number is an int on one path and a float on another: what is made of it may be either as well."""
    return _MIXED.get()


def _join_containers(a: ContainerType, b: ContainerType, single: tuple[type, ...]) -> Type:
    if isinstance(a.structure, DictOf) and isinstance(b.structure, DictOf) and set(a.structure.keys) == set(b.structure.keys):
        orders = [list(keys) for keys in (a.structure.keys, b.structure.keys)]
        if orders[0] != orders[1]:
            raise Mismatch(f"a dict with its keys in the order {orders[0]}", f"in the order {orders[1]}")
    if a.structure != b.structure:
        kind = LengthMismatch if type(a.structure) is type(b.structure) and len(a.items) != len(b.items) else Mismatch
        raise kind(a, b)
    return ContainerType(a.structure, tuple(_join_part(n, x, y, single) for n, (x, y) in enumerate(zip(a.items, b.items))))


def _join_part(number: int, a: Type, b: Type, single: tuple[type, ...]) -> Type:
    try:
        return join(a, b, single)
    except Mismatch as error:
        error.path = (number, *error.path)
        raise


_SHOWN = (bool, int, float, complex, str, bytes, type(None), type(...), type, range, slice, torch.dtype, torch.device)


def _same_text(value: Any) -> str:
    """An object in words; what a set or deque holds may be known at run time only."""
    if isinstance(value, (AbstractSet, AbstractDeque)) or children(value) is not None:
        return f"a {value.__class__.__name__} from before"
    if isinstance(value, types.FunctionType):
        return f"the function {value.__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if not isinstance(value, _SHOWN):  # the user's own way to show it is theirs to call, and it may not be complete yet
        return f"an instance of {type(value).__qualname__}"
    return f"{value!r} ({type(value).__name__})"


def text(a: Type | None, listed: str = "list") -> str:
    """A type in words, for messages.

    Args:
        a: the type.
        listed: what a list is called: it may stand for the contents of something else.
    """
    match a:
        case TensorType(dtype, device, sizes):
            shape = ", ".join(map(str, sizes))
            return f"a tensor {str(dtype).removeprefix('torch.')}[{shape}]" + (f" on {device}" if device.type != "cpu" else "")
        case NumberType(kind):
            return f"a symbolic {kind}"
        case SameType(value):
            return _same_text(value)
        case ListType(_, is_tuple):
            return f"a {'tuple' if is_tuple else listed} that grows"
        case StringType():
            return "a string made at run time"
        case UnboundType(name):
            return f"nothing ('{name}' is not bound)"
        case TaggedUnionType(options):
            return " or ".join(map(text, options))
        case ContainerType(AbstractOf(), items):
            return text(items[0], "deque")
        case ContainerType(structure, items):
            name = listed if isinstance(structure, ListOf) else type(structure).__name__.removesuffix("Of").lower()
            return f"a {name} of ({', '.join(map(text, items))})"
    return "nothing"
