"""Reading attributes. Writing and deleting them is in assignment.py.

a.b                     →   _dy2st.attr(a, 'b')
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture.attributes import assignment, attributes
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Attribute, Phase.ACCESS)
def rewrite_attribute(node: gast.Attribute, context: Context) -> gast.expr:
    """Rewrite every attribute that the user reads."""
    if not isinstance(node.ctx, gast.Load) or context.is_operators(node.value):
        return node
    name = template.constant(node.attr, node)
    return context.expression("_dy2st.attr(value, name)", node, value=node.value, name=name)


@operator("attr")
def attr(value: Any, name: str) -> Any:
    """Return `value.name`."""
    return attributes.attr(value, name)


@operator("set_attr")
def set_attr(target: Any, name: str, value: Any) -> None:
    """Do `target.name = value`."""
    assignment.set_attr(target, name, value)


@operator("del_attr")
def del_attr(target: Any, name: str) -> None:
    """Do `del target.name`."""
    assignment.del_attr(target, name)
