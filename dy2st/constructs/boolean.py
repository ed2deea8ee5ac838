"""`and`, `or` and `not`.

    a and f(x)              →   _dy2st.and_(a, lambda: f(x))
    a or b or c             →   _dy2st.or_(a, lambda: b, lambda: c)
    not a                   →   _dy2st.not_(a)

The operators are as lazy as Python, and give the operand that decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast
import torch

from dy2st.capture import capture_if_exp, condition, is_symbolic, logical_not
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import thunk


@rewrites(gast.BoolOp, Phase.EXPRESSIONS)
def rewrite_bool_op(node: gast.BoolOp, context: Context) -> gast.expr:
    """Return the first operand as it is, the others as thunks."""
    rest = [thunk(value, context) for value in node.values[1:]]
    text = "_dy2st.and_(first, rest)" if isinstance(node.op, gast.And) else "_dy2st.or_(first, rest)"
    return context.expression(text, node, first=node.values[0], rest=rest)


@rewrites(gast.UnaryOp, Phase.EXPRESSIONS)
def rewrite_unary_op(node: gast.UnaryOp, context: Context) -> gast.expr:
    """Rewrite `not` only: the others are calls of the operand's own methods."""
    if not isinstance(node.op, gast.Not):
        return node
    return context.expression("_dy2st.not_(value)", node, value=node.operand)


@operator("and_")
def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """Return `first and ...`."""
    value = first
    for index, operand in enumerate(rest):
        test = condition(value)
        if is_symbolic(test):
            decided, others = _decided(value, False), rest[index + 1 :]
            return capture_if_exp(test, lambda: and_(operand(), *others), lambda: decided)  # noqa: B023
        if not test:
            return value
        value = operand()
    return value


@operator("or_")
def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """Return `first or ...`."""
    value = first
    for index, operand in enumerate(rest):
        test = condition(value)
        if is_symbolic(test):
            decided, others = _decided(value, True), rest[index + 1 :]
            return capture_if_exp(test, lambda: decided, lambda: or_(operand(), *others))  # noqa: B023
        if test:
            return value
        value = operand()
    return value


def _decided(value: Any, truth: bool) -> Any:
    """Return a value that has ended an expression: a bool is known then, so that `test and False` is `False` on all ways."""
    return truth if isinstance(value, torch.SymBool) else value


@operator("not_")
def not_(value: Any) -> Any:
    """Return `not value`."""
    return logical_not(value)
