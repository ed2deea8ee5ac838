"""`try` statements.

    try:                    →   def try_1():
        y = f(x)                    nonlocal y
    except ValueError:              y = f(x)
        y = x                   def except_1(error_1):
                                    nonlocal y
                                    y = x
                                _dy2st.try_stmt(try_1, ((lambda: ValueError, except_1),), None, ('y',), ('y',))

An exception that leaves a block of the program inside is carried out of it as a value of the program, and what the handler does
becomes a branch (see capture/caught.py); the operator gets the names that are read afterwards, and those that handlers, or what
follows them, may see as they were. Where functions cannot be made, around a `yield`, the handlers stay:

    try:                    →   try:
        yield x                     with _dy2st.handled(lambda: (ValueError,)):
    except ValueError:                  yield x
        g(x)                    except _dy2st.signals():
                                    raise
                                except ValueError:
                                    g(x)

    try:                    →   def final_1():
        f(x)                        g(x)
    finally:                    try:
        g(x)                        with _dy2st.finalized(final_1):
                                        f(x)
                                finally:
                                    g(x)

An exception that leaves a block of the program asks the operators who would catch it. On its way out it passes the `finally`
clauses around the block, which the block runs through the functions. The signals of the capture itself are nobody's to catch.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

import gast

from dy2st import names
from dy2st.analysis.blocks import Block
from dy2st.analysis.scopes import names_in
from dy2st.capture import SIGNALS, capture_try
from dy2st.capture import finalized as capture_finalized
from dy2st.capture import handled as capture_handled
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Try, Phase.BLOCKS)
def rewrite_blocks(node: gast.Try, context: Context) -> gast.Try | list[gast.stmt]:
    """Return its body and handlers as functions, within its last clause."""
    if not node.handlers or id(node) in context.plain:
        return node
    plan, labels = context.plan.of(node), context.labels[id(node)]
    attempt, otherwise, error, *excepts = labels
    first, *blocks, last = plan.blocks
    results = context.block_function(attempt, node.body, first, node.body[0])
    kinds = []
    for handler, block, function in zip(node.handlers, blocks, excepts):
        results += context.block_function(function, _named(handler, block, error, context), block, handler, error)
        text = "(lambda: kind, function)" if handler.type is not None else "(None, function)"
        kinds.append(context.expression(text, handler, kind=handler.type, function=function))
    if node.orelse:
        results += context.block_function(otherwise, node.orelse, last, node.orelse[0])
    orelse = template.load(otherwise, node) if node.orelse else template.constant(None, node)
    at = _keyword(node)
    results += context.statements(
        "_dy2st.try_stmt(attempt, (kinds,), orelse, names, caught)", at, attempt=attempt, kinds=kinds, orelse=orelse,
        names=template.constant(plan.names, at), caught=template.constant(plan.caught, at),
    )  # fmt: skip
    if not node.finalbody:
        return results
    node.body, node.handlers, node.orelse = results, [], []
    return node


def _keyword(node: gast.stmt) -> gast.stmt:
    """Return a node where a statement starts: a call is said to be at the last line of the function that it calls."""
    at = template.place(gast.Pass(), node)
    at.end_lineno, at.end_col_offset = at.lineno, at.col_offset
    return at


def _named(handler: gast.ExceptHandler, block: Block, error: str, context: Context) -> list[gast.stmt]:
    """Return the body of a handler, in which the exception has its name; the name is unbound afterwards."""
    if handler.name is None:
        return list(handler.body)
    name = handler.name.id
    if name not in (*block.nonlocals, *block.globals):
        return [*context.statements("name = error", handler, name=name, error=error), *handler.body]
    unbind = context.undefined([name], handler) if name in block.nonlocals else context.statements("del name", handler, name=name)
    text = "name = error\ntry:\n    body\nfinally:\n    unbind"
    return context.statements(text, handler, name=name, error=error, body=handler.body, unbind=unbind)


@operator("try_stmt")
def try_stmt(
    attempt: Callable[[], None],
    handlers: Sequence[tuple[Callable[[], Any] | None, Callable[[BaseException], None]]],
    orelse: Callable[[], None] | None,
    names: Sequence[str],
    caught: Sequence[str],
) -> None:
    """Run the body, and the handler that takes the exception which leaves it."""
    capture_try(attempt, handlers, orelse, names, caught)


@rewrites(gast.Try, Phase.ACCESS)
def rewrite_try(node: gast.Try, context: Context) -> gast.Try | list[gast.stmt]:
    """Return its handlers and its last clause."""
    if node.handlers:
        first = node.handlers[0]
        node.body = _handled(node, context)
        (signals,) = context.statements("try:\n    pass\nexcept _dy2st.signals():\n    raise", first)
        node.handlers.insert(0, signals.handlers[0])
    return _finalized(node, context)


@rewrites(gast.TryStar, Phase.ACCESS)
def rewrite_try_star(node: gast.TryStar, context: Context) -> gast.TryStar | list[gast.stmt]:
    """Return `except*` has no handler for what is no group: signals pass by themselves."""
    node.body = _handled(node, context, "handled_in_groups")
    return _finalized(node, context)


def _handled(node: gast.Try, context: Context, scope: str = "handled") -> list[gast.stmt]:
    at = node.body[0]
    kinds = [copy.deepcopy(handler.type) or template.constant(None, at) for handler in node.handlers]
    return context.statements(f"with _dy2st.{scope}(lambda: (kinds,)):\n    body", at, kinds=kinds, body=node.body)


def _finalized(node: gast.Try, context: Context) -> gast.Try | list[gast.stmt]:
    """Have the `finally` clause as a function, too."""
    if not node.finalbody:
        return node
    (function,) = context.functions(names.FINAL)
    final, node.finalbody = node.finalbody, []
    inner = [node] if node.handlers else node.body
    return context.statements(
        _FINALIZED, node, function=function, inner=inner, final=final,
        again=copy.deepcopy(final), outer=_assigned(final, context), module=context.declared_globals,
    )  # fmt: skip


def _assigned(body: list[gast.stmt], context: Context) -> tuple[str, ...]:
    use = names_in(body)
    bound = dict.fromkeys((*use.writes, *use.deletes))
    return tuple(name for name in bound if name not in context.declared_globals and name not in context.generated)


_FINALIZED = """
    def function():
        nonlocal outer
        global module
        again
    try:
        with _dy2st.finalized(function):
            inner
    finally:
        final
"""


@operator("finalized")
def finalized(function: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a scope with a `finally` clause."""
    return capture_finalized(function)


@operator("handled")
def handled(kinds: Callable[[], tuple[Any, ...]]) -> contextlib.AbstractContextManager[Any]:
    """Return a scope in which exceptions of some kinds are caught by the user's code."""
    return capture_handled(kinds)


@operator("handled_in_groups")
def handled_in_groups(kinds: Callable[[], tuple[Any, ...]]) -> contextlib.AbstractContextManager[Any]:
    """Return the same of `except*`, which takes them out of groups."""
    return capture_handled(kinds, True)


@operator("signals")
def signals() -> tuple[type[BaseException], ...]:
    """Return what moves through the user's code and is not meant for it."""
    return SIGNALS
