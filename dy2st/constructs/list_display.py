"""List displays.

    [a, b]                  →   _dy2st.own([a, b])

The operator remembers in which block a list was made: there it becomes a list of the program, should its length ever depend on a
tensor.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture import current
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.List, Phase.ACCESS)
def rewrite_list(node: gast.List, context: Context) -> gast.expr:
    """Every list that is read; a list of targets stays."""
    if not isinstance(node.ctx, gast.Load):
        return node
    return context.expression("_dy2st.own(value)", node, value=node)


@operator("own")
def own(value: list[Any]) -> list[Any]:
    """The list that has just been made."""
    session = current()
    if session is not None:
        session.own_list(value)
    return value
