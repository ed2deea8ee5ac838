"""Generator functions as functions that give each item to the loop that takes them.

    def halved(n):              →   def halved(take, n):
        while n > 1:                    while n > 1:
            yield n                         if _dy2st.give(take, n):
            n = n // 2                          return
        yield from rest                     n = n // 2
                                        for item in rest:
                                            if _dy2st.give(take, item):
                                                return

So tensors may decide about the statements around a `yield`: they are rewritten like those of any function, with the body of the
loop in them. That is no difference where no handler, ``finally`` clause or context manager stands around a `yield`, and nobody
sends anything: only a loop that is there when the generator begins can take its items so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gast

from dy2st import names
from dy2st.analysis.yielding import has_yield
from dy2st.constructs.bodies import map_bodies
from dy2st.constructs.context import Context
from dy2st.constructs.registry import operator
from dy2st.source import template
from dy2st.source.nodes import walk

_YIELDS = (gast.Yield, gast.YieldFrom)
_AROUND = (gast.If, gast.For, gast.While)


def gives_items(statements: list[gast.stmt]) -> bool:
    """Tell whether each `yield` in some statements is one of its own, with nothing around it but branches and loops.

    What ends an iterator must not end the loop: in a generator it is another error.
    """
    return all(map(_gives_items, statements)) and not any(map(_may_stop, [node for one in statements for node in walk(one)]))


def _may_stop(node: gast.AST) -> bool:
    """Tell whether a part of the function may raise StopIteration itself."""
    is_next = isinstance(node, gast.Call) and isinstance(node.func, gast.Name) and node.func.id == "next" and len(node.args) == 1
    return is_next or (isinstance(node, gast.Name) and node.id == "StopIteration")


def _gives_items(node: gast.stmt) -> bool:
    if not has_yield(node):
        return True
    if isinstance(node, gast.Expr):
        return isinstance(node.value, _YIELDS) and not (node.value.value is not None and has_yield(node.value.value))
    if not isinstance(node, _AROUND):
        return False
    tested = node.iter if isinstance(node, gast.For) else node.test
    return not has_yield(tested) and all(map(_gives_items, (*node.body, *node.orelse)))


def push(context: Context) -> None:
    """Rewrite the function: it gets one more parameter, which is called with each item, and tells whether to stop."""
    arguments = context.root.args
    arguments.kwonlyargs.append(gast.Name(id=names.TAKE, ctx=gast.Param(), annotation=None, type_comment=None))
    arguments.kw_defaults.append(None)
    context.root.body = _given(context.root.body, context)


def _given(body: Sequence[gast.stmt], context: Context) -> list[gast.stmt]:
    return [new for node in body for new in _statement(node, context)]


def _statement(node: gast.stmt, context: Context) -> list[gast.stmt]:
    if isinstance(node, gast.Expr) and isinstance(node.value, gast.Yield):
        value = node.value.value or template.constant(None, node)
        return context.statements("if _dy2st.give(take, value):\n    return", node, take=names.TAKE, value=value)
    if isinstance(node, gast.Expr) and isinstance(node.value, gast.YieldFrom):
        (item,) = context.namer.numbered(names.ITEM)
        text = "for item in values:\n    if _dy2st.give(take, item):\n        return"
        return context.statements(text, node, take=names.TAKE, item=item, values=node.value.value)
    if isinstance(node, gast.Return) and node.value is not None:  # nobody asks for it
        return context.statements("value\nreturn", node, value=node.value)
    if isinstance(node, (gast.For, gast.While)):
        node.body, node.orelse = _given(node.body, context), _given(node.orelse, context)
        return [node]
    return [map_bodies(node, lambda inner: _given(inner, context))]


@operator("give")
def give(take: Any, value: Any) -> Any:
    """Give an item to the loop that takes them; whether it has been left."""
    return take(value)
