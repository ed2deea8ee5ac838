"""`try` statements with handlers.

    try:                    →   try:
        f(x)                        with _dy2st.handled():
    except ValueError:                  f(x)
        g(x)                    except ValueError:
                                    g(x)

The operator tells a `raise` inside whether somebody would catch it: a handler in the same block of the program does so
during capture; a handler further out would have to catch what a tensor decides, which no program does.
"""

from __future__ import annotations

import contextlib
from typing import Any

import gast

from dy2st.capture import handled as capture_handled
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.Try, Phase.ACCESS)
def rewrite_try(node: gast.Try, context: Context) -> gast.Try:
    """Its body, if it has handlers."""
    if node.handlers:
        node.body = context.statements("with _dy2st.handled():\n    body", node.body[0], body=node.body)
    return node


@operator("handled")
def handled() -> contextlib.AbstractContextManager[Any]:
    """A scope in which exceptions are caught by the user's code."""
    return capture_handled()
