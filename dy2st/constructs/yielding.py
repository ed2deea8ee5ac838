"""Generator functions: what stands around a `yield` stays Python's own control flow.

    if c:                   →   if _dy2st.decided(c):
        yield x                     yield x
    for self.k in xs:       →   for item_1 in _dy2st.iterated(xs):
        yield self.k                self.k = item_1
                                    yield self.k
    yield from xs           →   yield from _dy2st.iterated(xs)

A function cannot yield for the one around it, so such a statement cannot become functions. Everything else in a generator is
rewritten as in any function.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st import names
from dy2st.capture import decided as capture_decided
from dy2st.constructs.condition import as_test
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


def decided_test(node: gast.If | gast.While, context: Context) -> gast.stmt:
    """Return an `if` or `while` with a test that Python decides."""
    node.test = context.expression("_dy2st.decided(test)", node.test, test=as_test(node.test))
    return node


def stepped(node: gast.For, context: Context) -> gast.stmt:
    """Return a `for` over what Python steps through."""
    node.iter = _iterated(node.iter, context)
    if not isinstance(node.target, gast.Name):
        (item,) = context.namer.numbered(names.ITEM)
        bind = context.statements("target = item", node.target, target=node.target, item=item)
        node.target = template.store(item, node.target)
        node.body = [*bind, *node.body]
    return node


@rewrites(gast.YieldFrom, Phase.ACCESS)
def rewrite_yield_from(node: gast.YieldFrom, context: Context) -> gast.YieldFrom:
    """Return its iterable goes through an operator."""
    node.value = _iterated(node.value, context)
    return node


def _iterated(value: gast.expr, context: Context) -> gast.expr:
    return context.expression("_dy2st.iterated(value)", value, value=value)


@operator("decided")
def decided(test: Any) -> Any:
    """Return a test that is no tensor's to decide."""
    return capture_decided(test)
