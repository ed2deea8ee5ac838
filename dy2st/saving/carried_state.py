"""State that a model keeps in attributes: what one call writes and the next one reads.

    self.h = torch.tanh(self.cell(x) + self.h)    # a tensor
    self.calls += 1                               # a number
    self.state = (h, c)                           # a tuple of them

A program that is kept in this process has guards: when an attribute is no longer what it was, another program is captured.
A saved program has none. So everything that one program writes and one reads must be an input of the program that reads it,
of a type that the next call finds again. What can be made so is asked for here; what cannot is an error that names the
user's line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from dy2st.capture import on_raise
from dy2st.capture.environment.guards import Guard
from dy2st.capture.environment.sources import GONE, Source
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.outputs.effects import Writer
from dy2st.capture.outputs.results import Written
from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.writes.orders import LastPlace
from dy2st.capture.writes.places import CellPlace, ContentsPlace, ItemPlace, Place, RankedOrder
from dy2st.errors import SaveError
from dy2st.static.dynamic_state import Dims
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.program import Effect
from dy2st_runtime.ir.structure import DictOf, ListOf, TupleOf

_TYPE_GUARDS = {"equal", "type", "keys", "tensor", "strides", "present", "missing"}
"""Guards that the comparison of types covers."""


@dataclasses.dataclass(frozen=True)
class Taken:
    """A captured program.

    Attributes:
        captured: the program with its surroundings.
        values: of its sources when it was captured.
        root: the source of the object that the function is bound to, if it is.
        recording: the same function, captured as what keeps what it leaves when it raises.
    """

    captured: Captured
    values: Sequence[Any]
    root: Source | None
    recording: Taken | None = None

    def effects(self, written: Written) -> Iterator[tuple[Writer, Place, Effect]]:
        """Yield places that it writes, with what it writes there; the order of attributes is no state of a loaded model."""
        for writer, effect in zip(written.writers, written.effects, strict=True):
            place = writer.place(writer.owner(self.values))
            if not isinstance(place, LastPlace):
                yield writer, place, effect

    def writes(self) -> Iterator[tuple[Writer, Place]]:
        """Yield every place it writes, also before it raises."""
        left: Any = (node.args[0] for node in on_raise.nodes(self.captured.program))
        for written in (self.captured.outside, *(leave.written for leave in left)):
            for writer, place, _ in self.effects(written):
                yield writer, place


def with_recordings(programs: Sequence[Taken]) -> list[Taken]:
    """Return programs, each with its recording after it."""
    return [taken for program in programs for taken in (program, program.recording) if taken is not None]


def carried(programs: Sequence[Taken]) -> dict[str, Dims]:
    """Return the state that the programs carry from call to call and that is no input of them yet.

    Args:
        programs: the programs of one model; each may read what any other writes.

    Returns:
        By the name of a source: what must become an input when they are captured again.

    Raises:
        SaveError: an attribute is not after a call what it was before, so that no program is right for both.
    """
    results: dict[str, Dims] = {}
    programs = with_recordings(programs)
    for writing in programs:
        for writer, place in writing.writes():
            for reading in programs:
                sources = list(_reads(place, reading))
                for source in sources:
                    _Fit(reading, writer, sources, results).check(source, writer.written)
    return results


def _reads(place: Place, program: Taken) -> Iterator[Source]:
    """Yield the sources of a program that a place is read through."""
    if isinstance(place, (CellPlace, RankedOrder)):
        return
    for source in program.captured.sources:
        start = None if source.parent is None else program.values[source.parent.index]
        if isinstance(place, ContentsPlace):
            hit = program.values[source.index] is place.owner
        elif isinstance(place, ItemPlace):
            hit = start is place.owner and source.name.endswith(f"[{place.item!r}]")
        else:
            table = storage.table_of(place.owner)  # an attribute that the class has too is read there
            is_part = start is place.owner or (table is not None and start is table)
            hit = is_part and source.name.endswith((f".{place.name}", f"[{place.name!r}]"))
        if hit:
            yield source


class _Fit:
    """Whether what is written at a place can be read by one program at the next call."""

    def __init__(self, program: Taken, writer: Writer, sources: Sequence[Source], results: dict[str, Dims]) -> None:
        self.captured, self.values = program.captured, program.values
        self.writer, self.sources, self.known = writer, sources, results

    def check(self, source: Source, written: value_types.Type | None) -> None:
        """Compare what the program found at a source with what will be there; ask for what has to become an input."""
        if isinstance(written, value_types.TaggedUnionType):
            for option in written.options:
                self.check(source, option)
            return
        value = self.values[source.index]
        if not self._used(source) or (
            isinstance(written, value_types.SameType) and value_types.same_constant(written.value, value)
        ):
            return
        if isinstance(value, np.ndarray):
            self.refuse(source, "is an array that the program replaces", "write into it (a[:] = …), or keep a tensor in its place")
        for guard in self.captured.guards.of(source):
            self._guard(source, guard, value, written)
        if type(value) in (bool, int, float):
            self._number(source, value, written)
        elif isinstance(value, torch.Tensor):
            self._tensor(source, value, written)
        else:
            self._container(source, value, written)

    def _used(self, source: Source) -> bool:
        """Tell whether the program relies on a source or on anything reached through it."""
        reached = {source.index}
        for other in self.captured.sources:
            if other.parent is not None and other.parent.index in reached:
                reached.add(other.index)
        relied_on = {guard.source.index for guard in self.captured.guards}
        relied_on |= {other.index for other in self.captured.state_sources if other is not None}
        relied_on |= {other.index for other in self.captured.sources if other.name in self.captured.dynamic_state}
        return bool(reached & relied_on)

    def _guard(self, source: Source, guard: Guard, value: Any, written: value_types.Type | None) -> None:
        """Refuse what the program relies on besides the type."""
        if guard.alias is not None:
            other = guard.source if guard.alias is source else guard.alias
            if other in self.sources or (other.parent is source.parent and source not in self.sources):
                return  # two ways to one place: an attribute and its entry in a table, an item and the field of a named tuple
            self.refuse(
                source, f"is the same object as {other.name} before the call, and another after it", "give it one of its own"
            )
        if guard.others:
            others = [self.values[other.index] for other in guard.sources if other is not source]
            if isinstance(written, value_types.SameType) and any(written.value is other for other in others):
                self.refuse(source, f"is the object of another place after the call (it {guard.expected} before)", "make a copy")
            return
        if guard.kind == "strides" and isinstance(written, value_types.TensorType) and written.strides != value.stride():
            self.refuse(source, "lies in memory in another way after the call, and the code asks for that", "make it contiguous")
        if guard.alias is None and guard.kind not in _TYPE_GUARDS:
            self.refuse(source, f"is read as a whole, and must be what it was ({guard.expected})", "keep it in tensors or numbers")

    def _number(self, source: Source, value: Any, written: value_types.Type | None) -> None:
        kind = type(value).__name__
        same = isinstance(written, value_types.NumberType) and written.kind == kind
        if not same and not (isinstance(written, value_types.SameType) and type(written.value) is type(value)):
            self.refuse(
                source,
                f"is {_article(kind)} before the call and {_text(written)} after it",
                "give it its final type before saving",
            )
        if isinstance(value, bool) and source.name.endswith(".training"):
            self.refuse(source, "is the mode of a module", "call train() or eval() outside of the model")
        if source.name not in self.captured.dynamic_state:
            self.known[source.name] = None
        elif source not in self.captured.state_sources:
            self.refuse(source, "is a number that is read as a whole with other values", "keep it in an attribute of its own")

    def _tensor(self, source: Source, value: torch.Tensor, written: value_types.Type | None) -> None:
        before = lattice.type_of(value)
        assert isinstance(before, value_types.TensorType)
        if not isinstance(written, value_types.TensorType) or (written.dtype, written.device, len(written.sizes)) != (
            before.dtype,
            before.device,
            len(before.sizes),
        ):
            self.refuse(
                source,
                f"is {_text(before)} before the call and {_text(written)} after it",
                "give it its final type before saving",
            )
        known = self.captured.dynamic_state.get(source.name) or frozenset()
        changed = {dim for dim, (a, b) in enumerate(zip(before.sizes, written.sizes, strict=True)) if a != b} - known
        if changed:
            self.known[source.name] = (self.known.get(source.name) or known) | changed

    def _container(self, source: Source, value: Any, written: value_types.Type | None) -> None:
        parts = None if value is GONE else children(value)
        if parts is None or not isinstance(written, value_types.ContainerType):
            before = "missing" if value is GONE else _text(lattice.type_of(value))
            self.refuse(
                source,
                f"is {before} before the call and {_text(written)} after it",
                "give it its final type before saving: set it where the model is made, or call the model once",
            )
        structure = written.structure
        fits = isinstance(structure, (TupleOf, ListOf, DictOf)) and structure == lattice.type_of(value).structure  # type: ignore[union-attr]
        if not fits:
            self.refuse(
                source,
                "has another structure after the call",
                "keep its class, length and keys, or return the new value instead",
            )
        keys: Sequence[Any] = structure.keys if isinstance(structure, DictOf) else range(len(parts[0]))
        by_key = dict(zip(keys, written.items, strict=True))
        for child in [other for other in self.captured.sources if other.parent is source]:
            key = next((key for key in by_key if child.name == f"{source.name}[{storage.shown_key(key)}]"), None)
            if key is not None:
                self.check(child, by_key[key])

    def refuse(self, source: Source, what: str, fix: str) -> NoReturn:
        raise SaveError(
            f"{line_of(self.writer, self.captured)}{source.name} {what}, "
            f"so no saved program is right for the call and for the next one; {fix}"
        )


def line_of(writer: Writer, program: Captured) -> str:
    """Return the user's line that writes (or that of the function), to open a message with."""
    return f"{writer.location or program.program.origin}: "


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _text(kind: value_types.Type | None) -> str:
    """Return a type in words."""
    if kind is None:
        return "deleted"
    if isinstance(kind, value_types.TensorType):
        return f"a tensor of {kind.dtype} with {len(kind.sizes)} dimensions"
    if isinstance(kind, value_types.NumberType):
        return _article(kind.kind)
    return mismatches.text(kind)
