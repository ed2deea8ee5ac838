"""Conditional expressions.

a if t else b           →   _dy2st.if_exp(t, lambda: a, lambda: b)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_if_exp, condition, is_symbolic
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import thunk


@rewrites(gast.IfExp, Phase.EXPRESSIONS)
def rewrite_if_exp(node: gast.IfExp, context: Context) -> gast.expr:
    """Return the test as it is, both values as thunks."""
    then, orelse = thunk(node.body, context), thunk(node.orelse, context)
    text = "_dy2st.if_exp(test, then, orelse)"
    return context.expression(text, node, test=node.test, then=then, orelse=orelse)


@operator("if_exp")
def if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Evaluate one value, or capture both."""
    test = condition(test)
    if is_symbolic(test):
        return capture_if_exp(test, then, orelse)
    return then() if test else orelse()
