"""`try` statements with handlers.

    try:                    →   try:
        f(x)                        with _dy2st.handled(lambda: (ValueError,)):
    except ValueError:                  f(x)
        g(x)                    except _dy2st.signals():
                                    raise
                                except ValueError:
                                    g(x)

An exception that leaves a block of the program asks the operator whether somebody would catch it: that handler would have
to catch what a tensor decides, which no program does. The signals of the capture itself are nobody's to catch.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import SIGNALS
from dy2st.capture import handled as capture_handled
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Try, Phase.ACCESS)
def rewrite_try(node: gast.Try, context: Context) -> gast.Try:
    """Its body, if it has handlers."""
    if node.handlers:
        first = node.handlers[0]
        node.body = _handled(node, context)
        (signals,) = context.statements("try:\n    pass\nexcept _dy2st.signals():\n    raise", first)
        node.handlers.insert(0, signals.handlers[0])
    return node


@rewrites(gast.TryStar, Phase.ACCESS)
def rewrite_try_star(node: gast.TryStar, context: Context) -> gast.TryStar:
    """`except*` has no handler for what is no group: signals pass by themselves."""
    node.body = _handled(node, context)
    return node


def _handled(node: gast.Try, context: Context) -> list[gast.stmt]:
    at = node.body[0]
    kinds = [copy.deepcopy(handler.type) or template.constant(None, at) for handler in node.handlers]
    return context.statements("with _dy2st.handled(lambda: (kinds,)):\n    body", at, kinds=kinds, body=node.body)


@operator("handled")
def handled(kinds: Callable[[], tuple[Any, ...]]) -> contextlib.AbstractContextManager[Any]:
    """A scope in which exceptions of some kinds are caught by the user's code."""
    return capture_handled(kinds)


@operator("signals")
def signals() -> tuple[type[BaseException], ...]:
    """What moves through the user's code and is not meant for it."""
    return SIGNALS
