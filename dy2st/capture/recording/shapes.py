"""Sizes and numbers that are known only at run time: a ``ShapeEnv`` that never specialises in silence.

torch's own environment learns facts when it is told ``u0 == 3`` and answers later questions from them. A fact learned inside
one branch must not leak into the other, so it is forgotten where the branch ends, and each becomes a check in the
block where it was learned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
import torch.fx.experimental.validator  # half a second that the first capture would spend
from torch._guards import SLoc
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._sympy.functions import FloorDiv, Min, Mod, PythonMod

from dy2st.capture.operands.strict_checks import is_stricter_than_kernels
from dy2st.capture.writes.shape_facts import ForgettingShapes

ACTS_FOR_USER = False

_OF_STORAGE = "native/Resize.h"
"""Where torch checks that there is room for a tensor."""
_MOST = 8
"""Of how many values a number may be one where something is done for each."""


class CaptureShapes(ForgettingShapes):
    """The shape environment of one capture.

    Attributes:
        on_assumption: called with an expression that later operations rely on, and a message.
    """

    operation_start: int | None = None
    """Number of the first symbol made by the operation whose shapes are being computed now."""

    operands: frozenset[sympy.Basic] = frozenset()
    """Symbols that the operation takes as operands: whatever they are, the sizes of its result are the same."""

    refuses_less_than_one: bool = False
    """Whether the operation fails for numbers of points below one, when the program runs: else that would be asked here."""

    notes_stretching: bool = False
    """Whether code of the user's may see that sizes do not fit."""

    gives_view: bool = False
    """Whether the operation stretches a tensor itself: how its result lies in memory depends on its sizes."""

    written_sizes: frozenset[sympy.Basic] = frozenset()
    """The sizes of what the operation writes: nothing stretches these."""

    on_assumption: Callable[[sympy.Basic, str], None] | None = None

    on_new_number: Callable[[], None] = staticmethod(lambda: None)
    """Called before a number is made."""

    value_of: Callable[[sympy.Symbol], Any] = staticmethod(lambda symbol: None)
    """Gives the value of a number that can be shown, else ``None``."""

    def __init__(self) -> None:
        self._values: dict[sympy.Basic, frozenset[int]] = {}
        self._chosen: dict[sympy.Symbol, tuple[sympy.Basic, sympy.Basic, sympy.Basic]] = {}
        """Of numbers that an ``if`` has left: its test, and what the number is where that holds and where it does not."""
        self._being_learned: set[sympy.Basic] = set()
        self._either: dict[sympy.Basic, tuple[sympy.Basic, ...]] = {}
        """Of sizes that an ``if`` has left: what they are on its ways."""
        self.compared: dict[tuple[Any, ...], Any] = {}
        """What comparisons of floats have given."""
        self._together: tuple[Any, torch.SymInt | None] = None, None
        """The sizes of the operands of an operation, and that of its result."""
        self.seen: dict[sympy.Basic, sympy.Integer] = {}
        """Of the numbers that are strides what they are at the capture."""
        super().__init__(specialize_zero_one=False, duck_shape=False, prefer_deferred_runtime_asserts_over_guards=True)

    def guard_or_defer_runtime_assert(  # type: ignore[override]  # torch wraps its own in a cache
        self, orig_expr: Any, msg: str, fx_node: Any = None
    ) -> bool:
        """Assume an expression; what cannot be shown becomes a check in the program."""
        known = self._maybe_evaluate_static(orig_expr)
        if known is not None:
            return bool(known)
        if self._needs_nothing(msg):
            return True
        result = super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node)
        if self.on_assumption is not None and not self._is_new(orig_expr):
            self.on_assumption(orig_expr, msg)
        return bool(result)

    def _needs_nothing(self, message: str) -> bool:
        """Tell whether the operation that runs takes whatever is checked now, or refuses it itself when the program runs."""
        if self.operation_start is None or self.notes_stretching:
            return False
        return _OF_STORAGE in message or (not self.gives_view and is_stricter_than_kernels())

    def _is_new(self, expr: sympy.Basic) -> bool:
        """Tell whether an expression speaks of a size that the current operation has just made: then it describes its result."""
        first = self.operation_start
        return first is not None and any(int(str(s)[1:]) >= first for s in expr.free_symbols if str(s).startswith("u"))

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        """Decide an expression; "is this size 0?" (or 1) is answered no, with a check in the program."""
        try:
            return super().evaluate_expr(orig_expr, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            if self.on_assumption is None:
                raise
            shown = self._shown(orig_expr)
            if shown is not None:
                return shown
            if self.operation_start is not None and orig_expr.free_symbols <= self.seen.keys():
                return self._take_as_seen(orig_expr)
            if self.operation_start is not None and _same_size_question(orig_expr):
                return self._take_as_equal(orig_expr)
            positive = _of_a_positive_number(orig_expr) if self.refuses_less_than_one else None
            if positive is not None:
                return sympy.true if positive else sympy.false
            answer = _zero_one_question(orig_expr)
            in_operation = self.operation_start is not None
            if answer is not None and in_operation and orig_expr.free_symbols <= self.operands:
                return sympy.true if answer else sympy.false
            if answer is None or not (in_operation or orig_expr.free_symbols <= self.size_like):
                raise
            if orig_expr.rhs == 1 or not in_operation:  # what an operation computes for an empty tensor needs no check
                assumed = orig_expr if answer else sympy.Not(orig_expr)
                self.on_assumption(assumed, f"this size is taken not to be {orig_expr.rhs}")
            return sympy.true if answer else sympy.false

    def _shown(self, expr: Any) -> Any:
        """Return what an expression is, where what its numbers are computed of shows that; else ``None``."""
        values = {symbol: self.value_of(symbol) for symbol in expr.free_symbols}
        if None in values.values():
            return None
        result = expr.xreplace({symbol: sympy.sympify(value) for symbol, value in values.items()})
        return None if result.free_symbols else result

    def _take_as_seen(self, expr: Any) -> Any:
        """Return what an expression of strides is for those of the capture, which the program checks."""
        result = expr.xreplace(self.seen)
        assert self.on_assumption is not None
        if isinstance(expr, sympy.logic.boolalg.Boolean):
            self.on_assumption(expr if result else sympy.Not(expr), "these strides are taken to be those of the capture")
        else:
            self.on_assumption(sympy.Eq(expr, result), "this stride is taken to be the one of the capture")
        return result

    def _take_as_equal(self, expr: Any) -> Any:
        """Return an operation asks whether two sizes are equal: it needs them to be, and the program checks that they are."""
        self.guard_or_defer_runtime_assert(sympy.Eq(expr.lhs, expr.rhs), "these two sizes are taken to be equal")
        return sympy.true if isinstance(expr, sympy.Eq) else sympy.false

    def either(self, size: Any, *ways: Any) -> None:
        """Remember what a size is on the ways of a branch."""
        expressions = [_expression(way) for way in ways]
        if isinstance(size, torch.SymInt) and None not in expressions and size.node.expr not in expressions:
            self._either[size.node.expr] = tuple(expressions)

    def is_stretched(self, size: Any, other: Any) -> bool:
        """Tell whether a size is known to be 1 or another one, which are those of all ways to here."""
        to, met, waiting = _expression(other), set[sympy.Basic](), [_expression(size)]
        while waiting:
            one = waiting.pop()
            if one in (1, to) or one in met:
                continue
            ways = None if one is None else self._either.get(one) or _ways_of_first(one)
            if ways is None:
                return False
            met.add(one)
            waiting += ways
        return True

    def may_be_stretched(self, size: torch.SymInt, to: int | torch.SymInt) -> bool:
        """Tell whether nobody knows if a size is 1, and is stretched to another one, or the same as that."""
        expr, other = size.node.expr, _expression(to)
        if expr in self.written_sizes or any(self._known(sympy.Eq(expr, one)) is not None for one in (1, other)):
            return False
        if self.notes_stretching and self.on_assumption is not None:
            self.on_assumption(sympy.Eq(expr, other), "these two sizes are taken to be equal")
        return True

    def together(self, sizes: Sequence[torch.SymInt]) -> torch.SymInt | None:
        """Return the size of a result where those of its operands may be 1; ``None`` where they are taken to be equal."""
        given = {size.node.expr: size for size in sizes}
        if len(given) < 2 or self.operation_start is None or self.notes_stretching:
            return None
        first, *others = [expr for expr in given if self._known(sympy.Eq(expr, 1)) is not True] or given
        if all(self._known(sympy.Eq(first, other)) for other in others):
            return given[first]
        written = [size for expr, size in given.items() if expr in self.written_sizes]
        key = self.operation_start, frozenset(given)
        if written:
            return written[0] if len(written) == 1 else None
        if self._together[0] != key:  # torch asks several times in one operation
            self._together = key, self.fresh_int(size=True)
        return self._together[1]

    def known(self, value: Any) -> bool | None:
        """Return what a symbolic bool is, where that follows from what is known; else ``None``."""
        if isinstance(value, bool):
            return value
        return self._known(value.node.expr)

    def _known(self, expr: sympy.Basic) -> bool | None:
        """Return what an expression is, where that follows from what is known, also of the tests that its numbers come from."""
        answer = self._maybe_evaluate_static(expr)
        if answer is not None:
            return bool(answer)
        for symbol in expr.free_symbols & self._chosen.keys():
            test, then, orelse = self._chosen[symbol]
            holds = self._known(test)
            if holds is not None:
                return self._known(expr.xreplace({symbol: then if holds else orelse}))
        return self._known_of_each(expr)

    def _known_of_each(self, expr: sympy.Basic) -> bool | None:
        """Return what an expression is, where that is the same for all values that its numbers may have."""
        if not isinstance(expr, sympy.core.relational.Relational) or not expr.free_symbols <= self._values.keys():
            return None
        symbols = [*expr.free_symbols]
        ways = itertools.islice(itertools.product(*(self._values[symbol] for symbol in symbols)), _MOST + 1)
        answers = [expr.xreplace(dict(zip(symbols, map(sympy.Integer, way)))) for way in ways]
        return bool(answers[0]) if len(answers) <= _MOST and len(set(answers)) == 1 else None

    def chosen(self, number: Any, test: Any, then: Any, orelse: Any) -> None:
        """Remember that a number is one of two: a test that is a symbolic bool decides which."""
        ways = [_expression(way) for way in (then, orelse)]
        if isinstance(test, torch.SymBool) and isinstance(number, (torch.SymInt, torch.SymBool)) and None not in ways:
            (symbol,) = number.node.expr.free_symbols
            self._chosen[symbol] = test.node.expr, *ways

    def is_size(self, number: sympy.Basic) -> bool:
        """Tell whether a number is there, and not negative, whatever the numbers are that it is computed of."""
        return not number.has(FloorDiv, Mod, PythonMod) and self._known(number >= 0) is True

    def one_of(self, number: Any, *values: Any) -> None:
        """Remember which a number may be, if that is known of each of some: ints, and numbers of which it is known."""
        results = [self.possible(value.node.expr) if isinstance(value, torch.SymInt) else (value,) for value in values]
        known = [part for ways in results for part in ways or ()]
        if None not in results and len(set(known)) <= _MOST and all(type(part) is int for part in known):
            self._values[number.node.expr] = frozenset(known)

    def possible(self, expr: sympy.Basic) -> tuple[int, ...] | None:
        """Return what a symbolic int may be, in order, if these are few."""
        symbols = [*expr.free_symbols]
        if not all(symbol in self._values for symbol in symbols):
            return self._in_range(expr)
        ways = itertools.product(*(self._values[symbol] for symbol in symbols))
        results = {int(expr.xreplace(dict(zip(symbols, map(sympy.Integer, way))))) for way in itertools.islice(ways, _MOST**2)}
        return (
            tuple(sorted(results))
            if len(results) <= _MOST and math.prod(len(self._values[s]) for s in symbols) <= _MOST**2
            else None
        )

    def _in_range(self, expr: sympy.Basic) -> tuple[int, ...] | None:
        if not expr.has(PythonMod, Mod):
            return None
        bounds = self.bound_sympy(expr)
        few = bounds.lower.is_Integer and bounds.upper.is_Integer and bounds.upper - bounds.lower < _MOST
        return tuple(range(int(bounds.lower), int(bounds.upper) + 1)) if few else None

    def learn(self, expr: sympy.Basic) -> None:
        """Take an expression for true until the facts are forgotten, and the tests that have then been decided with it."""
        if expr in self._being_learned:
            return  # it has had a fact learned again, which tells it
        self._being_learned.add(expr)
        try:
            self._learn(expr)
        finally:
            self._being_learned.discard(expr)

    def _learn(self, expr: sympy.Basic) -> None:
        if self._maybe_evaluate_static(expr) is None:
            super().guard_or_defer_runtime_assert(expr, "the branch that is taken")
            self._forget_answers()
        waiting = [fact for fact in self._undecided if self._tests_of(fact) & expr.free_symbols]
        for fact in (expr, *waiting):
            self._learn_ways(fact)
        for fact in self._implied.pop(expr, ()):
            self.learn(fact)

    def learn_checked(self, expr: sympy.Basic) -> None:
        """Learn what the program checks."""
        self._checked[expr] = None
        self.learn(expr)

    def imply(self, test: sympy.Basic, checked: Sequence[sympy.Basic]) -> None:
        """Remember what a branch with a test has checked."""
        if checked:
            self._implied[test] = self._implied.get(test, {}) | dict.fromkeys(checked)

    def _tests_of(self, fact: sympy.Basic) -> set[sympy.Basic]:
        """Return the symbols of the tests that the numbers in a fact come from."""
        return {one for symbol in fact.free_symbols & self._chosen.keys() for one in self._chosen[symbol][0].free_symbols}

    def _learn_ways(self, fact: sympy.Basic) -> None:
        """Learn from a fact what it says on the only way on which it can hold; keep it while there are two."""
        self._undecided.pop(fact, None)
        for symbol in fact.free_symbols & self._chosen.keys():
            test, *ways = self._chosen[symbol]
            of_ways = [fact.xreplace({symbol: way}) for way in ways]
            holds = self._known(test)
            fits = [holds in (None, is_first) and self._known(way) is not False for way, is_first in zip(of_ways, (True, False))]
            if fits[0] != fits[1]:
                self.learn(test if fits[0] else sympy.Not(test))
                self.learn(of_ways[0 if fits[0] else 1])
            elif all(fits):
                self._undecided[fact] = None

    def create_unbacked_symint(self, *args: Any, **kwargs: Any) -> torch.SymInt:
        """Return a new symbolic int; torch's keeper of results of operations would ask whether it is 1 from here on."""
        self.on_new_number()
        return super().create_unbacked_symint(*args, **kwargs)

    def _get_stack_summary(self, *args: Any, **kwargs: Any) -> tuple[SLoc, str]:
        """Return no place: torch would look for one by its own files, half a second at the first capture, for its logs alone."""
        return SLoc("", None), ""  # without a text, torch 2.11 would fail to show it

    def _log_create_unbacked_symbol(self, *args: Any, **kwargs: Any) -> None:
        """Log no new number, with the places of all its frames, which torch prepares for a log that nobody reads."""

    def fresh_int(self, size: bool = False) -> Any:
        """Return a new symbolic int; with ``size`` one that is never negative."""
        number = self.create_unbacked_symint()
        if size:
            self.constrain_size(number)
        symbol = number.node.expr
        self._first_ranges[symbol] = self.var_to_range[symbol]
        return number

    def constrain_size(self, number: torch.SymInt) -> None:
        """Say that a number is a size."""
        self._constrain_range_for_size(number.node.expr)
        self._update_version_counter()

    def fresh_float(self) -> Any:
        """Return a new symbolic float."""
        return self.create_unbacked_symfloat()

    def fresh_bool(self) -> Any:
        """Return a new symbolic bool."""
        return self.create_unbacked_symbool()


def _expression(number: Any) -> sympy.Basic | None:
    """Return a number as an expression, a bool as that of the int that it is; ``None`` for any other value."""
    if isinstance(number, int):
        return sympy.Integer(number)
    return number.node.expr if isinstance(number, torch.SymInt) else None


def _ways_of_first(size: sympy.Basic) -> tuple[sympy.Basic, ...] | None:
    """Return what the size of ``x[:1]`` may be, of as many items as only the program knows: 1, or that size if there are none."""
    first = isinstance(size, Min) and len(size.args) == 2 and sympy.S.One in size.args
    return tuple(size.args) if first else None


def _same_size_question(expr: Any) -> bool:
    return isinstance(expr, (sympy.Eq, sympy.Ne)) and bool(expr.lhs.free_symbols) and bool(expr.rhs.free_symbols)


def _zero_one_question(expr: Any) -> bool | None:
    """Return the assumed answer to "is it 0 / 1?": no; ``None`` for any other question."""
    if isinstance(expr, (sympy.Eq, sympy.Ne)) and expr.rhs in (0, 1):
        return isinstance(expr, sympy.Ne)
    return None


def _of_a_positive_number(expr: Any) -> bool | None:
    """Return what a comparison with a constant is where the number is one or more; ``None`` where that does not tell."""
    if not isinstance(expr, sympy.core.relational.Relational) or not expr.rhs.is_Integer:
        return None
    if expr.rhs < 1 and isinstance(expr, (sympy.Eq, sympy.Ne)):
        return isinstance(expr, sympy.Ne)
    if expr.rhs <= 0 and isinstance(expr, (sympy.Gt, sympy.Le)):
        return isinstance(expr, sympy.Gt)
    return isinstance(expr, sympy.Ge) if expr.rhs <= 1 and isinstance(expr, (sympy.Ge, sympy.Lt)) else None
