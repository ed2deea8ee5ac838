"""The variables from outside that the code of a function names: globals, and those of enclosing functions."""

from __future__ import annotations

import types
from typing import Any, Protocol

import torch

from dy2st.capture.environment import defaults
from dy2st.capture.environment.sources import Source
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.writes.places import CellPlace, ItemPlace, cell_value
from dy2st_runtime.ir.program import Location


class Names(Protocol):
    """What code names of the variables that are not its own.

    Attributes:
        global_names: the globals that it looks up.
        written_globals: those that it assigns.
        written_free: the variables of enclosing functions that it assigns.
    """

    @property
    def global_names(self) -> tuple[str, ...]: ...
    @property
    def written_globals(self) -> tuple[str, ...]: ...
    @property
    def written_free(self) -> tuple[str, ...]: ...


def _read_global(session: Session, function: types.FunctionType, root: Source, name: str) -> None:
    """Guard what a function finds under a name: in its module, or else among the builtins."""
    tracker, table, space = session.tracker, session.tracker.table, function.__globals__
    session.outside.read(ItemPlace(space, name), table.item(root, name, name))
    if name in space:
        return
    builtins: dict[str, Any] = getattr(function, "__builtins__")  # noqa: B009
    source = table.item(table.strong(builtins, "builtins"), name, name)
    if name in builtins:
        tracker.read(builtins[name], source)
    else:
        tracker.guards.missing(source)


def track(session: Session, function: types.FunctionType, names: Names, outside: bool) -> None:
    """Guard what a function that is called now reads, and note what it may assign.

    Args:
        session: the capture.
        function: the function.
        names: the variables that its code names.
        outside: whether the function existed before the capture, and so did what its closure holds.
    """
    tracker, table = session.tracker, session.tracker.table
    space = function.__globals__
    root = table.strong(space, "globals()")
    tracker.know(space, root)
    for name in names.global_names:
        _read_global(session, function, root, name)
    for name in names.written_globals:
        place = ItemPlace(space, name)
        code = function.__code__
        with session.position.located(Location(code.co_filename, code.co_firstlineno, code.co_name)):
            session.places.write(place)  # none of its lines runs yet
        session.blocks.written_globals[place.key] = place
    own = table.held(function, function.__qualname__)
    for index, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or ())):
        source = table.cell(table.item(table.attribute(own, "__closure__"), index, f"{name}'s cell"), name)
        if name in names.written_free:
            session.frames.shared_cells.add(id(cell))
            if outside:
                session.outside.writes_variable(CellPlace(cell, name), source)
            elif id(cell) not in session.outside.cells and (time := session.allocations.allocated_at(function)) is not None:
                session.allocations.own(cell, since=time)
            session.places.write(CellPlace(cell, name))
        elif outside and not isinstance(cell_value(cell), (torch._subclasses.FakeTensor, *CAPTURE_VALUES)):
            session.outside.read(CellPlace(cell, name), source)
    if outside:
        tracker.guards.same(table.attribute(own, "__code__"), function.__code__)
        for name in ("__defaults__", "__kwdefaults__"):
            defaults.read(tracker, getattr(function, name), table.attribute(own, name))
