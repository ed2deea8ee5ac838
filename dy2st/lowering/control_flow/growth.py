"""How large what a loop carries can become.

A loop that goes on only while ``i + a < n``, where each iteration adds ``s`` to ``i``, makes no more than ``ceil((n - i - a) / s)
+ 1`` iterations. A size that an iteration makes ``size + c`` is then at most the first size and so many times ``c``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from dy2st.lowering.values import Less, known_later, surely

Forms = Mapping[sympy.Symbol, tuple[sympy.Expr | None, sympy.Expr | None]]
"""For each name of a number or size at the beginning of an iteration: its first value, and that of the next iteration."""


def iterations(implied: Iterable[Less], forms: Forms) -> sympy.Expr | None:
    """Return an upper bound for the number of iterations of a loop whose first iteration happens; ``None`` if there is none.

    Args:
        implied: what holds when there is another iteration, in terms of the names.
        forms: the names.
    """
    for left, right in sorted(implied, key=str):
        distance = sympy.expand(right - left)  # positive, or there is no other iteration
        inner = [name for name in distance.free_symbols if name in forms]
        if len(inner) != 1:
            continue
        (name,) = inner
        first, then = forms[name]
        if first is None or then is None:
            continue
        step = sympy.expand(distance.subs(name, then) - distance)
        if step.is_integer and step.is_negative and isinstance(step, sympy.Integer):
            start = sympy.expand(distance.subs(name, first))
            return start + 1 if step == -1 else FloorDiv(start - 1, -step) + 2
    return None


def largest(name: sympy.Symbol, forms: Forms, count: sympy.Expr | None, known: Mapping[sympy.Symbol, sympy.Expr]) -> Any:
    """Return an upper bound for a size; ``None`` if there is none.

    Args:
        name: of the size.
        forms: all names of the loop.
        count: an upper bound for the number of iterations.
        known: upper bounds of other sizes.
    """
    first, then = forms[name]
    if first is None or then is None:
        return None
    change = sympy.expand(then - name)
    if name not in change.free_symbols:
        change = _bounded(change, forms, known)
        if change is None:
            return None
        if isinstance(change, sympy.Integer) and change <= 0:
            return first
        return None if count is None else first + count * change
    then = _bounded(then, forms, known)
    return None if then is None else sympy.Max(first, then)


def _bounded(expression: sympy.Expr, forms: Forms, known: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr | None:
    """Return an expression with sizes replaced by their bounds; ``None`` if that is no bound."""
    inner = [name for name in expression.free_symbols if name in forms]
    for name in inner:
        if name not in known or not sympy.diff(expression, name).is_positive:
            return None
    return expression.subs({name: known[name] for name in inner})


class Sizes:
    """The sizes that are at hand where a loop begins, by their symbols.

    Args:
        values: tensors, sizes, and pairs of a form and a function that gives the size.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._known: dict[sympy.Symbol, Any] = {}
        for value in values:
            for size in value.shape if isinstance(value, torch.Tensor) else [value]:
                if isinstance(size, torch.SymInt):
                    self._learn(size.node.expr, size)
        self._numbers: dict[sympy.Symbol, Any] = {}

    def _learn(self, expression: sympy.Expr, size: Any) -> None:
        """Learn a size, and the symbol in it when that is all there is besides an integer."""
        self._known.setdefault(expression, size)
        rest = expression - next(iter(expression.free_symbols), 0)
        if not expression.is_Symbol and isinstance(rest, sympy.Integer):
            self._known.setdefault(expression - rest, size - int(rest))

    def add(self, form: Any, tensor: torch.Tensor) -> None:
        """Add a number that may become a size."""
        if isinstance(form, sympy.Symbol):
            self._numbers.setdefault(form, tensor)

    @property
    def symbols(self) -> frozenset[sympy.Symbol]:
        """The symbols that sizes at hand are made of."""
        return frozenset(symbol for expression in self._known for symbol in expression.free_symbols)

    def __call__(self, expression: Any) -> Any:
        """Return an expression as a size; ``None`` where a symbol of it is not at hand."""
        if expression in self._known:
            return self._known[expression]
        environment: dict[Any, Any] = {}
        for symbol in expression.free_symbols:
            if symbol in self._known:
                environment[symbol] = self._known[symbol]
            elif symbol in self._numbers:
                environment[symbol] = self._known[symbol] = known_later(self._numbers[symbol])
            else:
                return None
        if not environment:
            return int(expression)
        return sympy_interp(PythonReferenceAnalysis, environment, expression)


def at_least(size: Any, other: Any) -> Any:
    """Return the larger of two sizes."""
    if surely(lambda: size >= other):
        return size
    return torch.sym_max(size, other)
