"""The parts of a capture: regions that can be undone, functions that run, and what is reported of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import sympy

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.types.abstract_values import ABSENT
from dy2st.capture.writes.places import Place
from dy2st.capture.writes.shape_facts import Facts
from dy2st.capture.writes.undo_log import UndoLog, Write
from dy2st_runtime.ir.program import Location

ACTS_FOR_USER = False


@dataclasses.dataclass(eq=False)
class Region:
    """A part of the capture whose effects can be undone.

    Attributes:
        start: when it began; what was made later is no state of it.
        builder: the block that is recorded into.
        undo_log: what was written since the region began.
        facts: what was known about sizes when it began.
        may_alias: how many changes had told of other objects when it began.
        orders: a mark of what was known about the order of dicts' keys when it began.
        repeats: whether it is the body of a loop; what an iteration makes is gone at its end, but an object made in a branch
            may be used after.
        lists: identities of the lists that became lists of the program in it.
        iterators: those from which it took items.
        cells: the variables that it may write.
        is_dead: whether it always ends with an exception that nobody catches: then nothing follows that could find what it leaves.
    """

    start: int
    builder: BlockBuilder
    undo_log: UndoLog
    facts: Facts
    may_alias: int
    orders: int
    repeats: bool
    lists: list[int] = dataclasses.field(default_factory=list)
    iterators: list[Any] = dataclasses.field(default_factory=list)
    cells: Sequence[Place] = ()
    is_dead: bool = False


@dataclasses.dataclass(eq=False)
class Rest(Region):
    """What runs where no exception is on its way to a handler (see rests.py).

    Attributes:
        test: whether none is; false if there is one for sure.
    """

    test: Any = False


RegionT = TypeVar("RegionT", bound=Region)


@dataclasses.dataclass
class Outcome:
    """What one branch did, or the way on which no exception is on its way.

    Attributes:
        start: when it began.
        builder: its block, still open.
        writes: the places it changed.
        result: the value of the expression; ``None`` for a statement.
        dead: whether it always raises.
        checked: what the program has checked on it.
    """

    start: int
    builder: BlockBuilder
    writes: dict[tuple[Any, ...], Write]
    result: Any
    dead: bool
    checked: Sequence[sympy.Basic] = ()

    @property
    def value(self) -> Any:
        """The value of the expression, if it gets that far."""
        return ABSENT if self.dead else self.result

    def final(self, key: tuple[Any, ...], otherwise: Any) -> Any:
        """Return what a place holds when the branch is done."""
        if self.dead:
            return ABSENT
        return self.writes[key].new if key in self.writes else otherwise


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
