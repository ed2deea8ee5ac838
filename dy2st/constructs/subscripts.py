"""Reading items. Writing and deleting them is in assignment.py.

a[k]                    →   _dy2st.item(a, k)
a[i:j]                  →   _dy2st.item(a, _dy2st.slice(i, j, None))
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture.attributes import access
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Subscript, Phase.ACCESS)
def rewrite_subscript(node: gast.Subscript, context: Context) -> gast.expr:
    """Rewrite every item that the user reads."""
    if not isinstance(node.ctx, gast.Load):
        return node
    return context.expression("_dy2st.item(value, key)", node, value=node.value, key=node.slice)


@rewrites(gast.Slice, Phase.ACCESS)
def rewrite_slice(node: gast.Slice, context: Context) -> gast.expr:
    """Return a slice as a value."""
    none = template.constant(None, node)
    return context.expression(
        "_dy2st.slice(lower, upper, step)",
        node,
        lower=node.lower or none,
        upper=node.upper or none,
        step=node.step or none,
    )


@operator("item")
def item(value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    return access.item(value, key)


@operator("set_item")
def set_item(target: Any, key: Any, value: Any) -> None:
    """Do `target[key] = value`."""
    access.set_item(target, key, value)


@operator("del_item")
def del_item(target: Any, key: Any) -> None:
    """Do `del target[key]`."""
    access.del_item(target, key)


@operator("slice")
def make_slice(lower: Any, upper: Any, step: Any) -> Any:
    """Return `lower:upper:step`."""
    return slice(lower, upper, step)
