"""Annotated assignments, whose annotations Python does not evaluate in functions.

x: int = 1              →   x = 1
x: int                  →   (nothing)
a.b: int                →   a
"""

from __future__ import annotations

import gast

from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites


@rewrites(gast.AnnAssign, Phase.DESUGAR)
def rewrite_ann_assign(node: gast.AnnAssign, context: Context) -> list[gast.stmt]:
    """Return a plain assignment, or what is left of the target's evaluation."""
    target = node.target
    if node.value is not None:
        return context.statements("target = value", node, target=target, value=node.value)
    if isinstance(target, gast.Name):
        return []
    parts = [target.value] if isinstance(target, gast.Attribute) else [target.value, target.slice]
    return [statement for part in parts for statement in context.statements("part", node, part=part)]
