"""Formatted strings.

f"n = {n:>{w}} {x!r}"   →   _dy2st.fstring('n = ', (n, None, _dy2st.fstring('>', (w, None, ''))), ' ', (x, 'r', ''))
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture.texts import text
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template

_NO_CONVERSION = -1


@rewrites(gast.JoinedStr, Phase.EXPRESSIONS)
def rewrite_joined_str(node: gast.JoinedStr, context: Context) -> gast.expr:
    """Return text and values, in order; a string without values is a literal."""
    if all(isinstance(value, gast.Constant) for value in node.values):
        return template.constant("".join(value.value for value in node.values), node)
    parts = [_part(value, context) for value in node.values if not _is_empty(value)]
    return context.expression("_dy2st.fstring(parts)", node, parts=parts)


def _is_empty(node: gast.expr) -> bool:
    """Python 3.12 ends some format specifications with an empty text."""
    return isinstance(node, gast.Constant) and node.value == ""


def _part(node: gast.expr, context: Context) -> gast.expr:
    if isinstance(node, gast.Constant):
        return node
    conversion = None if node.conversion == _NO_CONVERSION else chr(node.conversion)
    return context.expression(
        "(value, conversion, spec)",
        node,
        value=node.value,
        conversion=template.constant(conversion, node),
        spec=node.format_spec or template.constant("", node),
    )


@operator("fstring")
def fstring(*parts: Any) -> Any:
    """Return the string; each part is text, or (value, conversion character or None, format specification)."""
    return text.fstring(*parts)
