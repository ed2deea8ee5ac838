"""Values that only exist during a capture, and the question whether a value is known only at run time."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, NoReturn

import torch

SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Undefined:
    """What a name holds before it is bound."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def fail(self) -> NoReturn:
        """Raise what Python raises for an unbound local.

        Raises:
            UnboundLocalError: always, with Python's own words.
        """
        raise UnboundLocalError(unbound_message(self.name))

    def __repr__(self) -> str:
        return f"<{self.name} is not bound>"


def unbound_message(name: str) -> str:
    """Python's words for reading an unbound local."""
    if sys.version_info < (3, 11):
        return f"local variable '{name}' referenced before assignment"
    return f"cannot access local variable '{name}' where it is not associated with a value"


def unbound_free_message(name: str) -> str:
    """Python's words for reading an unbound variable of an enclosing function."""
    if sys.version_info < (3, 11):
        return f"free variable '{name}' referenced before assignment in enclosing scope"
    return f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"


@dataclasses.dataclass(frozen=True, eq=False)
class Maybe:
    """A value that exists on some paths only.

    Attributes:
        value: what it is where it exists.
        present: a symbolic bool, or ``True`` where that is known.
        missing: what stands in for it elsewhere: an :class:`Undefined` or ``None``.
    """

    value: Any
    present: Any
    missing: Undefined | None


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A string whose text is known only at run time: the parts that ``join_parts`` puts together."""

    parts: tuple[Any, ...]

    def __format__(self, specification: str) -> str:
        raise TypeError("a text made of tensors can only be printed or raised inside a captured function")


class RuntimeList:
    """Marks a Python list that has become a list of the program.

    Attributes:
        items: the Python list object that the user's code holds; its contents are out of date.
        element: an example of an element, or ``None`` while nothing has been put in.
    """

    def __init__(self, items: list[Any], element: Any) -> None:
        self.items = items
        self.element = element


def is_symbolic(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS))


def is_number(value: Any) -> bool:
    """Whether a value is a Python number or a symbolic one."""
    return isinstance(value, (bool, int, float, *SYMBOLIC_NUMBERS))


def number_kind(value: Any) -> str:
    """``"bool"``, ``"int"`` or ``"float"`` for a number, symbolic or not."""
    if isinstance(value, (bool, torch.SymBool)):
        return "bool"
    return "int" if isinstance(value, (int, torch.SymInt)) else "float"


def unpack_list(value: Any) -> Any:
    """The Python list that stands for a list of the program; any other value as it is."""
    return value.items if isinstance(value, RuntimeList) else value
