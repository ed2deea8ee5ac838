"""The parts of a capture: regions that can be undone, the signals that move between them, and what is reported of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import CellType, FunctionType
from typing import Any, TypeVar

from dy2st.capture.block import BlockBuilder
from dy2st.capture.journal import CellPlace, Journal, Place
from dy2st.capture.sources import Source
from dy2st.names import Operators
from dy2st_runtime.program import Location, StateSlot


class Signal(BaseException):
    """Control flow of the capture itself; user code that catches ``Exception`` does not see it."""


class Unreachable(Signal):
    """The rest of the block never runs: an exception has been recorded in it."""


class Refused(Signal):
    """An error of the capture on its way past the user's ``except`` clauses, which are not meant for it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NeedsRuntimeList(Signal):
    """A list has to become a list of the program in the block that made it, and the capture of what follows starts again."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__("a list changes length inside a captured block")
        self.items = items


class NeedsStandIn(Signal):
    """Something has to stand for a set or deque from outside, and the capture starts again."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is changed where a tensor decides")
        self.name = name


class NeedsApart(Signal):
    """Tensors that differ in a trait, or objects, have to be told apart, and the capture starts again."""

    def __init__(self, trait: str) -> None:
        super().__init__(f"the ways to a value disagree in its {trait}")
        self.trait = trait


@dataclasses.dataclass(eq=False)
class Region:
    """A part of the capture whose effects can be undone.

    Attributes:
        start: when it began; what was made later is no state of it.
        builder: the block that is recorded into.
        journal: what was written since the region began.
        facts: what was known about sizes when it began.
        twins: how many changes had told of other objects when it began.
        orders: what was known about the order of dicts' keys when it began.
        repeats: whether it is the body of a loop; what a trip makes is gone at its end, but an object made in a branch
            may be used after.
        lists: identities of the lists that became lists of the program in it.
        iterators: those from which it took items.
        cells: the variables that it may write.
    """

    start: int
    builder: BlockBuilder
    journal: Journal
    facts: dict[str, Any]
    twins: int
    orders: dict[int, Any]
    repeats: bool
    lists: list[int] = dataclasses.field(default_factory=list)
    iterators: list[Any] = dataclasses.field(default_factory=list)
    cells: Sequence[Place] = ()


@dataclasses.dataclass(eq=False)
class Rest(Region):
    """What runs where no exception is on its way to a handler (see rests.py).

    Attributes:
        test: whether none is; false if there is one for sure.
    """

    test: Any = False


RegionT = TypeVar("RegionT", bound=Region)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A converted function that runs.

    Attributes:
        start: when it was called.
        outer_cells: identities of the variables of enclosing functions.
        written_globals: the globals that it assigns.
    """

    start: int
    outer_cells: set[int]
    written_globals: Sequence[Place]


@dataclasses.dataclass(frozen=True)
class Site:
    """One control-flow statement of the user's code and what became of it.

    Attributes:
        location: the user's file and line.
        construct: ``"if"``, ``"while"``, ``"for"``, …
        outcome: ``"captured"``, ``"plain Python"`` or ``"unrolled"``.
        reason: why.
    """

    location: Location
    construct: str
    outcome: str
    reason: str


@dataclasses.dataclass
class State:
    """A value from outside that the program takes as an input."""

    slot: StateSlot
    source: Source | None
    value: Any
    stand_in: Any


def cells_of(*functions: FunctionType) -> list[CellPlace]:
    """The variables that block functions share with the code around them."""
    found: dict[int, CellPlace] = {}
    todo = list(functions)
    while todo:
        function = todo.pop()
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            value = cell_value(cell)
            if id(cell) in found or isinstance(value, Operators):
                continue
            found[id(cell)] = CellPlace(cell, name)
            todo += _functions_in(value, 3)  # nested functions may write variables of their own closures
    return list(found.values())


def _functions_in(value: Any, levels: int) -> list[FunctionType]:
    """The functions that a variable holds: itself one, or the operands of an operator, in tuples and lists."""
    if type(value) in (tuple, list):
        return [function for item in value for function in _functions_in(item, levels - 1)] if levels else []
    return [value] if isinstance(value, FunctionType) else []


def cell_value(cell: CellType) -> Any:
    """The content of a cell, or ``None`` while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
