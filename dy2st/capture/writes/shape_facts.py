"""What is known of sizes, which a block may learn and its end forgets."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.logged_tables import LoggedTable, TableLog

ACTS_FOR_USER = False

_TABLES = (
    "replacements", "replacements_slocs", "var_to_range", "var_to_range_sloc", "axioms",
    "deferred_runtime_asserts", "unbacked_renamings", "_undecided", "_checked", "_implied",
)  # fmt: skip
_SMALL = ("divisible", "size_like", "dim_constraints")


@dataclasses.dataclass(frozen=True)
class Facts:
    """What was known of sizes at one time.

    Attributes:
        mark: how many changes of tables there were.
        tables: those that there were; torch may replace one.
        small: copies of what is no table.
    """

    mark: int
    tables: dict[str, Any]
    small: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Learned:
    """What was learned from one time to another: the items that are in tables, ``MISSING`` where none is, and what is no table."""

    items: list[tuple[str, Any, Any]]
    small: dict[str, Any]


class ForgettingShapes(ShapeEnv):
    """A shape environment that goes back to what it knew."""

    def __init__(self, **settings: Any) -> None:
        self._log = TableLog()
        self._first_ranges: dict[sympy.Symbol, Any] = {}
        self._undecided: dict[sympy.Basic, None] = {}
        """What has been learned of numbers that an ``if`` has left and may hold on both ways: a test learned later tells more."""
        self._checked: dict[sympy.Basic, None] = {}
        """What the program has checked."""
        self._implied: dict[sympy.Basic, dict[sympy.Basic, None]] = {}
        """What a branch has checked, by the test of the branch: it holds where another branch has the same test."""
        super().__init__(**settings)

    def checked_since(self, facts: Facts) -> list[sympy.Basic]:
        """Return what the program has checked since :meth:`facts` was called."""
        return self._log.added(self._checked, facts.mark)

    def facts(self) -> Facts:
        """Return what has been learned so far, for :meth:`forget_since`."""
        tables = {name: self._table(name) for name in _TABLES if hasattr(self, name)}
        return Facts(self._log.mark(), tables, {name: copy.copy(getattr(self, name)) for name in _SMALL if hasattr(self, name)})

    def _table(self, name: str) -> LoggedTable:
        """Return a table that notes its changes from now on."""
        table = getattr(self, name)
        if not isinstance(table, LoggedTable):
            table = LoggedTable(self._log, table)
            setattr(self, name, table)
        return table

    def forget_since(self, facts: Facts) -> None:
        """Go back to what was known when :meth:`facts` was called; what was returned since means nothing from then on."""
        ranges, reasons, known = self.var_to_range, self.var_to_range_sloc, facts.tables["var_to_range"]
        made = self._log.added(ranges, facts.mark) if ranges is known else [symbol for symbol in ranges if symbol not in known]
        made_ranges = {symbol: (self._first_ranges.get(symbol, ranges[symbol]), reasons[symbol]) for symbol in made}
        self._log.undo(facts.mark)
        for name, table in facts.tables.items():
            if getattr(self, name) is not table:
                setattr(self, name, table)
        for name, value in facts.small.items():
            setattr(self, name, copy.copy(value))
        for symbol, (bounds, reason) in made_ranges.items():  # those of state may have been read there first
            self.var_to_range.setdefault(symbol, bounds)
            self.var_to_range_sloc.setdefault(symbol, reason)
        self._version_counter += 1  # torch keeps answers until this changes, and sees facts that come only
        self._forget_answers()

    def learned_since(self, facts: Facts) -> Learned:
        """Return what has been learned since :meth:`facts` was called, for :meth:`learn_again`."""
        names = {id(getattr(self, name)): name for name in facts.tables}
        changed = {(names[id(table)], key): table for table, key, _ in self._log.since(facts.mark) if id(table) in names}
        items = [(name, key, table.get(key, MISSING)) for (name, key), table in changed.items()]
        return Learned(items, {name: copy.copy(getattr(self, name)) for name in facts.small})

    def learn_again(self, learned: Learned) -> None:
        """Know again what has been forgotten."""
        for name, key, value in learned.items:
            table = self._table(name)
            if value is MISSING:
                table.pop(key, None)
            else:
                table[key] = value
        for name, value in learned.small.items():
            setattr(self, name, copy.copy(value))
        self._version_counter += 1
        self._forget_answers()

    @staticmethod
    def _forget_answers() -> None:
        """Have torch decide anew what it was asked before: it keeps answers for ever, as if facts held in the whole program."""
        for name in ("evaluate_expr", "_inner_evaluate_expr", "guard_or_defer_runtime_assert"):
            getattr(getattr(ShapeEnv, name, None), "cache_clear", lambda: None)()
