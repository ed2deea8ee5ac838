"""`while` loops.

    while h.norm() < 9:     →   def test_1():
        h = h * 2                   return h.norm() < 9
                                def body_1():
                                    nonlocal h
                                    h = h * 2
                                _dy2st.while_stmt(test_1, body_1, ('h',))

`break`, `continue` and `else` are gone by then (see jumps.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_while
from dy2st.constructs.condition import as_test
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, operator, rewrites
from dy2st.constructs.yielding import decided_test
from dy2st.source import template


@rewrites(gast.While, Phase.BLOCKS)
def rewrite_while(node: gast.While, context: Context) -> Rewritten:
    """Test and body as functions, and the call of the operator."""
    if id(node) in context.plain:
        return decided_test(node, context)
    plan = context.plan.of(node)
    test, body = context.labels[id(node)]
    value = template.statements("return value", node.test, value=as_test(node.test))
    return [
        *context.block_function(test, value, plan.blocks[0], node.test),
        *context.block_function(body, node.body, plan.blocks[1], node.body[0]),
        *context.statements(
            "_dy2st.while_stmt(test, body, names)",
            node.test,
            test=test,
            body=body,
            names=template.constant(plan.names, node.test),
        ),
    ]


@operator("while_stmt")
def while_stmt(test: Callable[[], Any], body: Callable[[], None], names: tuple[str, ...]) -> None:
    """Run the loop; the capture decides when a test is symbolic."""
    return capture_while(test, body, names)
