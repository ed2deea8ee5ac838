"""Generators of the user's, whose functions are converted.

The code of a generator runs where somebody asks it for an item, in the block that is recorded then: what it writes is written
there. While it is suspended, its frame and what an exception would pass inside of it are no part of what runs.
"""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

from dy2st import errors, names
from dy2st.capture.raising.unwinding import Handlers, passed
from dy2st.capture.recording.in_flight import Pending
from dy2st.capture.session.regions import Frame
from dy2st.capture.session.session import Session, current
from dy2st.capture.values.abstract_objects import GENERATOR, AbstractIterator
from dy2st.capture.values.signals import NeedsGiving
from dy2st.capture.writes.places import CellPlace, Place, cells_of


class Position:
    """How far a generator has come: what a session remembers of it without keeping it alive."""


class UserGenerator(AbstractIterator, example=GENERATOR):
    """A generator that runs converted code.

    Args:
        session: the capture.
        function: the function as it is written.
        bound: its converted form, bound to its cells.
        giving: gives the form that gives its items to a loop, bound alike; ``None`` where there is none.
        written_globals: the globals that it assigns.
        arguments: the arguments of the call.
    """

    def __init__(
        self, session: Session, function: types.FunctionType, bound: types.FunctionType,
        giving: Callable[[], types.FunctionType | None], written_globals: Sequence[Place], arguments: tuple[Any, Any],
    ) -> None:  # fmt: skip
        self.session, self.__name__, self.__qualname__ = session, function.__name__, function.__qualname__
        self.gi_code = function.__code__
        self.__dy2st_position__ = Position()
        self.step_by_step = False
        """Whether each step may be taken in another block, of which one runs only after the one before."""
        self.pending: list[Pending] = []
        """What an exception raised at the `yield` would pass."""
        self._frame: Frame = session.frames.new(bound, written_globals)
        self._generator = bound(*arguments[0], **arguments[1])
        self._giving, self._arguments, self._written_globals = giving, arguments, written_globals
        self._region = session.blocks.region
        session.iterators.generators.add(self)

    def __iter__(self) -> UserGenerator:
        return self

    def __next__(self) -> Any:
        return self._resumed(self._generator.__next__)

    def send(self, value: Any) -> Any:
        """Resume with a value for the `yield`."""
        return self._resumed(self._generator.send, value)

    def throw(self, *error: Any) -> Any:
        """Resume with an exception raised at the `yield`."""
        return self._resumed(self._generator.throw, *error)

    def close(self) -> None:
        """End it where it is."""
        if self.is_suspended:
            self._resumed(self._generator.close)
        self._generator.close()

    @property
    def gi_frame(self) -> types.FrameType | None:
        """Its frame, ``None`` when it has ended."""
        frame: types.FrameType | None = self._generator.gi_frame
        return frame

    @property
    def key(self) -> Any:
        """What tells its code from that of others."""
        return (self.gi_code.co_filename, self.gi_code.co_firstlineno, self.gi_code.co_name)

    @property
    def gives(self) -> bool:
        """Whether it is to give its items to the loop that takes them, and has not begun."""
        return self.key in self.session.request.giving and inspect.getgeneratorstate(self._generator) == inspect.GEN_CREATED

    def ask_to_give(self) -> None:
        """Have it give its items to the loop that takes them, where that is not tried yet, and can be.

        Raises:
            NeedsGiving: it is.
        """
        if self.key not in self.session.request.giving and self._giving() is not None:
            raise NeedsGiving(self.key)

    def give_to(self, take: Callable[[Any], Any]) -> None:
        """Give its items to a loop, and end.

        Args:
            take: called with each; whether the loop has been left.
        """
        bound = self._giving()
        assert bound is not None
        self._take()
        self._generator.close()
        args, kwargs = self._arguments
        with self.session.frames.entered(bound, self._written_globals):
            bound(*args, **kwargs, **{names.TAKE: take})

    @property
    def is_suspended(self) -> bool:
        """Whether it stands at a `yield`."""
        return inspect.getgeneratorstate(self._generator) == inspect.GEN_SUSPENDED

    @property
    def has_to_end(self) -> bool:
        """Whether something of it runs when it is closed."""
        steps = self.pending if self.is_suspended else []
        return any(not isinstance(step, Handlers) or step.catches(GeneratorExit()) for step in steps)

    def drop(self) -> bool:
        """End it with nothing done: nobody goes on with it, and Python must not run what is left of it on its own.

        Returns:
            Whether there was something to do.
        """
        attempt = region, mark = self.session.blocks.begin_attempt([])
        try:
            with self._running():
                self._generator.close()
            writes = region.undo_log.writes().values()
            return region.builder.mark() is not mark or not all(self.owns(write.place) for write in writes)
        except Exception:  # of a `finally` clause that nobody waits for
            return True
        finally:
            self.session.blocks.roll_back(attempt)

    def _resumed(self, resume: Callable[..., Any], *args: Any) -> Any:
        if current() is not self.session:
            return resume(*args)
        if not self._generator.gi_running:
            self._take()
        with self._running():
            return resume(*args)

    def _take(self) -> None:
        """Note that the block that is recorded now runs it: no other can know how far it has come."""
        session = self.session
        position = self.__dy2st_position__
        _, builder = session.iterators.taken.get(id(position), (None, self._region.builder))
        if self.step_by_step and builder is not None:
            return
        if builder is None or not session.builder.is_inside(builder) or session.blocks.repeats_since(self._frame.start):
            session.iterators.fail_spent(self)
        session.iterators.taken[id(position)] = (position, session.builder)
        session.blocks.region.iterators.append(position)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Run the body with its frame as the one that runs, and its handlers and `finally` clauses as those around the code."""
        session, outside = self.session, len(self.session.in_flight.pending)
        self._note_variables()
        session.in_flight.pending += self.pending
        session.iterators.running.append(self)
        try:
            with session.frames.resumed(self._frame):
                yield
        finally:
            session.iterators.running.pop()
            self.pending = session.in_flight.pending[outside:]
            del session.in_flight.pending[outside:]

    def _note_variables(self) -> None:
        """Note that its variables that blocks inside share are state of the block that runs it."""
        frame = self._generator.gi_frame
        functions = [value for value in frame.f_locals.values() if isinstance(value, types.FunctionType)] if frame else []
        for place in cells_of(*functions):
            if id(place.cell) not in self._frame.outer_cells:
                self.session.allocations.own(place.cell, since=self._frame.start)
                self.session.frames.shared_cells.add(id(place.cell))
                self.session.places.write(place)

    def owns(self, place: Place) -> bool:
        """Tell whether a place is a variable of its own."""
        return isinstance(place, CellPlace) and self.session.allocations.allocated_at(place.cell) == self._frame.start

    def unwind(self, error: BaseException) -> None:
        """Do in the block that is recorded now what an exception raised at the `yield` does on its way out."""
        session, outer = self.session, self.session.in_flight.pending
        result = error
        try:
            for index in reversed(range(len(self.pending))):
                session.in_flight.pending = [*outer, *self.pending[:index]]
                result, _ = passed(session, self.pending[index], result)
        finally:
            session.in_flight.pending = outer
        if result is not error:
            raise result

    def __del__(self) -> None:
        generator = self.__dict__.get("_generator")
        if generator is None or not self.is_suspended:
            return
        if current() is not self.session:
            return
        if not self.session.blocks.is_open(self._region):
            self.drop()
            return
        try:
            self.close()
        except errors.CaptureError as error:
            if self.drop():
                self.session.iterators.unclosed.append(error)
        except Exception:  # what a `finally` clause raises in a generator that is gone goes nowhere
            pass


collections.abc.Generator.register(UserGenerator)


def is_given(value: Any) -> TypeGuard[UserGenerator]:
    """Tell whether a value is a generator that gives its items to the loop that takes them."""
    return isinstance(value, UserGenerator) and value.gives


def check_ended(session: Session) -> None:
    """Refuse a generator that is kept at a `yield` in front of a `finally` clause: when that runs is Python's secret.

    Raises:
        CaptureError: there is one.
    """
    if session.iterators.unclosed:
        raise session.iterators.unclosed[0]
    for generator in session.iterators.generators:
        if generator.has_to_end and generator.drop():
            raise errors.CaptureError(
                f"the generator {generator.__qualname__}() has a finally clause that has not run when the function ends",
                fix="close() it in the function, or take all of its items",
            )
