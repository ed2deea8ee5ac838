"""Types that have no join, and types in words."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from dy2st.capture.types.value_types import (
    ContainerType,
    ListType,
    NumberType,
    SameType,
    StringType,
    TaggedUnionType,
    TensorType,
    Type,
    UnboundType,
)
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.structure import AbstractOf, ListOf

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
        """Return what differs, in words.

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


_SHOWN = (bool, int, float, complex, str, bytes, type(None), type(...), type, range, slice, torch.dtype, torch.device)


def _same_text(value: Any) -> str:
    """Return an object in words; what a set or deque holds may be known at run time only."""
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
    """Return a type in words, for messages.

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
