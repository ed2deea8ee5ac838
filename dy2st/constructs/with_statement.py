"""`with` statements.

    with manager(x) as y:   →   def with_1(entered_1):
        z = f(y)                    nonlocal z
                                    y = entered_1
                                    z = f(y)
                                _dy2st.with_stmt(manager(x), with_1, ('z',), ('z',))

    with torch.no_grad():   →   with _dy2st.managed(torch.no_grad()):
        y = f(x)                    y = f(x)

A manager may end an exception that a tensor decides, like a handler (see try_statement.py); those of torch don't. Around a
`yield` the statement stays. The operators have the methods `__enter__` and `__exit__` run converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gast

from dy2st.analysis.blocks import is_block_statement, may_swallow
from dy2st.capture import capture_with
from dy2st.capture import managed as capture_managed
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.With, Phase.DESUGAR)
def rewrite_items(node: gast.With, context: Context) -> gast.With:
    """Return one statement for each manager."""
    if len(node.items) > 1 and any(may_swallow(item.context_expr) for item in node.items):
        first, *rest = node.items
        inner = template.place(gast.With(items=rest, body=node.body, type_comment=None), node)
        node.items, node.body = [first], [rewrite_items(inner, context)]
    return node


@rewrites(gast.With, Phase.BLOCKS)
def rewrite_with(node: gast.With, context: Context) -> gast.With | list[gast.stmt]:
    """Return its body as a function."""
    if id(node) in context.plain or not is_block_statement(node):
        return node
    plan, (item,) = context.plan.of(node), node.items
    function, entered = context.labels[id(node)]
    target, at = item.optional_vars, node.body[0]
    bind = [] if target is None else context.statements("target = entered", target, target=target, entered=entered)
    return [
        *context.block_function(function, [*bind, *node.body], plan.blocks[0], at, entered),
        *context.statements(
            "_dy2st.with_stmt(manager, function, names, caught)", item.context_expr, manager=item.context_expr, function=function,
            names=template.constant(plan.names, node), caught=template.constant(plan.caught, node),
        ),
    ]  # fmt: skip


@rewrites(gast.withitem, Phase.CALLS)
def rewrite_item(node: gast.withitem, context: Context) -> gast.withitem:
    """Return its manager."""
    manager = node.context_expr
    node.context_expr = context.expression("_dy2st.managed(manager)", manager, manager=manager)
    return node


@operator("with_stmt")
def with_stmt(manager: Any, body: Callable[[Any], None], names: Sequence[str], caught: Sequence[str]) -> None:
    """Run the body within the manager."""
    capture_with(manager, body, names, caught)


@operator("managed")
def managed(manager: Any) -> Any:
    """Return a context manager whose methods run converted."""
    return capture_managed(manager)
