"""The programs of one static function."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dy2st import config
from dy2st.capture.environment.guards import Guard
from dy2st.capture.environment.sizes import Place
from dy2st.capture.environment.sources import fetch
from dy2st.capture.outputs.captured import Captured
from dy2st.static.calls.call import Call
from dy2st_runtime.primitives import control


@dataclasses.dataclass
class Entry:
    """One captured program.

    Attributes:
        key: of the calls it serves, if its guards hold.
        captured: the program and its surroundings.
        last_used: grows with each use of any entry.
        served: whether a call has used it since it was captured.
        recording: the same, with a record of what it has written before each operation that may fail; made when it has failed.
        routed: the call shapes for which a route to it was made, or cannot be.
    """

    key: Any
    captured: Captured
    last_used: int
    served: bool = False
    recording: Captured | None = None
    routed: set[Any] = dataclasses.field(default_factory=set)


class Mismatch(NamedTuple):
    """Why a program that has the key of a call does not serve it.

    Attributes:
        entry: the program.
        values: of its sources now.
        guard: the first condition that does not hold; ``None`` where all do, and a dynamic size is special.
    """

    entry: Entry
    values: list[Any]
    guard: Guard | None

    def __str__(self) -> str:
        if self.guard is None:
            return "a dynamic size is special"
        return f"{self.guard.source.name} is not what it was ({self.guard.expected})"


class Lookup(NamedTuple):
    """What the cache knows of a call.

    Attributes:
        call: the call, as a program takes it.
        entries: the programs with its key; one that is added or dropped makes them another object.
        entry: the program that serves the call, if there is one.
        values: of the sources of that program now.
        mismatches: why each of the programs before it does not; without a hit, why none does.
    """

    call: Call
    entries: tuple[Entry, ...]
    entry: Entry | None
    values: list[Any]
    mismatches: Sequence[Mismatch]

    @property
    def broken_sizes(self) -> frozenset[Place]:
        """The dynamic sizes of the call that the programs with its key are not made for."""
        arguments = self.call.arguments
        return frozenset().union(*(entry.captured.sizes.broken(arguments) for entry in self.entries))


class ProgramCache:
    """Programs by key; a key may have several, told apart by their guards.

    Lookups take no lock: the table is replaced, never changed in place. Additions must be serialised by the caller.

    Attributes:
        routes: fast paths to programs by call shape, replaced like the table; see :mod:`dy2st.static.fast_path`.
    """

    def __init__(self) -> None:
        self._table: dict[Any, tuple[Entry, ...]] = {}
        self._clock = itertools.count()
        self.routes: dict[Any, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._table.values())

    def __iter__(self) -> Iterator[Captured]:
        return (entry.captured for entries in self._table.values() for entry in entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramCache:
        return ProgramCache()

    def __reduce__(self) -> tuple[Any, ...]:
        return (ProgramCache, ())

    def look_up(self, call: Call, known: Lookup | None = None) -> Lookup:
        """Return what there is for a call.

        Args:
            call: the call, as a program takes it.
            known: what was found before; it is the answer if the key is the same, and so are the programs with that key.
        """
        entries = self._table.get(call.key, ())
        if known is not None and known.entries is entries and known.call.key == call.key:
            return known
        mismatches: list[Mismatch] = []
        arguments = call.arguments if entries else ()
        for entry in entries:
            values = fetch(entry.captured.sources, arguments)
            guard = entry.captured.guards.failure(values)
            if guard is None and not entry.captured.sizes.broken(arguments):
                return Lookup(call, entries, entry, values, mismatches)
            mismatches.append(Mismatch(entry, values, guard))
        return Lookup(call, entries, None, [], mismatches)

    def used(self, entry: Entry) -> None:
        """Remember that a program was used now."""
        entry.last_used = next(self._clock)

    def add_route(self, call_shape: Any, route: Any) -> None:
        """Keep a fast path to a program, unless the program is no longer kept."""
        if any(entry is route.entry for entry in self._table.get(route.entry.key, ())):
            self.routes = {**self.routes, call_shape: (route, *self.routes.get(call_shape, ()))}

    def items(self) -> list[tuple[Any, Captured]]:
        """Return all programs, each with its key."""
        return [(entry.key, entry.captured) for entries in self._table.values() for entry in entries]

    def told(self, lookup: Lookup) -> str:
        """Return why a lookup has found no program, in words."""
        if not lookup.entries:
            return f"no program for {lookup.call.describe()} yet; programs for {len(self._table)} other signatures"
        return "; ".join(dict.fromkeys(map(str, lookup.mismatches)))

    def add(self, key: Any, captured: Captured) -> Entry:
        """Keep a program; the least recently used goes when there are too many."""
        table = dict(self._table)
        reusable = (entry for entry in table.get(key, ()) if not entry.captured.guards.once)
        added = Entry(key, captured, next(self._clock))
        table[key] = (added, *reusable)
        entries = [entry for group in table.values() for entry in group]
        if len(entries) > config.MAX_PROGRAMS:
            oldest = min(entries, key=lambda entry: entry.last_used)
            table[oldest.key] = tuple(entry for entry in table[oldest.key] if entry is not oldest)
            if not table[oldest.key]:
                del table[oldest.key]
            self.routes = {
                call_shape: tuple(route for route in routes if route.entry is not oldest)
                for call_shape, routes in self.routes.items()
            }
        self._table = table
        return added

    def drop_with(self, island: Any) -> None:
        """Forget the programs that call an island: it gives something that they cannot go on with."""
        kept = {key: tuple(e for e in entries if not _calls(e.captured, island)) for key, entries in self._table.items()}
        alive = [entry for entries in kept.values() for entry in entries]
        self._table = {key: entries for key, entries in kept.items() if entries}
        self.routes = {
            spelling: tuple(route for route in routes if any(route.entry is entry for entry in alive))
            for spelling, routes in self.routes.items()
        }

    def clear(self) -> None:
        """Forget all programs."""
        self._table, self.routes = {}, {}


def _calls(captured: Captured, island: Any) -> bool:
    return any(node.target is control.call_ and node.args[0] is island for node in captured.program.nodes())
