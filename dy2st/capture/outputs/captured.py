"""What a capture gives: a program with its surroundings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dy2st.capture.attributes.tensor_attributes import Marks
from dy2st.capture.environment.guards import GuardTable
from dy2st.capture.environment.sizes import SizeConditions
from dy2st.capture.environment.sources import Source
from dy2st.capture.outputs.effects import Writer
from dy2st.capture.outputs.results import Written
from dy2st.capture.session.regions import Site
from dy2st.capture.types import tensor_classes
from dy2st_runtime.ir.program import Location, Program
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False


@dataclasses.dataclass(frozen=True)
class Captured:
    """A program with its surroundings.

    Attributes:
        program: what runs.
        sources: where to fetch the state and what the guards look at.
        guards: when it may run.
        states: gives each state value, from the values of the sources.
        state_sources: the source of each state value; ``None`` for a constant.
        takes_cells: whether it puts what objects from outside hold in cells, since it changes them where they are.
        changes_objects: whether it may change objects or lists from outside as it runs, and not at its end.
        writers: one for each effect of the program.
        sites: what became of each control-flow statement.
        written: names of the sources that the program writes.
        dynamic_state: the state that is known to differ from call to call, see :class:`Request`.
        sizes: what it relies on in the sizes of its inputs.
        asked: what the code asked about the mode of the call, with the line that asked first.
        existing: containers among the results that come from outside: for the number of each, the index of its source.
        asked_orders: the keys, in order, of dicts whose order the code asked for.
        marks: what Python knows of outputs that the program makes, by position.
        has_classes: whether tensors of it are of classes that the user has written.
        outer_class: such a class that tensors from outside are of.
        writes: whether the code writes to anything but its own variables, on whatever way.
        late: the guards on what may have been read after Python that the program calls, and that may change it.
    """

    program: Program
    sources: list[Source]
    guards: GuardTable
    states: list[Callable[[Sequence[Any]], Any]]
    state_sources: list[Source | None]
    takes_cells: bool
    changes_objects: bool
    writers: list[Writer]
    sites: list[Site]
    written: frozenset[str]
    dynamic_state: Mapping[str, frozenset[int] | None]
    sizes: SizeConditions
    asked: Mapping[str, Location | None]
    existing: Mapping[int, int]
    asked_orders: frozenset[tuple[Any, ...]]
    marks: Mapping[int, Marks]
    has_classes: bool
    outer_class: type | None
    writes: bool
    late: GuardTable

    @functools.cached_property
    def asks_owners(self) -> bool:
        """Whether the program asks which object has some cells."""
        return any(node.target is control.item_owner for node in self.program.nodes())

    @functools.cached_property
    def users_class(self) -> type | None:
        """A class of tensors which the user has written, and that can be seen from outside."""
        kinds = (mark.kind for mark in self.marks.values() if tensor_classes.is_users(mark.kind))
        return self.outer_class or next(kinds, None)

    @functools.cached_property
    def outside(self) -> Written:
        """What it writes outside, at its end."""
        return Written(self.program.effects, self.writers, self.existing)
