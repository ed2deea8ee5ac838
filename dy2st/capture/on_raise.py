"""What a program leaves behind when it raises: what it has written outside until then.

Tensors are changed as the program goes; attributes, items, lists and variables are written at its end. Where the user's code
raises, an operation before that keeps what would have to be written, and whoever runs the program writes it.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from dy2st import config, errors
from dy2st.capture.attributes.tensor_attributes import Marks, marks_of
from dy2st.capture.outputs import results
from dy2st.capture.session.session import Session
from dy2st.capture.values.signals import NeedsRecords
from dy2st.capture.writes.places import CellPlace, ItemPlace
from dy2st_runtime.analyses.purity import may_fail
from dy2st_runtime.call.on_raise import is_repeatable
from dy2st_runtime.ir.program import Location, Program
from dy2st_runtime.primitives import control, scalars

_local = threading.local()


class Lost(NamedTuple):
    """A place of which a program that raises does not leave what the function has written there."""

    place: str
    where: Location | None

    def warn(self) -> None:
        """Tell the user."""
        file, line = (self.where.file, self.where.line) if self.where is not None else ("<unknown>", 0)
        words = f"the call has raised, and {self.place} keeps what it held before: what was written there is made by the call"
        warnings.warn_explicit(f"{words}, and is no tensor, number or container", UserWarning, file, line)


class Leaving:
    """An operation that keeps the values that a program leaves in places outside, before it raises.

    Args:
        written: what it leaves, made of the values that the operation is given.
        marks: the classes and attributes of tensors among these, by position.
        lost: places that the function has written, of which the program cannot say what it left there.
    """

    __name__ = "leave"
    only_keeps = True

    def __init__(self, written: results.Written, marks: Mapping[int, Marks], lost: Sequence[Lost] = ()) -> None:
        self.written, self.marks, self.lost = written, marks, tuple(lost)

    def __call__(self, *outputs: Any) -> None:
        _local.kept = self, outputs


class Recorder:
    """Records what the program has written outside until now, unless the last record in the block says the same.

    Args:
        session: of the capture.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: fx.Node | None = None
        self._seen: tuple[Any, ...] = ()
        """When it was called last: the block, how much had been written, and what was in variables from outside."""
        self._made, self._has_module = 0, False
        """Of how many objects that the code has made it is known whether one is a module, and whether one is."""

    def __call__(self) -> None:
        is_same, last = self._is_last_seen(self._look()), self._last
        if is_same and not config.CHECK_LEAKS:
            return
        self._record()
        assert not is_same or last is self._last, "a write was not counted"
        self._seen = self._look()

    def _look(self) -> tuple[Any, ...]:
        session = self._session
        variables = (place for place in session.blocks.places_written() if isinstance(place, (CellPlace, ItemPlace)))
        held = tuple(place.read() for place in variables if not session.places.is_local(place))
        counts = session.places.changes, session.blocks.key_orders.changes, len(session.outside.tables_met)
        return session.builder.graph, *counts, *held

    def _is_last_seen(self, seen: tuple[Any, ...]) -> bool:
        """Tell whether nothing can have been written since the last record, and that is in the block that runs now."""
        is_there = self._last is None or (not self._last._erased and self._last.graph is self._session.builder.graph)
        if self._makes_modules():
            return False  # its class fills it past what counts
        return is_there and len(seen) == len(self._seen) and all(map(operator.is_, seen, self._seen))

    def _makes_modules(self) -> bool:
        """Tell whether the code has made a module."""
        made = self._session.allocations.created.values()
        new = itertools.islice(reversed(made), len(made) - self._made)
        self._has_module |= any(isinstance(value, torch.nn.Module) for value in new)
        self._made = len(made)
        return self._has_module

    def _record(self) -> None:
        written, outputs, missed = results.until_now(self._session)
        if not written.effects and not missed and self._last is None:
            return
        if not self._says(written, outputs):
            lost = [Lost(str(write.place), self._session.places.written_at.get(write.place.key)) for write in missed]
            leaving = Leaving(written, self._marks_of(outputs), lost)
            builder = self._session.builder
            self._last = builder.call_raw(control.call_, (leaving, builder.left(outputs), {}))

    def _marks_of(self, outputs: Sequence[Any]) -> Mapping[int, Marks]:
        with contextlib.suppress(errors.CaptureError):  # of attributes that only the program knows: the tensors come without
            return marks_of(self._session, outputs)
        return {}

    def _says(self, written: results.Written, outputs: Sequence[Any]) -> bool:
        """Tell whether the last record is this one: it is in the block that runs now, and no other can have run since."""
        last, builder = self._last, self._session.builder
        if last is None or last._erased or last.graph is not builder.graph:
            return False
        said: Any = last.args[0]
        before = said.written
        where = [writer.source for writer in written.writers] == [writer.source for writer in before.writers]
        what = list(before.effects) == list(written.effects) and before.existing == written.existing
        return where and what and _is_made_as(last.args[1], builder.left(outputs))


_MAKING = (control.item_make, control.item_choose, control.item_owner, control.format_, scalars.where, operator.eq)


def _is_made_as(one: Any, other: Any) -> bool:
    """Tell whether operations give the same: those that make objects, and tags, are recorded at each description."""
    if isinstance(one, fx.Node) and isinstance(other, fx.Node) and one is not other:
        return one.target is other.target and one.target in _MAKING and _is_made_as(one.args, other.args)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_made_as, one, other))
    return bool(one is other or one == other)


class NeedFinder:
    """Finds before its end that a program has to record what it has written before each operation that may fail.

    What one that has not been captured whole is known to need is less than :func:`is_needed` says of it at its end.

    Args:
        session: of the capture.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self) -> None:
        """Look, before an operation that may fail.

        Raises:
            NeedsRecords: it has to.
        """
        in_flight = self._session.in_flight
        if in_flight.has_acted and self._session.tracker.guards.read_once is None and in_flight.has_written():
            raise NeedsRecords


def is_needed(program: Program, changes_objects: bool) -> bool:
    """Tell whether a program has to record what it has written before each operation that may fail.

    One that does nothing else until then runs once more when it has failed, with these records; see :func:`missed`.

    Args:
        program: what runs.
        changes_objects: whether it may change objects from outside where they are.
    """
    acts = changes_objects or not is_repeatable(program)
    return bool(program.effects) and acts and any(map(may_fail, program.nodes()))


def may_leave(program: Program) -> bool:
    """Tell whether a program keeps something before it may raise."""
    return any(True for _ in nodes(program))


def nodes(program: Program) -> Iterator[fx.Node]:
    """Return the operations of a program, nested ones included, that keep something."""
    calls = (node for block in program.blocks() for node in block.graph.find_nodes(op="call_function", target=control.call_))
    return (node for node in calls if isinstance(node.args[0], Leaving))


def begin() -> None:
    """Note that a program starts to run."""
    _local.kept = None


def write(values: Sequence[Any]) -> bool:
    """Write what the program left that has just raised, given the values of its sources.

    Returns:
        Whether it has left something.
    """
    kept, _local.kept = _local.kept, None
    if kept is not None:
        leaving, outputs = kept
        for position, known in leaving.marks.items():
            if outputs[position] is not None:
                known.put_on(outputs[position])
        for place in leaving.lost:
            place.warn()
        leaving.written.write(values, outputs, leaving.written.known(values))
    return kept is not None


def miss() -> None:
    """Note that a program has failed, and did not record what it had written by then."""
    _local.has_missed = True


def has_missed() -> bool:
    """Tell whether one has, since this was asked last."""
    missed = getattr(_local, "has_missed", False)
    _local.has_missed = False
    return missed
