"""`with` statements over objects of the user's.

    with manager(x) as y:   →   with _dy2st.managed(_dy2st.call(manager, x)) as y:
        f(y)                        f(y)

The operator has the methods `__enter__` and `__exit__` run converted.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture import managed as capture_managed
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.withitem, Phase.CALLS)
def rewrite_item(node: gast.withitem, context: Context) -> gast.withitem:
    """Its manager."""
    manager = node.context_expr
    node.context_expr = context.expression("_dy2st.managed(manager)", manager, manager=manager)
    return node


@operator("managed")
def managed(manager: Any) -> Any:
    """A context manager whose methods run converted."""
    return capture_managed(manager)
