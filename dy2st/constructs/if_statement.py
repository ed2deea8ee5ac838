"""`if` statements.

    if x.sum() > 0:         →   def then_1():
        y = x                       nonlocal y
    else:                           y = x
        y = -x                  def else_1():
                                    nonlocal y
                                    y = -x
                                _dy2st.if_stmt(x.sum() > 0, then_1, else_1, ('y',))

The state of the branches travels through the live closure cells of the two functions; the last argument names the cells
that are read after the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_if, condition, is_symbolic, report_site
from dy2st.constructs.condition import as_test
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, operator, rewrites
from dy2st.constructs.yielding import decided_test
from dy2st.source import template


@rewrites(gast.If, Phase.BLOCKS)
def rewrite_if(node: gast.If, context: Context) -> Rewritten:
    """Return two functions and the call of the operator."""
    if id(node) in context.plain:
        return decided_test(node, context)
    plan = context.plan.of(node)
    then, orelse = context.labels[id(node)]
    return [
        *context.block_function(then, node.body, plan.blocks[0], node.body[0]),
        *context.block_function(orelse, node.orelse, plan.blocks[1], node.orelse[0] if node.orelse else node),
        *context.statements(
            "_dy2st.if_stmt(test, then, orelse, names)",
            node.test,
            test=as_test(node.test),
            then=then,
            orelse=orelse,
            names=template.constant(plan.names, node.test),
        ),
    ]


@operator("if_stmt")
def if_stmt(test: Any, then: Callable[[], None], orelse: Callable[[], None], names: tuple[str, ...]) -> None:
    """Run one branch, or capture both."""
    test = condition(test)
    if is_symbolic(test):
        capture_if(test, then, orelse, names)
        return
    report_site("if", "plain Python", "the test is a Python value")
    if test:
        then()
    else:
        orelse()
