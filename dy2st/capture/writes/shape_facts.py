"""What is known of sizes, which a block may learn and its end forgets."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from dy2st.capture.values.storage import MISSING
from dy2st.capture.writes.logged_tables import LoggedTable, TableLog

ACTS_FOR_USER = False

_TABLES = (
    "replacements", "replacements_slocs", "var_to_range", "var_to_range_sloc", "axioms",
    "deferred_runtime_asserts", "unbacked_renamings", "_undecided", "_checked", "_implied",
)  # fmt: skip
_SMALL = ("divisible", "size_like", "dim_constraints")
_RANGES = ("var_to_range", "var_to_range_sloc")
_FLIPPED = {sympy.Lt: sympy.Gt, sympy.Gt: sympy.Lt, sympy.Le: sympy.Ge, sympy.Ge: sympy.Le}
_OPTIONS = {"size_oblivious"}
"""Options of a question to which the answer is kept."""


Answers = dict[tuple[sympy.Basic, bool], sympy.Basic | None]
"""What is known of expressions, ``None`` where nothing is, by the expression and whether its sizes are taken not to be 0 or 1."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What was known of sizes at one time.

    Attributes:
        mark: how many changes of tables there were.
        tables: those that there were; torch may replace one.
        small: copies of what is no table.
        answers: what had been answered, and how many answers these were.
    """

    mark: int
    tables: dict[str, Any]
    small: dict[str, Any]
    answers: tuple[Answers, int]


@dataclasses.dataclass(frozen=True)
class Learned:
    """What was learned from one time to another: the items that are in tables, ``MISSING`` where none is, and what is no table."""

    items: list[tuple[str, Any, Any]]
    small: dict[str, Any]


@functools.lru_cache(10_000)
def _form_of(expr: sympy.Basic) -> tuple[Any, tuple[sympy.Basic, ...]]:
    """Return how an expression is made of numbers, and these, in the order in which it has them first."""
    symbols: dict[sympy.Basic, int] = {}

    def form(part: sympy.Basic) -> Any:
        if part.is_Symbol:
            return (symbols.setdefault(part, len(symbols)),)  # a number alone would be equal to one of sympy
        return (part.func, *map(form, part.args)) if part.args else part

    return form(expr), tuple(symbols)


class _RangesLearned(threading.local):
    """How often torch has learned a range."""

    number = 0

    def add(self) -> None:
        """Count one more."""
        self.number += 1
        _CLEAR()


_ranges_learned, _CLEAR = _RangesLearned(), cast(Any, ShapeEnv._maybe_evaluate_static).cache_clear


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
        self._answers: Answers = {}
        self._answered_at = 0, 0
        """The version that the answers are of."""
        self._forms: dict[Any, sympy.Basic | None] = {}
        """Answers to questions about any numbers of which the same is known."""
        self._axioms_by_symbol: dict[sympy.Basic, list[Any]] = {}
        """What is known, by the numbers that it speaks of."""
        self._indexed: list[Any] = []
        """What is in there, in order."""
        self._indexed_at = -1, 0
        """The version that this is of."""
        super().__init__(**settings)

    def _maybe_evaluate_static(self, expr: Any, **options: Any) -> Any:  # type: ignore[override]  # torch wraps its own in a cache
        """Return what an expression is, where that follows from what is known; else ``None``.

        torch's own cache is empty as soon as a block has ended.
        """
        if options == {"unbacked_only": True} and not getattr(self, "backed_var_to_val", True):  # then that is all of them
            answer = self._maybe_evaluate_static(expr)
            return expr if answer is None else answer
        if not options.keys() <= _OPTIONS:
            return super()._maybe_evaluate_static(expr, **options)
        if self._answered_at != self._version:  # what follows from less follows from more
            self._answers = {asked: answer for asked, answer in self._answers.items() if answer is not None}
            self._answered_at = self._version
        asked = expr, bool(options.get("size_oblivious"))
        try:
            return self._answers[asked]
        except KeyError:
            answer = self._evaluate(expr, asked[1], options)
            if self._answered_at == self._version:
                self._answers[asked] = answer
            return answer

    def _evaluate(self, expr: Any, size_oblivious: bool, options: dict[str, Any]) -> Any:
        """Return what an expression is, or an expression of the same form: each attempt at a loop makes other numbers."""
        structure, symbols = _form_of(expr)
        if not all(map(self._is_free, symbols)):
            return super()._maybe_evaluate_static(expr, **options)
        kinds = tuple((self.var_to_range[symbol], symbol in self.size_like) for symbol in symbols)
        form = structure, kinds, frozenset(self._axioms_of(symbols)), size_oblivious
        if form not in self._forms:
            self._forms[form] = super()._maybe_evaluate_static(expr, **options)
        return self._forms[form]

    def _is_free(self, symbol: sympy.Basic) -> bool:
        """Tell whether a number is one of the program that is not known to be an expression of others."""
        return (
            isinstance(symbol, sympy.Symbol)
            and symbol.name.startswith("u")
            and symbol in self.var_to_range
            and symbol not in self.replacements
        )

    def _axioms_of(self, symbols: Sequence[sympy.Basic]) -> Iterator[Any]:
        """Yield the forms of what is known that speaks of no other numbers than some, with the positions of its numbers there."""
        if self._indexed_at != self._version:
            self._index_axioms()
            self._indexed_at = self._version
        positions = {symbol: position for position, symbol in enumerate(symbols)}
        for axiom in dict.fromkeys(axiom for symbol in symbols for axiom in self._axioms_by_symbol.get(symbol, ())):
            structure, own = _form_of(axiom)
            if all(symbol in positions for symbol in own):
                yield structure, tuple(map(positions.__getitem__, own)), self.axioms.get(axiom)

    def _index_axioms(self) -> None:
        """Find what is known by the numbers that it speaks of; most of it was known before, the latest is forgotten first."""
        axioms = [*self.axioms, *self.divisible]
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(self._indexed, axioms)))
        for axiom in reversed(self._indexed[same:]):
            for symbol in _form_of(axiom)[1]:
                self._axioms_by_symbol[symbol].pop()
        for axiom in axioms[same:]:
            for symbol in _form_of(axiom)[1]:
                self._axioms_by_symbol.setdefault(symbol, []).append(axiom)
        self._indexed = axioms

    _maybe_evaluate_static.cache_clear = _ranges_learned.add  # type: ignore[attr-defined]  # it is asked of whatever is called so

    @property
    def _version(self) -> tuple[int, int]:
        """What answers depend on: torch counts what it learns, and clears its cache where it learns a range."""
        return self._version_counter, _ranges_learned.number

    def _refine_ranges(self, expr: Any) -> None:
        """Learn ranges from a comparison: most are of a number with a constant or another number, with nothing to solve."""
        expr = self.simplify(expr)
        sides: tuple[Any, ...] = getattr(expr, "args", ())
        is_plain = type(expr) in _FLIPPED and all(side.is_Integer or (side.is_integer and self._is_free(side)) for side in sides)
        if not is_plain or sides[0] is sides[1]:
            super()._refine_ranges(expr)
            return
        for (one, other), kind in ((sides, type(expr)), (sides[::-1], _FLIPPED[type(expr)])):
            if one.is_Symbol:
                self._refine(one, kind, ValueRanges(other, other) if other.is_Integer else self.var_to_range[other])

    def _refine(self, symbol: sympy.Symbol, kind: type, other: ValueRanges[Any]) -> None:
        """Learn the range of a number that stands in a comparison with one of a range."""
        known = self.var_to_range[symbol]
        lower, upper = known.lower, known.upper
        if kind in (sympy.Ge, sympy.Gt) and lower <= other.lower:
            lower = other.lower + int(kind is sympy.Gt)
        if kind in (sympy.Le, sympy.Lt) and upper >= other.upper:
            upper = other.upper - int(kind is sympy.Lt)
        if (lower, upper) == (known.lower, known.upper):
            return
        self._update_var_to_range(symbol, ValueRanges(lower, upper))
        if self.var_to_range[symbol].is_singleton():
            self._set_replacement(symbol, self.var_to_range[symbol].lower, "range_refined_to_singleton")
        _ranges_learned.add()

    def checked_since(self, facts: Facts) -> list[sympy.Basic]:
        """Return what the program has checked since :meth:`facts` was called."""
        return self._log.added(self._checked, facts.mark)

    def facts(self) -> Facts:
        """Return what has been learned so far, for :meth:`forget_since`."""
        tables = {name: self._table(name) for name in _TABLES if hasattr(self, name)}
        small = {name: copy.copy(getattr(self, name)) for name in _SMALL if hasattr(self, name)}
        answers = self._answers if self._answered_at == self._version else {}
        return Facts(self._log.mark(), tables, small, (answers, len(answers)))

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
        self._answer_as_before(facts, set(made))

    def _answer_as_before(self, facts: Facts, made: set[sympy.Basic]) -> None:
        """Answer what was asked before what was forgotten as then, but of symbols that have been made since."""
        answers, number = facts.answers
        later = [answers.popitem() for _ in range(len(answers) - number)]
        answers.update((asked, answer) for asked, answer in reversed(later) if made.isdisjoint(asked[0].free_symbols))
        self._answers, self._answered_at = answers, self._version

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
