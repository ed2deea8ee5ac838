"""The programs of one static function."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dy2st import config
from dy2st.capture.environment.guards import Guard
from dy2st.capture.environment.sizes import Place
from dy2st.capture.environment.sources import fetch
from dy2st.capture.trace import Captured
from dy2st.static.signature import Call


@dataclasses.dataclass
class Entry:
    """One captured program.

    Attributes:
        key: of the calls it serves, if its guards hold.
        captured: the program and its surroundings.
        last_used: grows with each use of any entry.
        served: whether a call has used it since it was captured.
        recording: the same, with a record of what it has written before each operation that may fail; made when it has failed.
        routed: the spellings of calls for which a route to it was made, or cannot be.
    """

    key: Any
    captured: Captured
    last_used: int
    served: bool = False
    recording: Captured | None = None
    routed: set[Any] = dataclasses.field(default_factory=set)


class ProgramCache:
    """Programs by key; a key may have several, told apart by their guards.

    Lookups take no lock: the table is replaced, never changed in place. Additions must be serialised by the caller.

    Attributes:
        routes: short ways to programs by the spelling of calls, replaced like the table; see :mod:`dy2st.route`.
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

    def find(self, key: Any, arguments: Sequence[Any]) -> tuple[Entry, list[Any]] | None:
        """The program for a call and the values of its sources; ``None`` if there is none yet."""
        for entry in self._table.get(key, ()):
            values = fetch(entry.captured.sources, arguments)
            if entry.captured.guards.failure(values) is None and not entry.captured.sizes.broken(arguments):
                self.used(entry)
                return entry, values
        return None

    def used(self, entry: Entry) -> None:
        """Remember that a program was used now."""
        entry.last_used = next(self._clock)

    def add_route(self, spelling: Any, route: Any) -> None:
        """Keep a short way to a program, unless the program is no longer kept."""
        if any(entry is route.entry for entry in self._table.get(route.entry.key, ())):
            self.routes = {**self.routes, spelling: (route, *self.routes.get(spelling, ()))}

    def failures(self, key: Any, arguments: Sequence[Any]) -> list[tuple[Captured, Guard]]:
        """For each program with this key, the guard that keeps it from being used."""
        found = []
        for entry in self._table.get(key, ()):
            guard = entry.captured.guards.failure(fetch(entry.captured.sources, arguments))
            if guard is not None:
                found.append((entry.captured, guard))
        return found

    def of(self, key: Any) -> list[Captured]:
        """The programs with this key."""
        return [entry.captured for entry in self._table.get(key, ())]

    def items(self) -> list[tuple[Any, Captured]]:
        """All programs, each with its key."""
        return [(entry.key, entry.captured) for entries in self._table.values() for entry in entries]

    def miss(self, call: Call) -> str:
        """Why there is no program for a call, in words."""
        if call.key not in self._table:
            return f"no program for {call.describe()} yet; programs for {len(self._table)} other signatures"
        failed = [guard for _, guard in self.failures(call.key, call.arguments)]
        reasons = dict.fromkeys(f"{guard.source.name} is not what it was ({guard.expected})" for guard in failed)
        return "; ".join(reasons) or "a dynamic size is special"

    def broken_sizes(self, key: Any, arguments: Sequence[Any]) -> frozenset[Place]:
        """The dynamic sizes of a call that the programs with this key are not made for."""
        entries = self._table.get(key, ())
        return frozenset().union(*(entry.captured.sizes.broken(arguments) for entry in entries))

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
                spelling: tuple(route for route in routes if route.entry is not oldest) for spelling, routes in self.routes.items()
            }
        self._table = table
        return added

    def clear(self) -> None:
        """Forget all programs."""
        self._table, self.routes = {}, {}
