"""`for` loops.

    for i in range(n):      →   def body_1(item_1):
        h = h + i                   nonlocal h
                                    i = item_1
                                    h = h + i
                                _dy2st.for_stmt(range(n), body_1, ('h',), None)

A loop that may break passes `lambda: not break_1` instead of `None`; it is asked before each step of the iterator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_for, looped
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, operator, rewrites
from dy2st.constructs.yielding import stepped
from dy2st.source import template
from dy2st.source.nodes import GuardedFor


@rewrites(gast.For, Phase.BLOCKS)
def rewrite_for(node: gast.For, context: Context) -> Rewritten:
    """Return a loop without `break`."""
    if id(node) in context.plain:
        return stepped(node, context)
    return _loop(node, template.constant(None, node.iter), context)


@rewrites(GuardedFor, Phase.BLOCKS)
def rewrite_guarded_for(node: GuardedFor, context: Context) -> list[gast.stmt]:
    """Return a loop with `break`."""
    return _loop(node, template.expression("lambda: test", node.iter, test=node.test), context)


def _loop(node: gast.For, test: gast.expr, context: Context) -> list[gast.stmt]:
    plan = context.plan.of(node)
    body, item = context.labels[id(node)]
    bind = context.statements("target = item", node.target, target=node.target, item=item)
    return [
        *context.block_function(body, [*bind, *node.body], plan.blocks[0], node.body[0], item),
        *context.statements(
            "_dy2st.for_stmt(iterable, body, names, test)",
            node.iter,
            iterable=node.iter,
            body=body,
            names=template.constant(plan.names, node.iter),
            test=test,
        ),
    ]


@operator("for_stmt")
def for_stmt(iterable: Any, body: Callable[[Any], None], names: tuple[str, ...], test: Callable[[], Any] | None) -> None:
    """Run the loop; the capture decides when the iterable is symbolic."""
    iterable = looped(iterable)  # a view of a dict is not held from here on
    return capture_for(iterable, body, names, test)
