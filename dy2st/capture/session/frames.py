"""The converted functions that run in one capture, and the variables that they share."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from types import FunctionType

from dy2st.capture.recording.in_flight import InFlight
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.codes import Codes
from dy2st.capture.session.regions import Frame
from dy2st.capture.writes.places import CellPlace, Place, cells_of

ACTS_FOR_USER = False


class Frames:
    """The stack of converted functions.

    Args:
        allocations: when objects were made.
        in_flight: the handlers around the code that runs.

    Attributes:
        open: the functions that run, innermost last.
        depth: how many calls deep the capture is.
        codes: the code of functions that were entered.
        shared_cells: identities of variables that a nested function of the user's writes; whoever assigns them, they are live.
    """

    def __init__(self, allocations: Allocations, in_flight: InFlight) -> None:
        self._allocations, self._in_flight = allocations, in_flight
        self.open: list[Frame] = []
        self.depth = 0
        self.codes = Codes()
        self.shared_cells: set[int] = {id(in_flight.left.cell)}

    def new(self, function: FunctionType, written_globals: Sequence[Place]) -> Frame:
        """Return the frame of a converted function that is called now."""
        return Frame(self._allocations.now(), {id(cell) for cell in function.__closure__ or ()}, written_globals)

    @contextlib.contextmanager
    def entered(self, function: FunctionType, written_globals: Sequence[Place]) -> Iterator[None]:
        """Run a converted function inside; its own variables are made now."""
        self.codes.enter(function)
        with self.resumed(self.new(function, written_globals)):
            yield

    @contextlib.contextmanager
    def resumed(self, frame: Frame) -> Iterator[None]:
        """Run a function with a frame inside, or go on with it."""
        self.open.append(frame)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self.open.pop()

    def cells_of(self, *functions: FunctionType) -> list[Place]:
        """Return the variables that block functions of the function that runs now share with the code around them."""
        if not self.open:  # what is given is described
            return [*cells_of(*functions)]
        frame = self.open[-1]
        for function in functions:
            for cell in function.__closure__ or ():
                if id(cell) not in frame.outer_cells:
                    self._allocations.own(cell, since=frame.start)
        return [*cells_of(*functions), *frame.written_globals]

    def is_dead(self, place: Place, live: Collection[str]) -> bool:
        """Tell whether a place is a local name that nobody reads afterwards."""
        if not isinstance(place, CellPlace) or place.name in live or id(place.cell) in self.shared_cells:
            return False
        return not any(step.keeps(place) for step in self._in_flight.pending)
