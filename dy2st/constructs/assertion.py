"""`assert` statements.

    assert t                →   _dy2st.assert_(t, None)
    assert t, message       →   _dy2st.assert_(t, lambda: message)

Under `python -O` they vanish, as they do in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import capture_assert, condition, is_symbolic, raised
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import thunk
from dy2st.source import template


@rewrites(gast.Assert, Phase.EXPRESSIONS)
def rewrite_assert(node: gast.Assert, context: Context) -> list[gast.stmt]:
    """Return the test as it is, the message as a thunk."""
    if not __debug__:
        return context.statements("pass", node)
    message = template.constant(None, node) if node.msg is None else thunk(node.msg, context)
    return context.statements("_dy2st.assert_(test, message)", node, test=node.test, message=message)


@operator("assert_")
def assert_(test: Any, message: Callable[[], Any] | None) -> None:
    """Raise, or capture the check."""
    test = condition(test)
    if is_symbolic(test):
        capture_assert(test, message)
    elif not test:
        raise raised(AssertionError() if message is None else AssertionError(message()))
