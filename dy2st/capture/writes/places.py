"""Places that hold values: names, attributes, items, and the contents of containers."""

from __future__ import annotations

import dataclasses
from types import CellType, FunctionType
from typing import Any

from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.errors import Dy2stError
from dy2st.names import Operators
from dy2st_runtime.ir.unflattening import in_order

ACTS_FOR_USER = False


@dataclasses.dataclass(frozen=True, eq=False)
class CellPlace:
    """A local name, through the closure cell it lives in."""

    cell: CellType
    name: str

    @property
    def key(self) -> tuple[Any, ...]:
        return ("cell", id(self.cell))

    def read(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING

    def write(self, value: Any) -> None:
        if value is MISSING:
            del self.cell.cell_contents
        else:
            self.cell.cell_contents = value

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True, eq=False)
class AttributePlace:
    """An attribute that an object has itself.

    Attributes:
        table: the dict in which a module keeps the attribute, where what it is does not tell.
    """

    owner: Any
    name: str
    table: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        return ("attribute", id(self.owner), self.name)

    def read(self) -> Any:
        return storage.own(self.owner, self.name)

    def write(self, value: Any) -> None:
        if value is MISSING:
            storage.drop(self.owner, self.name)
        else:
            storage.keep(self.owner, self.name, value, self.table)

    @property
    def now(self) -> AttributePlace:
        """The same, with where the attribute is now."""
        table = storage.told_table(self.owner, self.name)
        return self if table == self.table else AttributePlace(self.owner, self.name, table)

    def __str__(self) -> str:
        return f"{(self.owner if isinstance(self.owner, type) else type(self.owner)).__name__}.{self.name}"


@dataclasses.dataclass(frozen=True, eq=False)
class ItemPlace:
    """An item of a dict (or of the globals of a module)."""

    owner: Any
    item: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("item", id(self.owner), self.item)

    def read(self) -> Any:
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.item, MISSING)
        base = storage.base_of(self.owner)
        return base.__getitem__(self.owner, self.item) if self.item < base.__len__(self.owner) else MISSING

    def write(self, value: Any) -> None:
        if not isinstance(self.owner, dict):
            if value is not MISSING:
                storage.base_of(self.owner).__setitem__(self.owner, self.item, value)
        elif value is not MISSING:
            storage.base_of(self.owner).__setitem__(self.owner, self.item, value)
        elif dict.__contains__(self.owner, self.item):
            storage.base_of(self.owner).__delitem__(self.owner, self.item)

    def __str__(self) -> str:
        return f"[{storage.shown_key(self.item)}]"


@dataclasses.dataclass(frozen=True, eq=False)
class ContentsPlace:
    """Everything in a list, dict, set or deque."""

    owner: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("contents", id(self.owner))

    def read(self) -> Any:
        base = storage.base_of(self.owner)
        if isinstance(self.owner, dict):
            return {key: dict.__getitem__(self.owner, key) for key in base.__iter__(self.owner)}
        return list(base.__iter__(self.owner))

    def write(self, value: Any) -> None:
        base = storage.base_of(self.owner)
        if isinstance(self.owner, list):
            base.__setitem__(self.owner, slice(None), value)
            return
        if isinstance(self.owner, set):  # in which order its members come depends on what was done with it
            base.intersection_update(self.owner, value)
            base.update(self.owner, value)
            return
        base.clear(self.owner)
        if isinstance(self.owner, dict):
            for key, item in storage.plain(value).items():
                base.__setitem__(self.owner, key, item)
        else:
            (base.extend if hasattr(base, "extend") else base.update)(self.owner, value)

    def __str__(self) -> str:
        return f"a {type(self.owner).__name__}"


@dataclasses.dataclass(frozen=True, eq=False)
class RankedOrder:
    """The order of the keys of a dict, which the program tells by their ranks.

    Attributes:
        owner: the dict.
    """

    owner: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return ("ranked order", id(self.owner))

    def read(self) -> Any:
        return ()

    def write(self, value: Any) -> None:
        if any(key not in value for key in storage.keys_of(self.owner)):
            raise Dy2stError("a program has put a key into a dict without noting when")
        in_order(self.owner, value)

    def __str__(self) -> str:
        return "the order of a dict's keys"


Place = CellPlace | AttributePlace | ItemPlace | ContentsPlace


class Around:
    """Something that is called in the place of a block function, whose variables it shares.

    Args:
        body: the block function, or another of these; a function of Python's own shares none.
    """

    def __init__(self, body: Any) -> None:
        if hasattr(body, "__code__"):
            self.__code__, self.__closure__ = body.__code__, body.__closure__


def cells_of(*functions: FunctionType) -> list[CellPlace]:
    """Return the variables that block functions share with the code around them."""
    results: dict[int, CellPlace] = {}
    todo = list(functions)
    while todo:
        function = todo.pop()
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            value = cell_value(cell)
            if id(cell) in results or isinstance(value, Operators):
                continue
            results[id(cell)] = CellPlace(cell, name)
            todo += _functions_in(value, 3)  # nested functions may write variables of their own closures
    return list(results.values())


def _functions_in(value: Any, levels: int) -> list[Any]:
    """Return the functions that a variable holds: itself one, or the operands of an operator, in tuples and lists."""
    if type(value) in (tuple, list):
        return [function for item in value for function in _functions_in(item, levels - 1)] if levels else []
    return [value] if isinstance(value, (FunctionType, Around)) and hasattr(value, "__code__") else []


def cell_value(cell: CellType) -> Any:
    """Return the content of a cell, or ``None`` while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
