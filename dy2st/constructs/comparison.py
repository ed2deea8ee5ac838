"""Comparisons that are no method call of their operands.

    a is b, a in b          →   _dy2st.is_(a, b), _dy2st.in_(a, b)
    a is not b, a not in b  →   _dy2st.is_not(a, b), _dy2st.not_in(a, b)
    a < b < c               →   _dy2st.compare(a, ('<', lambda: b), ('<', lambda: c))
    a == b, a != b          →   _dy2st.equal(a, b), _dy2st.not_equal(a, b)      (of expressions, among calls and accesses)
    a < b                   →   _dy2st.related('<', a, b)                       (the same)

In a chain each operand is evaluated once, and only while the chain holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import gast

from dy2st.capture import capture_if_exp, condition, is_symbolic, logical_not
from dy2st.capture.operators import comparisons, relations
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import thunk
from dy2st.source import template

Link: TypeAlias = tuple[str, Callable[[], Any]]

_SINGLE = {
    gast.Is: "_dy2st.is_(left, right)",
    gast.IsNot: "_dy2st.is_not(left, right)",
    gast.In: "_dy2st.in_(left, right)",
    gast.NotIn: "_dy2st.not_in(left, right)",
}
_SYMBOLS = {
    gast.Eq: "==",
    gast.NotEq: "!=",
    gast.Lt: "<",
    gast.LtE: "<=",
    gast.Gt: ">",
    gast.GtE: ">=",
    gast.Is: "is",
    gast.IsNot: "is not",
    gast.In: "in",
    gast.NotIn: "not in",
}


@rewrites(gast.Compare, Phase.EXPRESSIONS)
def rewrite_compare(node: gast.Compare, context: Context) -> gast.expr:
    """Chains, identity and membership."""
    if len(node.ops) == 1:
        text = _SINGLE.get(type(node.ops[0]))
        if text is None:
            return node
        return context.expression(text, node, left=node.left, right=node.comparators[0])
    links = [
        context.expression(
            "(symbol, operand)",
            right,
            symbol=template.constant(_SYMBOLS[type(comparison)], right),
            operand=thunk(right, context),
        )
        for comparison, right in zip(node.ops, node.comparators, strict=True)
    ]
    return context.expression("_dy2st.compare(left, links)", node, left=node.left, links=links)


_EQUALITY = {gast.Eq: "_dy2st.equal(left, right)", gast.NotEq: "_dy2st.not_equal(left, right)"}


@rewrites(gast.Compare, Phase.ACCESS)
def rewrite_relation(node: gast.Compare, context: Context) -> gast.expr:
    """Equality and order of two expressions, which may be tuples or objects of the user's."""
    right, kind = node.comparators[0], type(node.ops[0])
    constant = isinstance(node.left, gast.Constant) or isinstance(right, gast.Constant)
    if len(node.ops) > 1 or constant:
        return node
    if kind in _EQUALITY:
        return context.expression(_EQUALITY[kind], node, left=node.left, right=right)
    symbol = template.constant(_SYMBOLS[kind], node)
    return context.expression("_dy2st.related(symbol, left, right)", node, symbol=symbol, left=node.left, right=right)


@operator("equal")
def equal(left: Any, right: Any) -> Any:
    """Return `left == right`."""
    return comparisons.equal(left, right)


@operator("not_equal")
def not_equal(left: Any, right: Any) -> Any:
    """Return `left != right`."""
    return comparisons.not_equal(left, right)


@operator("related")
def related(symbol: str, left: Any, right: Any) -> Any:
    """Return `left < right`, or what the symbol says."""
    return relations.related(symbol, left, right)


@operator("is_")
def is_(left: Any, right: Any) -> Any:
    """Return `left is right`."""
    return comparisons.is_(left, right)


@operator("is_not")
def is_not(left: Any, right: Any) -> Any:
    """Return `left is not right`."""
    return logical_not(comparisons.is_(left, right))


@operator("in_")
def in_(item: Any, container: Any) -> Any:
    """Return `item in container`."""
    return comparisons.in_(item, container)


@operator("not_in")
def not_in(item: Any, container: Any) -> Any:
    """Return `item not in container`."""
    return logical_not(comparisons.in_(item, container))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": equal,
    "!=": not_equal,
    **{symbol: functools.partial(relations.related, symbol) for symbol in relations.RELATIONS},
    "is": is_,
    "is not": is_not,
    "in": in_,
    "not in": not_in,
}


@operator("compare")
def compare(left: Any, *links: Link) -> Any:
    """Return a chain of comparisons."""
    (symbol, operand), rest = links[0], links[1:]
    right = operand()
    result = _COMPARISONS[symbol](left, right)
    if not rest:
        return result
    test = condition(result)
    if is_symbolic(test):
        return capture_if_exp(test, lambda: compare(right, *rest), lambda: result)
    return compare(right, *rest) if test else result
