"""What a program relies on in the sizes of its inputs that may differ from call to call.

Torch takes some things about an unknown size for granted: that ``x + y`` of sizes ``u0`` and 3 means ``u0`` is 3, say, though
1 would do as well. The program checks it; a call for which it does not hold gets a program of its own, in which those sizes
are fixed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from dy2st.capture.values import expressions

ACTS_FOR_USER = False

Place = tuple[int, int]
"""A leaf of the arguments, and one of its dimensions."""


@dataclasses.dataclass(frozen=True)
class SizeConditions:
    """Conditions on the sizes of a call.

    Attributes:
        symbols: where the value of each symbol is found.
        conditions: what must be true.
        fixed: sizes that are declared dynamic, but that this program takes as they were.
    """

    symbols: Mapping[sympy.Symbol, Place]
    conditions: tuple[sympy.Basic, ...]
    fixed: Mapping[Place, int]

    def broken(self, leaves: Sequence[Any]) -> frozenset[Place]:
        """Return the sizes for which the program is not made; empty if it fits."""
        wrong = [place for place, size in self.fixed.items() if leaves[place[0]].shape[place[1]] != size]
        if wrong:
            return frozenset(wrong)
        for condition in self.conditions:
            values = {symbol: leaves[leaf].shape[dim] for symbol, (leaf, dim) in self.symbols.items()}
            if not _evaluate(condition, values):
                return frozenset(self.symbols[symbol] for symbol in condition.free_symbols)
        return frozenset()


def _evaluate(expr: sympy.Basic, values: Mapping[sympy.Basic, int]) -> Any:
    if expr in values:
        return values[expr]
    if not expr.free_symbols:
        return expressions.constant(expr)
    return expressions.build(expr, lambda part: _evaluate(part, values), lambda target, args: target(*args))
