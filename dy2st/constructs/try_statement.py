"""`try` statements with handlers.

    try:                    →   try:
        f(x)                        with _dy2st.handled(lambda: (ValueError,)):
    except ValueError:                  f(x)
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

An exception that leaves a block of the program asks the operators whether somebody would catch it: that handler would have
to catch what a tensor decides, which no program does. On its way out it passes the `finally` clauses around the block, which
the block runs through the functions. The signals of the capture itself are nobody's to catch.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import gast

from dy2st import names
from dy2st.analysis.scopes import names_in
from dy2st.capture import SIGNALS
from dy2st.capture import finalized as capture_finalized
from dy2st.capture import handled as capture_handled
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Try, Phase.ACCESS)
def rewrite_try(node: gast.Try, context: Context) -> gast.Try | list[gast.stmt]:
    """Its handlers and its last clause."""
    if node.handlers:
        first = node.handlers[0]
        node.body = _handled(node, context)
        (signals,) = context.statements("try:\n    pass\nexcept _dy2st.signals():\n    raise", first)
        node.handlers.insert(0, signals.handlers[0])
    return _finalized(node, context)


@rewrites(gast.TryStar, Phase.ACCESS)
def rewrite_try_star(node: gast.TryStar, context: Context) -> gast.TryStar | list[gast.stmt]:
    """`except*` has no handler for what is no group: signals pass by themselves."""
    node.body = _handled(node, context)
    return _finalized(node, context)


def _handled(node: gast.Try, context: Context) -> list[gast.stmt]:
    at = node.body[0]
    kinds = [copy.deepcopy(handler.type) or template.constant(None, at) for handler in node.handlers]
    return context.statements("with _dy2st.handled(lambda: (kinds,)):\n    body", at, kinds=kinds, body=node.body)


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
    """A scope with a `finally` clause."""
    return capture_finalized(function)


@operator("handled")
def handled(kinds: Callable[[], tuple[Any, ...]]) -> contextlib.AbstractContextManager[Any]:
    """A scope in which exceptions of some kinds are caught by the user's code."""
    return capture_handled(kinds)


@operator("signals")
def signals() -> tuple[type[BaseException], ...]:
    """What moves through the user's code and is not meant for it."""
    return SIGNALS
