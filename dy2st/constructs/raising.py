"""`raise` statements.

    raise E(x)              →   raise _dy2st.raised(E(x))
    raise E(x) from c       →   raise _dy2st.raised_from(E(x), c)

The operator sees each exception on its way out; a bare `raise` is left alone.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture import raised as capture_raised
from dy2st.capture import raised_from as capture_raised_from
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.Raise, Phase.EXPRESSIONS)
def rewrite_raise(node: gast.Raise, context: Context) -> gast.Raise:
    """Pass the exception through the operator."""
    if node.cause is not None:
        node.exc = context.expression("_dy2st.raised_from(error, cause)", node.exc, error=node.exc, cause=node.cause)
        node.cause = None
    elif node.exc is not None:
        node.exc = context.expression("_dy2st.raised(error)", node.exc, error=node.exc)
    return node


@operator("raised")
def raised(error: Any) -> Any:
    """Return the exception, or its class, that is about to be raised."""
    return capture_raised(error)


@operator("raised_from")
def raised_from(error: Any, cause: Any) -> Any:
    """Return the same, with what it is raised from."""
    return capture_raised_from(error, cause)
