"""Tests: expressions of which only the truth value counts.

    if a and not (b or c):  →   _dy2st.if_stmt(_dy2st.test_and(a, lambda: _dy2st.not_(_dy2st.test_or(b, lambda: c))), ...)

`and` gives one of its operands, and a number and a tensor have no value in common; their truth values have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_if_exp, condition, is_symbolic, truth_value
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import thunk
from dy2st.source.nodes import TestBoolOp


def as_test(node: gast.expr) -> gast.expr:
    """Return an expression that stands where only its truth value counts."""
    if type(node) is gast.BoolOp:
        return gast.copy_location(TestBoolOp(node.op, [as_test(value) for value in node.values]), node)
    if isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.Not):
        node.operand = as_test(node.operand)
    return node


@rewrites(gast.IfExp, Phase.DESUGAR)
def mark_conditional(node: gast.IfExp, context: Context) -> gast.IfExp:
    """Return the test of a conditional expression."""
    node.test = as_test(node.test)
    return node


@rewrites(gast.Assert, Phase.DESUGAR)
def mark_assert(node: gast.Assert, context: Context) -> gast.Assert:
    """Return the test of an assertion."""
    node.test = as_test(node.test)
    return node


@rewrites(gast.UnaryOp, Phase.DESUGAR)
def mark_not(node: gast.UnaryOp, context: Context) -> gast.expr:
    """Return the operand of `not`, wherever it stands."""
    return as_test(node)


@rewrites(TestBoolOp, Phase.EXPRESSIONS)
def rewrite_test(node: TestBoolOp, context: Context) -> gast.expr:
    """Return the first operand as it is, the others as thunks."""
    rest = [thunk(value, context) for value in node.values[1:]]
    text = "_dy2st.test_and(first, rest)" if isinstance(node.op, gast.And) else "_dy2st.test_or(first, rest)"
    return context.expression(text, node, first=node.values[0], rest=rest)


@operator("test_and")
def test_and(first: Any, *rest: Callable[[], Any]) -> Any:
    """Return the truth value of `first and ...`, evaluated as lazily."""
    return _test(first, rest, decided=False)


@operator("test_or")
def test_or(first: Any, *rest: Callable[[], Any]) -> Any:
    """Return the truth value of `first or ...`, evaluated as lazily."""
    return _test(first, rest, decided=True)


def _test(value: Any, rest: tuple[Callable[[], Any], ...], decided: bool) -> Any:
    value = condition(value)
    if not rest:
        return value
    if is_symbolic(value):
        others = lambda: truth_value(_test(rest[0](), rest[1:], decided))  # noqa: E731
        known = lambda: decided  # noqa: E731
        return capture_if_exp(value, *((known, others) if decided else (others, known)))
    return value if bool(value) is decided else _test(rest[0](), rest[1:], decided)
